//! Masters as Python sees them.

use crate::buffer::release_waiting;
use crate::data::{Data, Readers};
use crate::errors::{Failed, raise};
use crate::held::Held;
use crate::pending::Pending;
use crate::shared::{Code, Shared};
use crate::told::{in_words, report_tuple};
use crate::values::to_parts;
use crate::wait::{PAUSE, Patience, apart};
use crate::{interpreter, news, options};
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use qjam::DataSet;
use qjam::python::{self, Raw};
use qjam_dashboard::live::Dashboard;
use qjam_dashboard::report::Summary;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, RwLock, mpsc};
use std::time::Duration;

/// How long it may take to let go of hosts that do not answer.
const GIVES_UP_WITHIN: Duration = Duration::from_secs(1);

/// Name, process here, process there, slots.
type WorkerParts = (String, Option<u32>, Option<u32>, u32);

/// Name, version of NumPy, linear algebra, CPU features.
type InterpreterParts = (String, String, String, String);

/// A master and its workers.
#[pyclass(frozen, module = "qjam._native")]
pub(crate) struct Master {
    pub(crate) shared: Arc<Shared>,
    /// The server of its page, if there is one.
    dashboard: Mutex<Option<Dashboard>>,
}

#[pymethods]
impl Master {
    /// Starts the workers and waits until they are ready. `settings` are those of `qjam.Master`.
    #[new]
    fn new(
        py: Python<'_>,
        workers: String,
        in_process: bool,
        settings: &Bound<'_, PyDict>,
        tick: Py<PyAny>,
    ) -> PyResult<Self> {
        let version = py.version_info();
        let stop: Arc<AtomicBool> = Arc::default();
        let builder = options::builder(settings)?.stop_when(stop.clone());
        let (over, is_over) = mpsc::channel::<()>();
        let connected = apart(py, &tick, move || {
            let _over = over;
            builder.connect(&workers)
        });
        let master = connected.map_err(|failed| {
            // Nobody may be left knocking at hosts when this program ends.
            stop.store(true, Relaxed);
            let _ = py.detach(move || is_over.recv_timeout(GIVES_UP_WITHIN));
            raise(py, failed, "")
        })?;
        let text = |name| settings.get_item(name).ok().flatten().and_then(|v| v.extract::<String>().ok());
        let shared = Shared {
            master: RwLock::new(Some(Arc::new(master))),
            is_closed: AtomicBool::new(false),
            pid: std::process::id(),
            in_process,
            version: (version.major, version.minor),
            remote_python: text("remote_python"),
            library_threads: match settings.get_item("library_threads")? {
                Some(threads) => threads.extract()?,
                None => 1,
            },
            last_round: Mutex::new(None),
            lost: AtomicU64::new(0),
        };
        Ok(Master { shared: Arc::new(shared), dashboard: Mutex::new(None) })
    }

    /// Waits until it is known that all hosts have what a function needs.
    fn python_ready(&self, py: Python<'_>, needs: Vec<String>, tick: Py<PyAny>) -> PyResult<()> {
        let master = self.shared.master(py)?;
        let ready = py.detach(|| -> Result<(), Failed> {
            let result = loop {
                match master.python_ready(&needs, PAUSE) {
                    Ok(true) => break Ok(()),
                    Ok(false) => self.shared.look_up(&tick)?,
                    Err(e) => break Err(e.into()),
                }
            };
            drop(master);
            result
        });
        ready.map_err(|failed| raise(py, failed, ""))
    }

    /// What the interpreters on hosts, and the one at this path here, compute with: name, NumPy, BLAS, CPU features.
    fn interpreters(&self, py: Python<'_>, executable: PathBuf) -> PyResult<Vec<InterpreterParts>> {
        let mut found = self.ask(py, |master| master.python_interpreters())?;
        if let Ok(here) = py.detach(|| python::facts_of(&executable)) {
            found.insert(0, ("this machine".to_owned(), here));
        }
        let parts = found.into_iter().map(|(name, f)| (name, f.numpy.unwrap_or_default(), f.blas, f.cpu));
        Ok(parts.collect())
    }

