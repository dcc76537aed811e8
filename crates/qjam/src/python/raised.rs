//! An exception of user code, or the end of its interpreter, on its way to the master.

use qjam_core::job::{Fault, FaultKind};
use std::fmt;

/// What is known of an exception in Python code.
///
/// It leaves a function as a panic with itself as the payload; what catches panics of user code makes a [`Fault`] of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Raised {
    /// What it says, as the last line of a traceback has it: `ValueError: not a number`.
    pub message: String,
    /// The user's file and line, where known.
    pub location: Option<String>,
    /// The remote traceback, with the lines of the user's code.
    pub traceback: String,
    /// The exception itself, if it could be pickled; only Python reads it.
    pub pickled: Vec<u8>,
}

impl Raised {
    /// Leaves the function that is being run.
    pub(crate) fn throw(self) -> ! {
        std::panic::resume_unwind(Box::new(self))
    }

    /// The same as the master is told of it.
    pub(crate) fn into_fault(self, chunk: Option<u32>) -> Fault {
        let backtrace = (!self.traceback.is_empty()).then_some(self.traceback);
        Fault {
            kind: FaultKind::Raised,
            chunk,
            message: self.message,
            location: self.location,
            backtrace,
            carried: self.pickled,
        }
    }
}

impl fmt::Display for Raised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}
