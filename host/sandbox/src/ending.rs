//! How a call can go wrong, and the one code that each way has.

use std::str::Utf8Error;

use toolcell_contract::accept::Violation;
use toolcell_contract::{Failure, FailureCode};
use wasmtime::component::ResourceTableError;
use wasmtime::{PoolConcurrencyLimitError, Trap};
use wasmtime_wasi::I32Exit;

use crate::LimitHit;
use crate::limiter::Denied;

/// Every way in which a call can go wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The time is over, in the guest's code or in a host function.
    Deadline,
    /// The guest's stack is used up.
    StackOverflow,
    /// The guest ended its process, with whatever status: there is no result.
    Exit,
    /// It stopped after it was refused memory of its own limit.
    MemoryDenied,
    /// It stopped after it was refused memory that all calls share.
    SharedMemoryDenied,
    /// Its tables are larger than allowed from the start.
    TablesDenied,
    /// It has too many core instances, memories or tables.
    TooManyInstances,
    /// It holds too many handles of the component model.
    TooManyHandles,
    /// It makes the host hold too many resources.
    TooManyResources,
    /// It passed more in one crossing than the host copies.
    HostcallBytes,
    /// It passed a value that its type does not have: no UTF-8, no such case.
    BadValue,
    /// It stopped in any other way.
    Trap,
    /// A directory that it was granted is not the one it was.
    MountChanged,
    /// The result breaks a rule.
    Result(Violation),
    /// The arguments are larger than any tool's.
    ArgumentsTooLarge,
    /// Somebody dropped the call.
    Dropped,
    /// There is no room, or nobody to stop a guest.
    NoRoom,
    /// The host panicked, or the machine refused it something.
    Host,
}

impl Fault {
    /// The failure that stands for it.
    pub(crate) fn failure(self) -> Failure {
        match self {
            Self::Deadline => Failure::new(FailureCode::Timeout),
            Self::StackOverflow => Failure::new(FailureCode::StackOverflow),
            Self::Exit => Failure::new(FailureCode::GuestExit),
            Self::MemoryDenied => Failure::new(FailureCode::MemoryLimit),
            Self::TablesDenied | Self::TooManyInstances | Self::TooManyHandles | Self::TooManyResources => {
                Failure::new(FailureCode::HandleLimit)
            }
            Self::HostcallBytes => Failure::new(FailureCode::OutputTooLarge),
            Self::BadValue => Failure::new(FailureCode::BadAbi),
            Self::Trap => Failure::new(FailureCode::Trap),
            Self::MountChanged => Failure::with_detail(
                FailureCode::ToolUnavailable,
                "a directory that it was granted is not there any more: the operator must look at it",
            ),
            Self::Result(violation) => violation.into(),
            Self::ArgumentsTooLarge => {
                Failure::with_detail(FailureCode::InvalidArguments, "the arguments are larger than 1 MiB")
            }
            Self::Dropped => Failure::new(FailureCode::Cancelled),
            Self::NoRoom | Self::SharedMemoryDenied => Failure::new(FailureCode::Busy),
            Self::Host => Failure::new(FailureCode::HostFault),
        }
    }

    /// The limit that it ran into, if it was one.
    pub(crate) fn limit(self) -> Option<LimitHit> {
        match self {
            Self::Deadline => Some(LimitHit::Deadline),
            Self::StackOverflow => Some(LimitHit::Stack),
            Self::MemoryDenied => Some(LimitHit::Memory),
            Self::SharedMemoryDenied => Some(LimitHit::SharedMemory),
            Self::TablesDenied => Some(LimitHit::Tables),
            Self::TooManyInstances | Self::TooManyHandles | Self::TooManyResources => Some(LimitHit::Handles),
            Self::HostcallBytes => Some(LimitHit::HostcallBytes),
            Self::Result(violation) => (violation.code() == FailureCode::OutputTooLarge).then_some(LimitHit::Output),
            Self::Exit
            | Self::BadValue
            | Self::Trap
            | Self::MountChanged
            | Self::ArgumentsTooLarge
            | Self::Dropped
            | Self::NoRoom
            | Self::Host => None,
        }
    }
}

/// Finds the fault behind an error of wasmtime, given what the limiter refused before it.
pub(crate) fn diagnose(error: &wasmtime::Error, denied: Denied) -> Fault {
    if error.is::<I32Exit>() {
        Fault::Exit
    } else if let Some(trap) = error.downcast_ref::<Trap>() {
        diagnose_trap(*trap, denied)
    } else if let Some(error) = error.downcast_ref::<ResourceTableError>() {
        match error {
            ResourceTableError::Full => Fault::TooManyResources,
            _ => Fault::Trap,
        }
    } else if error.is::<Utf8Error>() || error.is::<std::char::DecodeUtf16Error>() {
        Fault::BadValue
    } else if error.is::<PoolConcurrencyLimitError>() {
        Fault::NoRoom
    } else if error.is::<std::io::Error>() || error.is::<wasmtime::error::OutOfMemory>() {
        Fault::Host
    } else {
        diagnose_text(&error.root_cause().to_string(), denied)
    }
}

