//! Why two results do not go together, and where.

use std::fmt;

/// Why two results do not go together.
///
/// The path says where in the result: `grad`, `layers[3].weights`, or nothing when the result itself is meant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MergeError {
    /// Two sequences have different lengths.
    #[error(
        "{} of two partial results have {left} and {right} elements; a function must give the same length for every chunk",
        Subject(path)
    )]
    Lengths {
        /// Where in the result.
        path: String,
        /// Elements on the left.
        left: usize,
        /// Elements on the right.
        right: usize,
    },
    /// The sum of two integers does not fit their type.
    #[error("{} overflow {kind} when added; use a wider integer or a float", Subject(path))]
    Overflow {
        /// Where in the result.
        path: String,
        /// The integer type.
        kind: &'static str,
    },
    /// The result's own `try_merge` refused.
    #[error("{} of two partial results cannot be merged: {reason}", Subject(path))]
    Refused {
        /// Where in the result.
        path: String,
        /// What its author says.
        reason: String,
    },
}

/// Puts a path into a sentence.
struct Subject<'a>(&'a str);

impl fmt::Display for Subject<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { f.write_str("the values") } else { write!(f, "the values of `{}`", self.0) }
    }
}

impl MergeError {
    /// For a hand-written [`try_merge`](crate::Reduce::try_merge) that has a reason not to.
    pub fn refused(reason: impl Into<String>) -> Self {
        MergeError::Refused { path: String::new(), reason: reason.into() }
    }

    /// The same error, seen from the struct that has the value as its field.
    #[must_use]
    pub fn in_field(self, name: &str) -> Self {
        self.under(|rest| match rest {
            "" => name.to_owned(),
            rest if rest.starts_with('[') => format!("{name}{rest}"),
            rest => format!("{name}.{rest}"),
        })
    }

    /// The same error, seen from the sequence or map that has the value at an index or key.
    #[must_use]
    pub fn at(self, index: impl fmt::Display) -> Self {
        self.under(|rest| match rest {
            rest if rest.is_empty() || rest.starts_with('[') => format!("[{index}]{rest}"),
            rest => format!("[{index}].{rest}"),
        })
    }

    /// Where in the result.
    pub fn path(&self) -> &str {
        match self {
            MergeError::Lengths { path, .. }
            | MergeError::Overflow { path, .. }
            | MergeError::Refused { path, .. } => path,
        }
    }

    fn under(mut self, outer: impl FnOnce(&str) -> String) -> Self {
        match &mut self {
            MergeError::Lengths { path, .. }
            | MergeError::Overflow { path, .. }
            | MergeError::Refused { path, .. } => *path = outer(path),
        }
        self
    }
}
