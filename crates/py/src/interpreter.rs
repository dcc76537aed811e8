//! The interpreter of the master's own process, as rounds use it.
//!
//! Comes in: Rust values, from the threads of the master's loop and of the slots of `inproc` workers. They wait for the
//! interpreter and call `qjam._interpreter`, which has the functions of running rounds. Goes out: Rust values, or the exception.
//! Code that holds the interpreter may not wait for a master: see the rules in `lib.rs`.

use crate::buffer::view;
use crate::values::{from_parts, from_pickle, to_parts, to_pickle};
use pyo3::exceptions::{PyBaseException, PyKeyboardInterrupt};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyList, PyTuple};
use qjam::Ctx;
use qjam::python::{Call, Interpreter, Pickled, Raised, Raw, Value};
use std::ffi::c_ulong;
use std::sync::{Mutex, PoisonError};

/// Running calls of user code in this process, with their threads.
static INSIDE: Mutex<Vec<(c_ulong, Ctx)>> = Mutex::new(Vec::new());

/// A Ctrl-C that arrived while the main thread was in user code, in a round that it runs itself.
static INTERRUPTED: Mutex<Option<PyErr>> = Mutex::new(None);

/// This process's interpreter.
pub(crate) struct InProcess;

/// A function of `qjam._interpreter`.
macro_rules! interpreter_function {
    ($py:expr, $name:literal) => {{
        static FUNCTION: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        FUNCTION.import($py, "qjam._interpreter", $name)
    }};
}

impl Interpreter for InProcess {
    fn map(&self, call: &Call, chunk: &Raw, ctx: &Ctx) -> Result<Value, Raised> {
        attached(|py| {
            let given = Given::new(py, call, chunk, ctx)?;
            let function = interpreter_function!(py, "map_chunk")?;
            let arguments = given.tuple(py)?;
            let parts = inside(py, ctx, || call_python(function, arguments))?;
            Ok(Value { code: call.code.id(), body: from_parts(&parts)? })
        })
    }

    fn step(
        &self,
        call: &Call,
        chunk: &Raw,
        memory: Option<&Pickled>,
        ctx: &Ctx,
    ) -> Result<(Value, Pickled), Raised> {
        attached(|py| {
            let given = Given::new(py, call, chunk, ctx)?.tuple(py)?;
            let memory = memory.map(|memory| to_pickle(py, memory.clone())).transpose()?;
            let function = interpreter_function!(py, "step_chunk")?;
            let arguments = (given, memory).into_pyobject(py)?;
            let step = || call_python(function, arguments);
            let (parts, memory): (Bound<'_, PyAny>, (Bound<'_, PyAny>, Bound<'_, PyAny>)) =
                inside(py, ctx, step)?.extract()?;
            let value = Value { code: call.code.id(), body: from_parts(&parts)? };
            Ok((value, from_pickle(&memory.0, &memory.1, true)?))
        })
    }

    fn merge(&self, left: Value, right: Value) -> Result<Value, Raised> {
        attached(|py| {
            let code = left.code;
            let merge = interpreter_function!(py, "merge")?;
            let (left, right) = (to_parts(py, left.body)?, to_parts(py, right.body)?);
            let parts = call_python(merge, (PyBytes::new(py, &code.0), left, right).into_pyobject(py)?)?;
            Ok(Value { code, body: from_parts(&parts)? })
        })
    }
}

/// The arguments of a call, as Python objects.
struct Given<'py> {
    code: Bound<'py, PyBytes>,
    params: (Bound<'py, PyAny>, Bound<'py, PyList>),
    chunk: (&'py str, &'py str, Bound<'py, PyTuple>, Bound<'py, PyAny>),
    ctx: (u64, u64, u32, Option<u64>),
}

impl<'py> Given<'py> {
    fn new(py: Python<'py>, call: &Call, chunk: &'py Raw, ctx: &Ctx) -> PyResult<Self> {
        let header = &chunk.header;
        let shape = PyTuple::new(py, &header.shape)?;
        let bytes = view(py, chunk.bytes.clone())?;
        Ok(Given {
            code: PyBytes::new(py, &call.code.id().0),
            params: shown_pickle(py, &call.params)?,
            chunk: (&header.kind, &header.dtype, shape, bytes),
            ctx: (ctx.seed(), ctx.round(), ctx.chunk(), call.step),
        })
    }

    fn tuple(self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        (self.code, self.params, self.chunk, self.ctx).into_pyobject(py)
    }
}

/// Parameters, read-only because all chunks share them.
fn shown_pickle<'py>(py: Python<'py>, params: &Pickled) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyList>)> {
    let buffers = PyList::empty(py);
    for buffer in &params.buffers {
        buffers.append(view(py, buffer.clone())?)?;
    }
    Ok((PyBytes::new(py, &params.stream).into_any(), buffers))
}

