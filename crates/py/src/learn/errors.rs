//! What can be wrong with a learner's work, as Python says it: `ValueError` for settings and data, as scikit-learn does,
//! `OSError` for files, and the package's own exceptions for rounds that fail.

use crate::data;
use crate::errors::{Failed, raise};
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use qjam_algos::clustering::kmeans;
use qjam_algos::linear;
use qjam_algos::models::FileError;
use qjam_algos::neural::autoencoder;
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
            Wrong::Value(text) => PyValueError::new_err(text),
            Wrong::File(FileError::Io { path, source }) => {
                let text = source.to_string();
                match source.raw_os_error() {
                    // With the number, Python makes FileNotFoundError and its like of it.
                    Some(number) => PyOSError::new_err((number, text, path)),
                    None => PyOSError::new_err(format!("{}: {text}", path.display())),
                }
            }
            Wrong::File(other) => PyValueError::new_err(other.to_string()),
            Wrong::Python(error) => error,
        }
    }
}

impl From<qjam::Error> for Wrong {
    fn from(error: qjam::Error) -> Self {
        Wrong::Round(error)
    }
}

impl From<qjam::DataError> for Wrong {
    fn from(error: qjam::DataError) -> Self {
        Wrong::Round(error.into())
    }
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

impl From<kmeans::ParamsError> for Wrong {
    fn from(error: kmeans::ParamsError) -> Self {
        Wrong::Value(error.to_string())
    }
}

impl From<kmeans::FitError> for Wrong {
    fn from(error: kmeans::FitError) -> Self {
        match error {
            kmeans::FitError::Run(error) => Wrong::Round(error),
            other => Wrong::Value(other.to_string()),
        }
    }
}

impl From<kmeans::ModelError> for Wrong {
    fn from(error: kmeans::ModelError) -> Self {
        match error {
            kmeans::ModelError::Run(error) => Wrong::Round(error),
            kmeans::ModelError::File(error) => Wrong::File(error),
            other => Wrong::Value(other.to_string()),
        }
    }
}

impl From<linear::SpecError> for Wrong {
    fn from(error: linear::SpecError) -> Self {
        Wrong::Value(error.to_string())
    }
}

impl From<linear::LearnError> for Wrong {
    fn from(error: linear::LearnError) -> Self {
        use linear::{FitError, LearnError, PrepareError};
        match error {
            LearnError::Fit(FitError::Run(error)) | LearnError::Run(error) => Wrong::Round(error),
            LearnError::Data(PrepareError::Data(error)) => Wrong::Round(error.into()),
            LearnError::Model(error) => error.into(),
            other => Wrong::Value(other.to_string()),
        }
    }
}

impl From<linear::ModelError> for Wrong {
    fn from(error: linear::ModelError) -> Self {
        match error {
            linear::ModelError::Run(error) => Wrong::Round(error),
            linear::ModelError::File(error) => Wrong::File(error),
            other => Wrong::Value(other.to_string()),
        }
    }
}

impl From<autoencoder::ParamsError> for Wrong {
    fn from(error: autoencoder::ParamsError) -> Self {
        Wrong::Value(error.to_string())
    }
}

impl From<autoencoder::FitError> for Wrong {
    fn from(error: autoencoder::FitError) -> Self {
        match error {
            autoencoder::FitError::Run(error) => Wrong::Round(error),
            other => Wrong::Value(other.to_string()),
        }
    }
}

impl From<autoencoder::ModelError> for Wrong {
    fn from(error: autoencoder::ModelError) -> Self {
        Wrong::Value(error.to_string())
    }
}
