//! What can be wrong with a learner's work, as Python says it: `ValueError` for settings and data, as scikit-learn does,
//! `OSError` for files, and the package's own exceptions for rounds that fail.

use crate::data;
use crate::errors::{Failed, raise};
use pyo3::exceptions::{PyOSError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use qjam_algos::learner::LearnerError;
use qjam_algos::models::FileError;
use qjam_algos::options::OptionError;

/// Why there is no result.
pub(super) enum Wrong {
    Round(qjam::Error),
    Value(String),
    File(FileError),
    Python(PyErr),
}

impl Wrong {
    pub(super) fn raise(self, py: Python<'_>, learner: &str) -> PyErr {
        match self {
            Wrong::Round(qjam::Error::Data(error)) => data::raise(error),
            Wrong::Round(error) => raise(py, Failed::Round(error), learner),
            Wrong::Value(text) => PyValueError::new_err(shown(&text)),
            Wrong::File(FileError::Io { path, source }) => {
                let text = source.to_string();
                match source.raw_os_error() {
                    // With the number, Python makes FileNotFoundError and its like of it.
                    Some(number) => PyOSError::new_err((number, text, path)),
                    None => PyOSError::new_err(format!("{}: {text}", path.display())),
                }
            }
            Wrong::File(other) => PyValueError::new_err(shown(&other.to_string())),
            Wrong::Python(error) => error,
        }
    }
}

/// Messages quote model files and data, which may be anybody's: control characters must not reach a terminal.
fn shown(text: &str) -> String {
    qjam::printable(text).into_owned()
}

impl From<PyErr> for Wrong {
    fn from(error: PyErr) -> Self {
        Wrong::Python(error)
    }
}

impl From<FileError> for Wrong {
    fn from(error: FileError) -> Self {
        Wrong::File(error)
    }
}

impl From<OptionError> for Wrong {
    fn from(error: OptionError) -> Self {
        Wrong::Value(error.to_string())
    }
}

impl From<LearnerError> for Wrong {
    fn from(error: LearnerError) -> Self {
        match error {
            LearnerError::Run(error) => Wrong::Round(error),
            LearnerError::File(error) => Wrong::File(error),
            LearnerError::Sparse { .. } => Wrong::Python(PyTypeError::new_err(error.to_string())),
            other => Wrong::Value(other.to_string()),
        }
    }
}
