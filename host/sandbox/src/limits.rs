//! The limits of one call and of the sandbox, each with its reason.

use toolcell_contract::limits::{OUTPUT_BYTES_MAX, PARTS_BYTES_MAX};

use crate::Error;

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// What one call may use. Zero and absurd values are refused by [`Limits::validate`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Milliseconds of wall-clock time, from the moment the call has a place.
    pub deadline_ms_max: u64,
    /// Bytes of all linear memories together.
    pub memory_bytes_max: usize,
    /// Elements of one table.
    pub table_elements_max: usize,
    /// Elements of all tables together.
    pub table_elements_sum_max: usize,
    /// Core instances.
    pub instances_max: usize,
    /// Linear memories.
    pub memories_max: usize,
    /// Tables.
    pub tables_max: usize,
    /// Bytes that the guest makes the host copy in one crossing, counted at their size in the host.
    pub hostcall_bytes_max: usize,
    /// Handles of the component model at once.
    pub handles_max: usize,
    /// Resources that the host holds for the guest at once.
    pub resources_max: usize,
    /// Random bytes in one request.
    pub random_bytes_max: u64,
    /// Log lines that are kept.
    pub log_lines_max: usize,
    /// Bytes of log lines that are kept.
    pub log_bytes_max: usize,
    /// Progress reports that are passed on.
    pub progress_reports_max: usize,
    /// Bytes of stdout, and as many of stderr, of which the last are kept.
    pub stdio_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            // A model waits for it; what takes longer should report progress and be given more by its policy.
            deadline_ms_max: 30_000,
            // Room for a Python interpreter (13 MiB) and its data ten times over.
            memory_bytes_max: 128 * MIB,
            // Interpreters need up to 8,000; debug builds of managed languages 10,000 and more.
            table_elements_max: 20_000,
            table_elements_sum_max: 100_000,
            // A component with the WASI adapter has three to six.
            instances_max: 64,
            // A language and its adapters need one to three.
            memories_max: 8,
            tables_max: 32,
            // The largest result that is accepted has 8 MiB of parts and 256 KiB of text.
            hostcall_bytes_max: PARTS_BYTES_MAX + 4 * OUTPUT_BYTES_MAX,
            handles_max: 10_000,
            resources_max: 4_096,
            // Seeds and keys need 64 bytes.
            random_bytes_max: 64 << 10,
            log_lines_max: 1_000,
            log_bytes_max: 256 * KIB,
            progress_reports_max: 1_000,
            // Enough for a traceback and the lines before it.
            stdio_bytes_max: 64 * KIB,
        }
    }
}

impl Limits {
    /// Checks every field against its range.
    ///
    /// # Errors
    /// [`Error::BadLimit`] names the first field that is zero or larger than the host can keep.
    pub fn validate(&self) -> Result<(), Error> {
        within("deadline_ms_max", self.deadline_ms_max, 1, 300_000)?;
        within("memory_bytes_max", self.memory_bytes_max as u64, 64 << 10, 4 << 30)?;
        within("table_elements_max", self.table_elements_max as u64, 1, 10_000_000)?;
        within("table_elements_sum_max", self.table_elements_sum_max as u64, 1, 10_000_000)?;
        within("instances_max", self.instances_max as u64, 1, 1_000)?;
        within("memories_max", self.memories_max as u64, 1, 100)?;
        within("tables_max", self.tables_max as u64, 1, 1_000)?;
        within("hostcall_bytes_max", self.hostcall_bytes_max as u64, 4 << 10, 128 << 20)?;
        within("handles_max", self.handles_max as u64, 1, 1_000_000)?;
        within("resources_max", self.resources_max as u64, 1, 1_000_000)?;
        within("random_bytes_max", self.random_bytes_max, 1, 16 << 20)?;
        within("log_lines_max", self.log_lines_max as u64, 1, 100_000)?;
        within("log_bytes_max", self.log_bytes_max as u64, 1, 64 << 20)?;
        within("progress_reports_max", self.progress_reports_max as u64, 1, 1_000_000)?;
        within("stdio_bytes_max", self.stdio_bytes_max as u64, 1, 16 << 20)
    }
}

