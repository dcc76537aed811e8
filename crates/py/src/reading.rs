//! Data sets from files of other formats.
//!
//! What Python says becomes [`OpenOptions`], and what the readers say is wrong becomes an exception; the rest is theirs.

use crate::data::{self, Data};
use pyo3::exceptions::{PyMemoryError, PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use qjam::python::Raw;
use qjam::{DataError, DataSet};
use qjam_readers::{
    Dtype, Header, Kind, Labels, Libsvm, Missing, OpenOptions, Opened, Progress, ReadError, Rows, Spectrum,
};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

pub(crate) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(read_file, m)?)?;
    m.add_function(wrap_pyfunction!(file_kind, m)?)
}

/// What kind of file something is.
#[pyfunction]
fn file_kind(py: Python<'_>, path: PathBuf) -> PyResult<&'static str> {
    py.detach(|| Kind::of(path)).map(Kind::name).map_err(raise)
}

/// Reads a file or folder of any kind: the rows in the cut of the file, and what is to be known of them.
#[pyfunction]
fn read_file<'py>(
    py: Python<'py>,
    path: PathBuf,
    settings: &Bound<'py, PyDict>,
    by_columns: bool,
    progress: Option<Py<PyAny>>,
) -> PyResult<(Data, Bound<'py, PyDict>)> {
    let mut options = options(settings)?;
    let failed: Arc<Mutex<Option<PyErr>>> = Arc::default();
    if let Some(progress) = progress {
        let failed = failed.clone();
        options.progress = Some(Arc::new(move |Progress { done, total }| {
            Python::attach(|py| {
                if let Err(error) = progress.call1(py, (done, total)) {
                    failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                }
            });
        }));
    }
    let about = PyDict::new(py);
    let set = if by_columns {
        let (set, labels) = py.detach(|| columns(path, &options)).map_err(raise)?;
        about.set_item("kind", Kind::Libsvm.name())?;
        about.set_item("labels", PyBytes::new(py, bytemuck::cast_slice(&labels)))?;
        set
    } else {
        let opened = py.detach(|| qjam_readers::open(&path, &options)).map_err(raise)?;
        let Opened { rows, kind, columns, labelled, files, dropped, filled } = opened;
        about.set_item("kind", kind.name())?;
        about.set_item("columns", columns)?;
        about.set_item("labelled", labelled)?;
        about.set_item("files", files)?;
        about.set_item("dropped", dropped)?;
        about.set_item("filled", filled)?;
        match rows {
            Rows::DenseF32(data) => data.untyped(),
            Rows::DenseF64(data) => data.untyped(),
            Rows::CsrF32(data) => data.untyped(),
            Rows::CsrF64(data) => data.untyped(),
        }
    };
    match failed.lock().unwrap_or_else(PoisonError::into_inner).take() {
        Some(error) => Err(error),
        None => Ok((Data::from(set), about)),
    }
}

/// The columns of a LIBSVM file, and the label of each row.
fn columns(path: PathBuf, options: &OpenOptions) -> Result<(DataSet<Raw>, Vec<f64>), ReadError> {
    let reader = || {
        let mut reader = Libsvm::new(&path);
        reader = if options.zero_based { reader.zero_based() } else { reader };
        reader = if let Some(features) = options.features { reader.cols(features) } else { reader };
        reader = if let Some(folder) = &options.keep_in { reader.keep_in(folder) } else { reader };
        if options.in_memory { reader.in_memory() } else { reader }
    };
    match options.dtype {
        Some(Dtype::F32) => {
            let found = reader().read_columns::<f32>()?;
            Ok((found.data.untyped(), found.labels.into_iter().map(f64::from).collect()))
        }
        _ => {
            let found = reader().read_columns::<f64>()?;
            Ok((found.data.untyped(), found.labels))
        }
    }
}

fn options(settings: &Bound<'_, PyDict>) -> PyResult<OpenOptions> {
    let mut options = OpenOptions { labels: Labels::Last, ..OpenOptions::default() };
    for (name, value) in settings {
        let name: String = name.extract()?;
        let wrong = |allowed: &str| {
            let value = value.repr().map_or("this".into(), |text| text.to_string());
            PyValueError::new_err(format!("{name} is {value}; it can be {allowed}"))
        };
        let word = || value.extract::<String>().unwrap_or_default();
        let byte = || match word().as_bytes() {
            [byte] => Ok(Some(*byte)),
            _ => Err(wrong("one character of ASCII")),
        };
        match name.as_str() {
            "kind" => {
                let known = Kind::ALL.map(Kind::name).join(", ");
                options.kind = Some(Kind::of_name(&word()).ok_or_else(|| wrong(&known))?);
            }
            "dtype" => {
                options.dtype = Some(match word().as_str() {
                    "float32" => Dtype::F32,
                    "float64" => Dtype::F64,
                    _ => return Err(wrong("float32 or float64")),
                });
            }
            "columns" => options.columns = Some(value.extract()?),
            "without" => options.without = value.extract()?,
            "target" => options.target = Some(value.extract()?),
            "missing" => {
                options.missing = match (value.extract::<f64>(), word().as_str()) {
                    (Ok(number), _) => Missing::Value(number),
                    (Err(_), "mean") => Missing::Mean,
                    (Err(_), "drop") => Missing::DropRow,
                    (Err(_), "error") => Missing::Error,
                    _ => return Err(wrong("'error', 'mean', 'drop' (the row), or a number")),
                };
            }
            "header" => options.header = if value.extract()? { Header::Yes } else { Header::No },
            "delimiter" => options.delimiter = byte()?,
            "comment" => options.comment = byte()?,
            "zero_based" => options.zero_based = value.extract()?,
            "features" => options.features = Some(value.extract()?),
            "array" => options.array = Some(value.extract()?),
            "grey" => options.grey = value.extract()?,
            "size" => options.size = Some(value.extract()?),
            "patches" => options.patches = Some(value.extract()?),
            "frames" => options.frames = Some(value.extract()?),
            "spectrum" => {
                options.spectrum = Some(match word().as_str() {
                    "magnitude" => Spectrum::Magnitude,
                    "power" => Spectrum::Power,
                    "log" => Spectrum::LogPower,
                    _ => return Err(wrong("'magnitude', 'power' or 'log'")),
                });
            }
            "in_memory" => options.in_memory = value.extract()?,
            "keep_in" => options.keep_in = Some(value.extract()?),
            "threads" => options.threads = Some(value.extract()?),
            _ => return Err(PyValueError::new_err(format!("there is no option {name:?}"))),
        }
    }
    Ok(options)
}

/// The exception that Python would raise for it.
fn raise(error: ReadError) -> PyErr {
    let text = qjam::printable(&error.to_string()).into_owned();
    match error {
        ReadError::Io { source, .. } => match source.raw_os_error() {
            // With the number, Python makes FileNotFoundError and its like of it.
            Some(number) => PyOSError::new_err((number, text)),
            None => PyOSError::new_err(text),
        },
        ReadError::Memory { .. } => PyMemoryError::new_err(text),
        ReadError::NotAFile { .. } => PyOSError::new_err(text),
        ReadError::Data(DataError::Keep { .. }) => PyOSError::new_err(text),
        ReadError::Data(error) => data::raise(error),
        _ => PyValueError::new_err(text),
    }
}
