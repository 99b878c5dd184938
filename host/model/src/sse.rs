//! Server-sent events: bytes in any pieces become events. It knows nothing of what the events mean.
//!
//! The format is the one of the HTML standard (section 9.2), with two allowances for servers that fall out of it: the
//! last event counts also without an empty line after it, and a line that begins with `{` is taken as data, with the lines
//! that follow it: Google writes a failure into a stream as bare JSON of many lines.

use std::mem;

/// Bytes of one line, and of the data of one event. The arguments of a call may hold a mebibyte and arrive in one
/// line, where escaping can make them several times as long.
pub(crate) const LINE_BYTES_MAX: usize = 8 << 20;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// One event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Event {
    /// The `event` field; empty when there was none.
    pub(crate) name: String,
    /// The `data` lines, joined by line feeds.
    pub(crate) data: String,
}

/// A line or an event is longer than [`LINE_BYTES_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a line of the stream is longer than {LINE_BYTES_MAX} bytes")]
pub(crate) struct TooLong;

/// What is left over between two pieces of a stream.
#[derive(Debug, Default)]
pub(crate) struct Parser {
    line: Vec<u8>,
    event: Event,
    has_data: bool,
    /// The data began with a bare line, so that the lines after it belong to it.
    is_bare: bool,
    /// The last byte was a carriage return, so a line feed belongs to it.
    after_return: bool,
    /// The first line was seen, so no byte order mark can follow.
    begun: bool,
    /// An event was given away.
    has_given: bool,
}

impl Parser {
    /// Takes the next piece, and adds the events that it completes to `events`.
    ///
    /// # Errors
    /// [`TooLong`]; the parser is of no use afterwards.
    pub(crate) fn push(&mut self, mut bytes: &[u8], events: &mut Vec<Event>) -> Result<(), TooLong> {
        if bytes.is_empty() {
            return Ok(());
        }
        if mem::take(&mut self.after_return) {
            bytes = bytes.strip_prefix(b"\n").unwrap_or(bytes);
        }
        while let Some(end) = bytes.iter().position(|b| matches!(b, b'\n' | b'\r')) {
            self.extend_line(&bytes[..end])?;
            self.end_line(events)?;
            let is_return = bytes[end] == b'\r';
            bytes = &bytes[end + 1..];
            if is_return && bytes.is_empty() {
                self.after_return = true;
            } else if is_return {
                bytes = bytes.strip_prefix(b"\n").unwrap_or(bytes);
            }
        }
        self.extend_line(bytes)
    }