/// Runs `f` with the interpreter; an exception becomes a [`Raised`], as from a worker.
fn attached<R>(f: impl FnOnce(Python<'_>) -> PyResult<R>) -> Result<R, Raised> {
    attach(|py| f(py).map_err(|error| described(py, error)))
}

/// Runs `f` with the interpreter. A thread that comes after the interpreter has begun to end stays here: there is nothing left for
/// it to do, and the end of the process takes it along.
pub(crate) fn attach<R>(f: impl FnOnce(Python<'_>) -> R) -> R {
    match Python::try_attach(f) {
        Some(result) => result,
        None => wait_for_the_end(),
    }
}

fn wait_for_the_end() -> ! {
    loop {
        std::thread::park();
    }
}

/// Calls a Python function that may run user code.
///
/// When an interpreter older than 3.14 ends, it ends each thread that is in the middle of Python code at its next instruction, by
/// unwinding its stack. Neither Rust code nor the interpreter survives that: the process would abort. So such a thread is kept
/// here until the process ends.
#[inline(never)]
#[expect(unsafe_code, reason = "only a call that may unwind can be stopped from unwinding further")]
pub(crate) fn call_python<'py>(
    function: &Bound<'py, PyAny>,
    arguments: Bound<'py, PyTuple>,
) -> PyResult<Bound<'py, PyAny>> {
    type Object = *mut pyo3::ffi::PyObject;
    type MayUnwind = unsafe extern "C-unwind" fn(Object, Object) -> Object;
    struct Unwound;
    impl Drop for Unwound {
        fn drop(&mut self) {
            wait_for_the_end();
        }
    }
    // By its address: bindings declare the function as one that never unwinds, and optimised builds would believe that of every
    // direct call.
    let address = std::hint::black_box(pyo3::ffi::PyObject_CallObject as *const ());
    // SAFETY: it is that function, and the two ABIs differ in nothing but what happens when a stack is unwound.
    let call = unsafe { std::mem::transmute::<*const (), MayUnwind>(address) };
    let unwound = Unwound;
    // SAFETY: both objects are alive and the interpreter is held. An exception of Python is a null pointer.
    let result = unsafe { call(function.as_ptr(), arguments.as_ptr()) };
    std::mem::forget(unwound);
    // SAFETY: it is a new reference, or null with an exception set.
    unsafe { Bound::from_owned_ptr_or_err(function.py(), result) }
}

fn described(py: Python<'_>, error: PyErr) -> Raised {
    let text = error.to_string();
    if error.is_instance_of::<PyKeyboardInterrupt>(py) && is_main(py).unwrap_or(false) {
        *INTERRUPTED.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.clone_ref(py));
    }
    let describe = || -> PyResult<Raised> {
        let value: Py<PyBaseException> = error.into_value(py);
        let arguments = (value,).into_pyobject(py)?;
        let (message, location, traceback, pickled) =
            call_python(interpreter_function!(py, "describe")?, arguments)?.extract()?;
        Ok(Raised { message, location, traceback, pickled, ..Raised::default() })
    };
    describe().unwrap_or_else(|_| Raised { message: text, ..Raised::default() })
}

/// Runs `f` and notes that this thread is in user code, so that it can be cancelled.
fn inside<R>(py: Python<'_>, ctx: &Ctx, f: impl FnOnce() -> R) -> R {
    let thread: c_ulong = thread_name(py).unwrap_or(0);
    let note = || INSIDE.lock().unwrap_or_else(PoisonError::into_inner);
    note().push((thread, ctx.clone()));
    let result = f();
    let mut noted = note();
    if let Some(n) = noted.iter().position(|(other, _)| *other == thread) {
        noted.swap_remove(n);
    }
    result
}

fn thread_name(py: Python<'_>) -> PyResult<c_ulong> {
    static IDENT: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    IDENT.import(py, "threading", "get_ident")?.call0()?.extract()
}

fn is_main(py: Python<'_>) -> PyResult<bool> {
    let threading = py.import(intern!(py, "threading"))?;
    let main = threading.call_method0(intern!(py, "main_thread"))?.getattr(intern!(py, "ident"))?;
    Ok(main.extract::<c_ulong>()? == thread_name(py)?)
}

/// The exception of the user's Ctrl-C, if it came while the main thread was inside user code.
pub(crate) fn take_interrupt() -> Option<PyErr> {
    INTERRUPTED.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// Keeps the exception of a Ctrl-C that came while this thread waited for others on behalf of a round.
pub(crate) fn note_interrupt(error: PyErr) {
    *INTERRUPTED.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
}

/// Raises an exception in all calls of this process whose rounds have ended. It takes effect between two Python instructions;
/// code that stays in native functions cannot be stopped.
pub(crate) fn call_off(py: Python<'_>) -> PyResult<()> {
    // `cancelled` may call Python, so the lock is not held meanwhile.
    let noted: Vec<(c_ulong, Ctx)> = INSIDE.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let threads: Vec<c_ulong> =
        noted.into_iter().filter(|(_, ctx)| ctx.cancelled()).map(|(thread, _)| thread).collect();
    if threads.is_empty() {
        return Ok(());
    }
    let stop = py.import(intern!(py, "qjam._interpreter"))?.getattr(intern!(py, "Stopped"))?;
    for thread in threads {
        #[expect(unsafe_code, reason = "there is no other way to have another thread raise an exception")]
        // SAFETY: the interpreter is held, and the class is alive; an unknown thread is not touched.
        unsafe {
            pyo3::ffi::PyThreadState_SetAsyncExc(thread.cast_signed(), stop.as_ptr());
        }
    }
    Ok(())
}