    /// Runs a round and gives the parts of its value.
    #[pyo3(signature = (code, stream, buffers, data, reads, timeout, tick, step=None))]
    #[expect(clippy::too_many_arguments, reason = "called from one place, once per round")]
    fn run<'py>(
        &self,
        py: Python<'py>,
        code: &Code,
        stream: &Bound<'py, PyAny>,
        buffers: &Bound<'py, PyAny>,
        data: Option<&Data>,
        reads: Readers,
        timeout: Option<f64>,
        tick: &Bound<'py, PyAny>,
        step: Option<u64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let master = self.shared.master(py)?;
        let call = self.shared.call(code, stream, buffers, false, step)?;
        let data = set_of(py, data, reads, false)?;
        let patience = Patience::new(&self.shared, tick, timeout);
        let pause = patience.pause();
        let result = py.detach(|| {
            let data = data.map_or_else(|| nothing(&master), Ok)?;
            let goes_on = |pending: &qjam::Pending<_>| patience.goes_on(|| pending.waiting_for());
            let result = master.run_while(python::call, &call, &data, pause, goes_on, patience.called_off());
            // The last of all who have it may be this thread: then it ends the workers, which may want the interpreter.
            drop((master, call, data));
            result
        });
        release_waiting(py);
        match result {
            Ok((value, report)) => {
                self.shared.keep_report(report);
                to_parts(py, value.body)
            }
            Err(error) => {
                interpreter::call_off(py)?;
                if let Some(interrupt) = interpreter::take_interrupt() {
                    return Err(interrupt);
                }
                Err(raise(py, patience.failed().unwrap_or(Failed::Round(error)), &code.name))
            }
        }
    }

    /// Begins a round.
    #[pyo3(signature = (code, stream, buffers, data, reads, step=None))]
    #[expect(clippy::too_many_arguments, reason = "called from one place")]
    fn submit(
        &self,
        py: Python<'_>,
        code: Py<Code>,
        stream: &Bound<'_, PyAny>,
        buffers: &Bound<'_, PyAny>,
        data: Option<&Data>,
        reads: Readers,
        step: Option<u64>,
    ) -> PyResult<Pending> {
        let master = self.shared.master(py)?;
        let call = self.shared.call(code.get(), stream, buffers, true, step)?;
        let data = set_of(py, data, reads, false)?;
        let pending = py.detach(|| -> Result<_, Failed> {
            let data = data.map_or_else(|| nothing(&master), Ok)?;
            let pending = master.submit(python::call, &call, &data)?;
            drop(master);
            Ok(pending)
        });
        let pending = pending.map_err(|failed| raise(py, failed, &code.get().name))?;
        Ok(Pending::new(self.shared.clone(), code, pending))
    }

    /// Has workers keep a state for every chunk.
    #[pyo3(signature = (data, reads, tick))]
    fn hold(&self, py: Python<'_>, data: Option<&Data>, reads: Readers, tick: Py<PyAny>) -> PyResult<Held> {
        let master = self.shared.master(py)?;
        let data = set_of(py, data, reads, true)?;
        let held = apart(py, &tick, move || {
            let data = data.map_or_else(|| nothing(&master), Ok)?;
            master.hold::<python::Memory>(&data)
        });
        Ok(Held::new(self.shared.clone(), held.map_err(|failed| raise(py, failed, "hold"))?))
    }

    /// Takes on more workers.
    fn add_workers(&self, py: Python<'_>, workers: String, tick: Py<PyAny>) -> PyResult<()> {
        let master = self.shared.master(py)?;
        let added = apart(py, &tick, move || master.add_workers(&workers));
        added.map_err(|failed| raise(py, failed, ""))
    }

    /// Sends a worker away; says whether there was one.
    fn remove_worker(&self, py: Python<'_>, name: String, tick: Py<PyAny>) -> PyResult<bool> {
        let master = self.shared.master(py)?;
        let removed = apart(py, &tick, move || Ok(master.remove_worker(&name)));
        removed.map_err(|failed| raise(py, failed, ""))
    }

    /// Name, process here, process there and slots of everybody.
    fn workers(&self, py: Python<'_>) -> PyResult<Vec<WorkerParts>> {
        let info = self.ask(py, |master| master.workers())?;
        Ok(info.into_iter().map(|w| (w.name, w.pid, w.remote_pid, w.slots)).collect())
    }

    /// The numbers of the last round, in the order of `qjam.RoundReport`.
    fn last_round<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        let report = *self.shared.last_round.lock().unwrap_or_else(PoisonError::into_inner);
        report.map(|report| report_tuple(py, &report)).transpose()
    }

    /// What happened: seconds, kind, text.
    fn journal(&self, py: Python<'_>) -> PyResult<Vec<(f64, &'static str, String)>> {
        self.ask(py, |master| {
            let entries = master.journal();
            let told = entries.iter().map(|entry| {
                let (kind, text) = in_words(master, &entry.what);
                (entry.at.0 as f64 / 1e6, kind, text)
            });
            told.collect()
        })
    }

    /// Records a number in the run file.
    fn record_metric(&self, py: Python<'_>, name: &str, value: f64) -> PyResult<()> {
        self.ask(py, |master| master.record_metric(name, value))
    }

    /// Serves the page of this run until the master is closed, and gives its link.
    fn start_dashboard(&self, py: Python<'_>) -> PyResult<String> {
        let file = self.ask(py, |master| master.run_file())?.ok_or_else(|| {
            PyValueError::new_err(
                "there is no dashboard, since it reads the run file and this run writes none: leave out run_folder=False, and see \
                 that QJAM_RUNS is not `off` and its folder can be written",
            )
        })?;
        let started = py.detach(|| Dashboard::start(&file));
        let dashboard = started.map_err(|e| PyOSError::new_err(e.to_string()))?;
        let link = dashboard.link().to_owned();
        let before = self.dashboard.lock().unwrap_or_else(PoisonError::into_inner).replace(dashboard);
        py.detach(|| drop(before));
        Ok(link)
    }

    /// What a page about the run shows, as JSON; `None` if there is no run file.
    fn summary(&self, py: Python<'_>) -> PyResult<Option<String>> {
        let Some(file) = self.ask(py, |master| master.run_file())? else { return Ok(None) };
        Ok(py.detach(|| Summary::read(&file).ok().map(|summary| summary.whole())))
    }

    /// What is known of each kind of work, in words.
    fn explain(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        self.ask(py, |master| {
            let chosen = master.explain().into_iter().map(|known| known.to_string());
            chosen.chain(master.long_results().into_iter().map(|long| long.to_string())).collect()
        })
    }

    /// How many workers were lost in all rounds so far.
    #[getter]
    fn lost(&self) -> u64 {
        self.shared.lost.load(Relaxed)
    }

    /// Whether this process was forked from the one that it is in.
    #[getter]
    fn elsewhere(&self) -> bool {
        self.shared.is_elsewhere()
    }

    #[getter]
    fn closed(&self) -> bool {
        self.shared.is_closed.load(Relaxed)
    }

    /// Ends all workers. Whoever waits for a round of it is told. The run file says why the run failed, if it did.
    #[pyo3(signature = (why=None))]
    fn close(&self, py: Python<'_>, why: Option<String>) {
        if self.shared.is_elsewhere() || self.shared.is_closed.swap(true, Relaxed) {
            return;
        }
        let dashboard = self.dashboard.lock().unwrap_or_else(PoisonError::into_inner).take();
        py.detach(|| {
            self.shared.end(why.as_deref());
            // Afterwards, so that its pages are told the end.
            drop(dashboard);
        });
        // Functions of this process whose rounds have ended with it.
        let _ = interpreter::call_off(py);
    }
}