fn diagnose_trap(trap: Trap, denied: Denied) -> Fault {
    match trap {
        Trap::StackOverflow => Fault::StackOverflow,
        Trap::Interrupt | Trap::OutOfFuel => Fault::Deadline,
        Trap::InvalidChar | Trap::InvalidDiscriminant => Fault::BadValue,
        _ => stopped(denied),
    }
}

/// Some of wasmtime's errors have no public type, so their fixed texts tell them apart. The tests of this crate
/// provoke each of them and fail when a text changes.
fn diagnose_text(text: &str, denied: Denied) -> Fault {
    if text.contains("fuel allocated for hostcalls has been exhausted") {
        Fault::HostcallBytes
    } else if text.contains("store handle limit exceeded") {
        Fault::TooManyHandles
    } else if text.starts_with("resource limit exceeded:") {
        Fault::TooManyInstances
    } else if text.starts_with("table minimum size of") {
        Fault::TablesDenied
    } else if text.contains("discriminant") {
        Fault::BadValue
    } else {
        stopped(denied)
    }
}

/// A guest that is refused memory usually aborts, which looks like any other crash.
fn stopped(denied: Denied) -> Fault {
    if denied.memory {
        Fault::MemoryDenied
    } else if denied.shared_memory {
        Fault::SharedMemoryDenied
    } else {
        Fault::Trap
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wasmtime::{Error, format_err};

    const NOTHING: Denied = Denied { memory: false, shared_memory: false, table: false };

    fn code(error: Error, denied: Denied) -> FailureCode {
        diagnose(&error, denied).failure().code
    }

    #[test]
    fn each_error_of_the_engine_has_one_code() {
        let table = [
            (Error::from(I32Exit(0)), FailureCode::GuestExit),
            (Error::from(I32Exit(1)), FailureCode::GuestExit),
            (Error::from(Trap::StackOverflow), FailureCode::StackOverflow),
            (Error::from(Trap::Interrupt), FailureCode::Timeout),
            (Error::from(Trap::OutOfFuel), FailureCode::Timeout),
            (Error::from(Trap::UnreachableCodeReached), FailureCode::Trap),
            (Error::from(Trap::MemoryOutOfBounds), FailureCode::Trap),
            (Error::from(Trap::CannotLeaveComponent), FailureCode::Trap),
            (Error::from(Trap::InvalidChar), FailureCode::BadAbi),
            (Error::from(Trap::InvalidDiscriminant), FailureCode::BadAbi),
            (Error::from(ResourceTableError::Full), FailureCode::HandleLimit),
            (Error::from(ResourceTableError::NotPresent), FailureCode::Trap),
            (Error::from(String::from_utf8(vec![0xff]).unwrap_err().utf8_error()), FailureCode::BadAbi),
            (Error::from(std::io::Error::other("no memory map")), FailureCode::HostFault),
            (format_err!("unexpected discriminant: 9"), FailureCode::BadAbi),
            (format_err!("string pointer/length out of bounds of memory"), FailureCode::Trap),
        ];
        for (error, expected) in table {
            let text = error.to_string();
            assert_eq!(code(error, NOTHING), expected, "{text}");
        }
    }

    #[test]
    fn a_crash_after_a_refused_growth_is_the_memory_limit() {
        let denied = Denied { memory: true, ..NOTHING };
        assert_eq!(code(Trap::UnreachableCodeReached.into(), denied), FailureCode::MemoryLimit);
        assert_eq!(
            code(format_err!("memory minimum size of 9 pages exceeds memory limits"), denied),
            FailureCode::MemoryLimit
        );
        assert_eq!(code(I32Exit(1).into(), denied), FailureCode::GuestExit);
        assert_eq!(code(Trap::StackOverflow.into(), denied), FailureCode::StackOverflow);
    }

    #[test]
    fn a_crash_for_want_of_shared_memory_is_the_hosts_business() {
        let denied = Denied { shared_memory: true, ..NOTHING };
        assert_eq!(code(Trap::UnreachableCodeReached.into(), denied), FailureCode::Busy);
    }

    #[test]
    fn a_context_does_not_hide_the_cause() {
        let error = Error::from(Trap::StackOverflow).context("error while executing");
        assert_eq!(code(error, NOTHING), FailureCode::StackOverflow);
    }
}
