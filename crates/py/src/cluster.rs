//! Spark as a cluster for rounds: calls the driver's side in Python, `qjam._spark`.
//!
//! Comes in: jobs of the crew, on the thread that runs a round. Goes out: calls of the Python object that was brought for a master, and
//! its answers. Jobs run on a thread of that object's; here it is waited for, with an eye on whether the round is still wanted.

use crate::interpreter::{attach, call_python, note_interrupt};
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};
use qjam_spark::{Answer, Cluster, Job, JobError, TaskEnd, offer};
use std::sync::Arc;

/// How long one look at a job takes, in seconds.
const LOOK_S: f64 = 0.05;
/// How many times a job is cancelled, and looked at, until it has ended.
const LAST_LOOKS: u32 = 300;

/// The object that knows Spark.
struct Driver(Py<PyAny>);

/// An answer as Python gives it: number, worker, place, how it ended, and what it said.
type AnswerParts<'py> = (u32, String, String, u8, Bound<'py, PyBytes>);

impl Cluster for Driver {
    fn set_up(&self, setup: &[u8]) -> Result<(), String> {
        attach(|py| {
            let setup = PyTuple::new(py, [PyBytes::new(py, setup)])?;
            call_python(&self.0.bind(py).getattr(intern!(py, "set_up"))?, setup).map(drop)
        })
        .map_err(|e| in_words(&e))
    }

    fn slots(&self) -> Result<u32, String> {
        attach(|py| {
            let slots = self.0.bind(py).getattr(intern!(py, "slots"))?;
            call_python(&slots, PyTuple::empty(py))?.extract::<u32>()
        })
        .map_err(|e| in_words(&e))
    }

    fn run(&self, job: &Job<'_>, cancelled: &dyn Fn() -> bool) -> Result<Vec<Answer>, JobError> {
        let started = attach(|py| self.start(py, job)).map_err(|e| failed(&e))?;
        loop {
            match attach(|py| look(py, &started)) {
                Ok(Some(answers)) => return Ok(answers),
                Ok(None) if cancelled() => break,
                Ok(None) => {}
                Err(e) if attach(|py| e.is_instance_of::<PyKeyboardInterrupt>(py)) => {
                    note_interrupt(e);
                    break;
                }
                Err(e) => return Err(failed(&e)),
            }
        }
        // Whatever still runs would stand in the way of the next round. A job that had not begun yet when it was cancelled does not
        // hear of it, so it is said again.
        for _ in 0..LAST_LOOKS {
            let end = attach(|py| {
                let cancel = started.bind(py).getattr(intern!(py, "cancel"))?;
                call_python(&cancel, PyTuple::empty(py))?;
                look(py, &started)
            });
            if !matches!(end, Ok(None)) {
                break;
            }
        }
        Err(JobError::Cancelled)
    }
}

impl Driver {
    fn start(&self, py: Python<'_>, job: &Job<'_>) -> PyResult<Py<PyAny>> {
        let tasks = job.tasks.iter().map(|task| {
            let (request, supply) = (PyBytes::new(py, &task.request), PyBytes::new(py, &task.supply));
            (task.number, request, supply, task.place.as_deref())
        });
        let tasks = PyList::new(py, tasks.collect::<Vec<_>>())?;
        let arguments = (job.round, PyBytes::new(py, job.order), tasks).into_pyobject(py)?;
        let start = self.0.bind(py).getattr(intern!(py, "start"))?;
        Ok(call_python(&start, arguments)?.unbind())
    }
}

/// Waits a little; gives the answers if the job is done.
fn look(py: Python<'_>, started: &Py<PyAny>) -> PyResult<Option<Vec<Answer>>> {
    let wait = started.bind(py).getattr(intern!(py, "wait"))?;
    let found = call_python(&wait, (LOOK_S,).into_pyobject(py)?)?;
    let found: Option<Vec<AnswerParts<'_>>> = found.extract()?;
    let answer = |(number, worker, place, how, said): AnswerParts<'_>| {
        let text = || String::from_utf8_lossy(said.as_bytes()).into_owned();
        let end = match how {
            0 => TaskEnd::Answered(said.as_bytes().to_vec()),
            1 => TaskEnd::Died(text()),
            _ => TaskEnd::Unusable(text()),
        };
        Answer { number, worker, place, end }
    };
    Ok(found.map(|found| found.into_iter().map(answer).collect()))
}

/// Why a job has no answers, by the exception that says so.
fn failed(error: &PyErr) -> JobError {
    let is_lost = attach(|py| {
        let is_lost = error.value(py).getattr(intern!(py, "is_lost"));
        is_lost.and_then(|lost| lost.is_truthy()).unwrap_or(false)
    });
    if is_lost { JobError::Lost(in_words(error)) } else { JobError::Failed(in_words(error)) }
}

/// Errors of `qjam._spark` are sentences; others need their class.
fn in_words(error: &PyErr) -> String {
    attach(|py| {
        let is_ours = error.value(py).hasattr(intern!(py, "is_lost")).unwrap_or(false);
        if is_ours { error.value(py).to_string() } else { error.to_string() }
    })
}

/// Makes an object of `qjam._spark` what the next master with the workers `spark:NAME` runs its rounds on.
#[pyfunction]
fn offer_cluster(name: &str, driver: Py<PyAny>) {
    offer(name, Arc::new(Driver(driver)));
}

pub(crate) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(offer_cluster, m)?)
}
