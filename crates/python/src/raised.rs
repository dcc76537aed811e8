//! An exception of user code, or the end of its interpreter, on its way to the master.

use qjam_core::job::{Fault, FaultKind};
use serde::{Deserialize, Serialize};
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
    /// What the user's code printed last.
    pub last_lines: Vec<String>,
    /// Whether it was no exception but the end of the interpreter.
    pub died: bool,
}

/// What of it has no place of its own in a [`Fault`].
#[derive(Serialize, Deserialize)]
struct Carried {
    pickled: Vec<u8>,
    last_lines: Vec<String>,
    died: bool,
}

impl Raised {
    /// Leaves the function that is being run.
    pub fn throw(self) -> ! {
        std::panic::resume_unwind(Box::new(self))
    }

    /// The same as the master is told of it.
    pub fn into_fault(self, chunk: Option<u32>) -> Fault {
        let Raised { message, location, traceback, pickled, last_lines, died } = self;
        let backtrace = (!traceback.is_empty()).then_some(traceback);
        let carried = postcard::to_allocvec(&Carried { pickled, last_lines, died }).unwrap_or_default();
        Fault { kind: FaultKind::Raised, chunk, message, location, backtrace, carried }
    }

    /// What a fault was before it became one. Without what cannot be read, should it come from elsewhere.
    pub fn of_fault(fault: &Fault) -> Raised {
        let carried: Option<Carried> = postcard::from_bytes(&fault.carried).ok();
        let (pickled, last_lines, died) =
            carried.map_or_else(Default::default, |c| (c.pickled, c.last_lines, c.died));
        Raised {
            message: fault.message.clone(),
            location: fault.location.clone(),
            traceback: fault.backtrace.clone().unwrap_or_default(),
            pickled,
            last_lines,
            died,
        }
    }
}

impl fmt::Display for Raised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_raised_survives_being_a_fault() {
        let raised = Raised {
            message: "ValueError: no".into(),
            location: Some("cell 3, line 2".into()),
            traceback: "Traceback …".into(),
            pickled: vec![1, 2],
            last_lines: vec!["at row 7".into()],
            died: true,
        };
        assert_eq!(Raised::of_fault(&raised.clone().into_fault(Some(3))), raised);
    }

    #[test]
    fn a_fault_that_carries_nothing_of_ours_is_read_too() {
        let fault = Fault { carried: vec![255; 9], ..Raised::default().into_fault(None) };
        assert_eq!(Raised::of_fault(&fault), Raised::default());
    }
}
