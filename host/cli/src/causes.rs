//! An error with what caused it, on one line.

use std::error::Error;

use crate::exit::HostFailure;

/// The errors from the first to its last cause. What was said already is not said again: many errors quote their cause.
pub(crate) fn causes<'e>(errors: impl IntoIterator<Item = &'e (dyn Error + 'static)>) -> String {
    let mark = HostFailure.to_string();
    let said = errors.into_iter().map(ToString::to_string).filter(|said| *said != mark);
    said.fold(String::new(), |text, cause| match text.as_str() {
        "" => cause,
        text if text.contains(&cause) => text.to_owned(),
        text => format!("{text}: {cause}"),
    })
}

/// The same for an error that is not `anyhow`'s.
pub(crate) fn causes_of(error: &(dyn Error + 'static)) -> String {
    causes(std::iter::successors(Some(error), |error| (*error).source()))
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    #[test]
    fn a_cause_is_said_once_and_the_mark_of_the_host_is_not_said() {
        let error =
            anyhow!("no room").context("cannot write a.db: no room").context(HostFailure).context("of tenant x");
        assert_eq!(causes(error.chain()), "of tenant x: cannot write a.db: no room");
        assert_eq!(causes(anyhow!("eof").context("{ is not JSON").chain()), "{ is not JSON: eof");
    }
}
