//! Running a learner: without the interpreter, with an eye on it.

use super::errors::Wrong;
use crate::buffer::release_waiting;
use crate::errors::raise;
use crate::master::Master;
use crate::wait::Patience;
use pyo3::prelude::*;

/// Has a learner do its rounds. Signals and a master that is closed call it off, between rounds or in one.
pub(super) fn running<R: Send>(
    py: Python<'_>,
    master: &Master,
    tick: &Bound<'_, PyAny>,
    learner: &str,
    work: impl FnOnce(&qjam::Master) -> Result<R, Wrong> + Send,
) -> PyResult<R> {
    let patience = Patience::new(&master.shared, tick, None);
    let master = master.shared.master(py)?;
    let result = py.detach(|| {
        let result = qjam::watched(patience.called_off(), || work(&master));
        // The last of all who have it may be this thread: then it ends the workers, which may want the interpreter.
        drop(master);
        result
    });
    release_waiting(py);
    result.map_err(|wrong| match patience.failed() {
        Some(failed) => raise(py, failed, learner),
        None => wrong.raise(py, learner),
    })
}