    /// Whether all that came is the beginning of one bare JSON value: then it may be no stream at all. `finish` gives it
    /// as an event.
    pub(crate) fn is_one_value(&self) -> bool {
        let begins = |line: &[u8]| line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line).starts_with(b"{");
        !self.has_given && (self.is_bare || !self.has_data && begins(&self.line))
    }

    /// Takes the end of the stream, and adds an event that was not yet ended.
    ///
    /// # Errors
    /// [`TooLong`].
    pub(crate) fn finish(&mut self, events: &mut Vec<Event>) -> Result<(), TooLong> {
        if !self.line.is_empty() {
            self.end_line(events)?;
        }
        self.dispatch(events);
        Ok(())
    }

    fn extend_line(&mut self, bytes: &[u8]) -> Result<(), TooLong> {
        if self.line.len() + bytes.len() > LINE_BYTES_MAX {
            return Err(TooLong);
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn end_line(&mut self, events: &mut Vec<Event>) -> Result<(), TooLong> {
        let line = mem::take(&mut self.line);
        let mut bytes = line.as_slice();
        if !mem::replace(&mut self.begun, true) {
            bytes = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes);
        }
        if bytes.is_empty() {
            self.dispatch(events);
            return Ok(());
        }
        // Only a whole line is decoded: a character may be cut by the border of two pieces.
        let text = String::from_utf8_lossy(bytes);
        if text.starts_with('{') || self.is_bare && !text.starts_with("data:") {
            self.is_bare = true;
            return self.add_data(&text);
        }
        let (field, value) = text.split_once(':').unwrap_or((&text, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => self.add_data(value)?,
            "event" => value.clone_into(&mut self.event.name),
            // A comment has an empty field; `id` and `retry` are about reconnecting, which no provider offers.
            _ => {}
        }
        Ok(())
    }

    fn add_data(&mut self, value: &str) -> Result<(), TooLong> {
        if self.event.data.len() + value.len() + 1 > LINE_BYTES_MAX {
            return Err(TooLong);
        }
        if mem::replace(&mut self.has_data, true) {
            self.event.data.push('\n');
        }
        self.event.data.push_str(value);
        Ok(())
    }

    fn dispatch(&mut self, events: &mut Vec<Event>) {
        let event = mem::take(&mut self.event);
        self.is_bare = false;
        if mem::take(&mut self.has_data) {
            self.has_given = true;
            events.push(event);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn event(name: &str, data: &str) -> Event {
        Event { name: name.into(), data: data.into() }
    }

    fn parse<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<Event> {
        let (mut parser, mut events) = (Parser::default(), Vec::new());
        for piece in pieces {
            parser.push(piece, &mut events).unwrap();
        }
        parser.finish(&mut events).unwrap();
        events
    }

    fn whole(text: &str) -> Vec<Event> {
        parse([text.as_bytes()])
    }

    #[test]
    fn a_line_ends_with_any_of_the_three_endings() {
        for ending in ["\n", "\r\n", "\r"] {
            let text = format!("data: a{ending}{ending}data: b{ending}{ending}");
            assert_eq!(whole(&text), [event("", "a"), event("", "b")], "{ending:?}");
        }
        assert_eq!(whole("data: a\r\rdata: b\r\n\ndata: c\n\r\n"), [event("", "a"), event("", "b"), event("", "c")]);
    }

    #[test]
    fn one_space_after_the_colon_is_dropped_and_none_is_needed() {
        assert_eq!(whole("data:[DONE]\n\ndata:  two\n\n"), [event("", "[DONE]"), event("", " two")]);
    }

    #[test]
    fn several_data_lines_are_joined() {
        assert_eq!(whole("data: {\ndata\ndata: }\n\n"), [event("", "{\n\n}")]);
    }

    #[test]
    fn comments_and_other_fields_are_ignored() {
        assert_eq!(
            whole(": OPENROUTER PROCESSING\n\nid: 7\nretry: 3\nevent: error\ndata: x\nnonsense\n\n"),
            [event("error", "x")]
        );
    }

    #[test]
    fn an_event_without_data_is_none_and_its_name_is_forgotten() {
        assert_eq!(whole("event: ping\n\ndata: a\n\n"), [event("", "a")]);
    }

    #[test]
    fn the_last_event_counts_without_an_empty_line() {
        assert_eq!(whole("data: a\n\ndata: [DONE]"), [event("", "a"), event("", "[DONE]")]);
        assert_eq!(whole("data: a\n\ndata: [DONE]\n"), [event("", "a"), event("", "[DONE]")]);
    }

    #[test]
    fn a_bare_json_line_counts_as_data() {
        assert_eq!(whole("{\"error\":\"x\"}\n"), [event("", "{\"error\":\"x\"}")]);
        assert_eq!(
            whole("data: a\n\n{\n  \"error\": {\n    \"code\": 503\n  }\n}\n\nid: 1\ndata: b\n\n"),
            [event("", "a"), event("", "{\n  \"error\": {\n    \"code\": 503\n  }\n}"), event("", "b")]
        );
    }

    #[test]
    fn a_byte_order_mark_is_dropped_once() {
        assert_eq!(whole("\u{feff}data: a\n\n\u{feff}data: b\n\n"), [event("", "a")]);
    }

    #[test]
    fn a_line_may_be_as_long_as_the_limit_and_no_longer() {
        let line = |size: usize| [b"data:".as_slice(), &vec![b'x'; size - 5]].concat();
        let push = |bytes: &[u8]| Parser::default().push(bytes, &mut Vec::new());
        assert_eq!(push(&line(LINE_BYTES_MAX)), Ok(()));
        assert_eq!(push(&line(LINE_BYTES_MAX + 1)), Err(TooLong));
    }

    #[test]
    fn an_event_of_many_lines_is_limited_like_a_line() {
        let (mut parser, line) = (Parser::default(), [b"data:".as_slice(), &[b'x'; 1 << 20], b"\n"].concat());
        let results: Vec<_> = (0..8).map(|_| parser.push(&line, &mut Vec::new())).collect();
        assert_eq!(results[6], Ok(()));
        assert_eq!(results[7], Err(TooLong));
    }

    /// Text made of what matters to the format, so that most of it is well formed.
    fn stream() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            Just("\n"),
            Just("\r\n"),
            Just("\r"),
            Just("data: "),
            Just("data:"),
            Just("event: e"),
            Just(": c"),
            Just("[DONE]"),
            Just("{\"a\":1}"),
            Just("grüße 🦀"),
            Just("\u{feff}"),
            Just(" "),
            Just("id"),
        ];
        prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same_events(text in stream(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12)) {
            let bytes = text.as_bytes();
            let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
            at.extend([0, bytes.len()]);
            at.sort_unstable();
            let pieces: Vec<&[u8]> = at.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
            prop_assert_eq!(parse(pieces), whole(&text));
            prop_assert_eq!(parse(bytes.chunks(1)), whole(&text));
        }
    }
}