impl Drop for Master {
    fn drop(&mut self) {
        if self.shared.is_elsewhere() {
            // Its threads are not in this process, and whoever waited for them would wait for ever.
            std::mem::forget(self.dashboard.get_mut().unwrap_or_else(PoisonError::into_inner).take());
        }
    }
}

impl Master {
    fn ask<R: Send>(&self, py: Python<'_>, f: impl FnOnce(&qjam::Master) -> R + Send) -> PyResult<R> {
        let master = self.shared.master(py)?;
        Ok(py.detach(|| {
            let answer = f(&master);
            drop(master);
            answer
        }))
    }
}

/// The data set of a round. Sharing it may take a while, and others go on meanwhile.
fn set_of(
    py: Python<'_>,
    data: Option<&Data>,
    readers: Readers,
    lasting: bool,
) -> PyResult<Option<DataSet<Raw>>> {
    py.detach(|| data.map(|data| data.set(readers, lasting)).transpose())
}

/// A task for every slot there is.
pub(crate) fn nothing(master: &qjam::Master) -> Result<DataSet<Raw>, qjam::Error> {
    let slots: u32 = master.workers().iter().map(|w| w.slots).sum();
    Ok(DataSet::nothing(slots.max(1) as usize)?.untyped())
}

pub(crate) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<Master>()?;
    m.add_class::<Code>()?;
    m.add_class::<Pending>()?;
    m.add_class::<Held>()?;
    m.add_function(wrap_pyfunction!(news::has_news, m)?)?;
    m.add_function(wrap_pyfunction!(news::take_news, m)?)?;
    m.add_function(wrap_pyfunction!(options::names_in, m)?)?;
    m.add_function(wrap_pyfunction!(options::guarded, m)?)?;
    m.add_function(wrap_pyfunction!(options::printable, m)?)?;
    m.add_function(wrap_pyfunction!(options::named_workers, m)?)?;
    m.add_function(wrap_pyfunction!(options::worker_kinds, m)?)?;
    m.add_function(wrap_pyfunction!(options::set_up, m)?)?;
    python::set_log(Arc::new(|worker, line| {
        let (level, text) = python::split_level(line);
        news::line(worker, text, level);
    }));
    python::set_interpreter(Arc::new(interpreter::InProcess));
    Ok(())
}