/// How a sandbox is set up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// What a call may use unless its invocation says otherwise.
    pub limits: Limits,
    /// Bytes of a component file.
    pub component_bytes_max: usize,
    /// Milliseconds for the list of a component's tools.
    pub list_ms_max: u64,
    /// Calls that run at the same time.
    pub concurrent_calls_max: usize,
    /// Calls that wait for a place; the next one is told `busy` at once.
    pub queued_calls_max: usize,
    /// Milliseconds that a call waits for a place before it is told `busy`.
    pub queue_ms_max: u64,
    /// Bytes of linear memory of all running calls together.
    pub memory_bytes_sum_max: usize,
    /// Threads that run guests.
    pub worker_threads: usize,
}

impl Default for Config {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            limits: Limits::default(),
            // The largest real tools, Python with an HTTP client, have 22 MiB.
            component_bytes_max: 32 * MIB,
            // A list is a constant; 2 s leave room for an interpreter that starts on a busy machine.
            list_ms_max: 2_000,
            // Most calls wait for something; each spinning one costs its neighbours a 10 ms slice per turn, so
            // 16 for each core keep a turn at 160 ms.
            concurrent_calls_max: 16 * cores,
            queued_calls_max: 1_024,
            queue_ms_max: 5_000,
            // Sixteen calls at their cap; an ordinary call needs 1 to 16 MiB.
            memory_bytes_sum_max: 2 << 30,
            worker_threads: cores,
        }
    }
}

impl Config {
    /// Checks every field against its range.
    ///
    /// # Errors
    /// [`Error::BadLimit`] names the first field that is zero or larger than the host can keep.
    pub fn validate(&self) -> Result<(), Error> {
        self.limits.validate()?;
        within("component_bytes_max", self.component_bytes_max as u64, 1, 256 << 20)?;
        within("list_ms_max", self.list_ms_max, 1, 60_000)?;
        within("concurrent_calls_max", self.concurrent_calls_max as u64, 1, 10_000)?;
        within("queued_calls_max", self.queued_calls_max as u64, 1, 100_000)?;
        within("queue_ms_max", self.queue_ms_max, 1, 300_000)?;
        within("memory_bytes_sum_max", self.memory_bytes_sum_max as u64, 64 << 10, 1 << 40)?;
        within("worker_threads", self.worker_threads as u64, 1, 1_024)
    }
}

fn within(field: &'static str, value: u64, least: u64, most: u64) -> Result<(), Error> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(Error::BadLimit { field, value, rule: format!("choose {least} to {most}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_within_their_ranges() {
        assert!(Config::default().validate().is_ok());
    }

    #[test]
    fn zero_and_absurd_limits_are_refused_by_name() {
        let refused = |limits: Limits| limits.validate().unwrap_err().to_string();
        let limits = Limits::default();
        assert_eq!(
            refused(Limits { deadline_ms_max: 0, ..limits }),
            "the limit deadline_ms_max cannot be 0: choose 1 to 300000"
        );
        assert_eq!(
            refused(Limits { deadline_ms_max: u64::MAX, ..limits }),
            "the limit deadline_ms_max cannot be 18446744073709551615: choose 1 to 300000"
        );
        assert_eq!(
            refused(Limits { memory_bytes_max: usize::MAX, ..limits }),
            "the limit memory_bytes_max cannot be 18446744073709551615: choose 65536 to 4294967296"
        );
        let config = Config { concurrent_calls_max: 0, ..Config::default() };
        assert_eq!(
            config.validate().unwrap_err().to_string(),
            "the limit concurrent_calls_max cannot be 0: choose 1 to 10000"
        );
        let config = Config { limits: Limits { stdio_bytes_max: 0, ..limits }, ..Config::default() };
        assert!(config.validate().is_err());
    }

    #[test]
    fn the_largest_legal_result_fits_into_one_crossing() {
        assert!(Limits::default().hostcall_bytes_max > PARTS_BYTES_MAX + OUTPUT_BYTES_MAX + (128 << 10));
    }
}
