//! The sizes that both sides of the wall agree on; the host enforces them, a guest can look before it leaps.

/// Bytes of one media part.
pub const PART_BYTES_MAX: usize = 4 << 20;
/// Bytes of all media parts of one result.
pub const PARTS_BYTES_MAX: usize = 8 << 20;
/// Parts of one result.
pub const PARTS_MAX: usize = 16;
/// Bytes of `output`, which the model reads: a context window is small beside it already.
pub const OUTPUT_BYTES_MAX: usize = 256 << 10;
/// Bytes of the `output` of an error; a longer one is cut at a character.
pub const ERROR_OUTPUT_BYTES_MAX: usize = 4 << 10;
/// Bytes of `metadata` as JSON.
pub const METADATA_BYTES_MAX: usize = 64 << 10;
/// Levels of `metadata` and of a request's `data`: what holds them is read back by parsers that stop at 128 levels.
pub const JSON_LEVELS_MAX: usize = 100;
/// Bytes of a part's name, as file systems allow.
pub const PART_NAME_BYTES_MAX: usize = 255;
/// Bytes of the arguments of a call, as JSON.
pub const ARGUMENTS_BYTES_MAX: usize = 1 << 20;
/// Bytes of the id that a tool gives its own request.
pub const REQUEST_ID_BYTES_MAX: usize = 256;
/// Characters of the word that says what a request asks for.
pub const REQUEST_KIND_CHARS_MAX: usize = 64;
/// Characters of a request's prompt.
pub const PROMPT_CHARS_MAX: usize = 2_000;
/// Bytes of a request's URL.
pub const REQUEST_URL_BYTES_MAX: usize = 2 << 10;
/// Bytes of a request's `data` as JSON.
pub const REQUEST_DATA_BYTES_MAX: usize = 16 << 10;
/// Bytes of a suspension's private state.
pub const STATE_BYTES_MAX: usize = 64 << 10;
/// Seconds before which no request lapses, so that a person can read it at all.
pub const REQUEST_TTL_SECONDS_MIN: i64 = 60;
/// Seconds until a request lapses, when the tool names no time.
pub const REQUEST_TTL_SECONDS: i64 = 24 * 60 * 60;
/// Seconds after which every request lapses.
pub const REQUEST_TTL_SECONDS_MAX: i64 = 7 * 24 * 60 * 60;
/// Tools of one component.
pub const TOOLS_PER_COMPONENT_MAX: usize = 64;
/// Bytes of a tool's name.
pub const NAME_BYTES_MAX: usize = 64;
/// Bytes of a tool's description, and of its title.
pub const DESCRIPTION_BYTES_MAX: usize = 1 << 10;
/// Bytes of a tool's schema as JSON.
pub const SCHEMA_BYTES_MAX: usize = 16 << 10;
/// Levels of a tool's schema.
pub const SCHEMA_DEPTH_MAX: usize = 12;
