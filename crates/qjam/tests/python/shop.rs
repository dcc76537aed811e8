//! What the tests are made of: an interpreter that has NumPy, code, parameters, and looking at results.

use bytes::Bytes;
use qjam::Master;
use qjam::python::{Body, Call, Code, Leaf, Pickled, Setup, Value, set_up};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// The interpreter that the tests use.
pub(crate) fn python() -> &'static Path {
    static FOUND: OnceLock<PathBuf> = OnceLock::new();
    FOUND.get_or_init(|| {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let candidates = [
            std::env::var_os("QJAM_TEST_PYTHON").map(PathBuf::from),
            Some(root.join("target/venv/bin/python")),
            Some(PathBuf::from("python3")),
        ];
        let has_numpy = |python: &PathBuf| {
            let mut command = Command::new(python);
            command.args(["-c", "import numpy"]).stdout(Stdio::null()).stderr(Stdio::null());
            command.status().is_ok_and(|status| status.success())
        };
        let found = candidates.into_iter().flatten().find(has_numpy);
        let found = found.expect(
            "no Python interpreter with NumPy: name one by QJAM_TEST_PYTHON, or have `cargo xtask setup` make one",
        );
        set_up(Setup { executable: found.clone(), ..Setup::default() });
        found
    })
}

/// A master whose worker processes use that interpreter.
pub(crate) fn master(workers: &str) -> Master {
    let interpreter = python().display().to_string();
    let builder = Master::builder().python_support(Bytes::new(), (3, 11));
    builder.python_interpreter(interpreter, Vec::new()).connect(workers).unwrap()
}

/// What Python prints for a piece of code.
pub(crate) fn ask(code: &str, input: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut command = Command::new(python());
    let mut child = command.args(["-c", code]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{code}");
    output.stdout
}

/// The pickle of what an expression gives, with arrays beside it.
pub(crate) fn pickled(expression: &str) -> Pickled {
    let out = ask(
        &format!(
            "import pickle, struct, sys, numpy as np\n\
             b = []\n\
             s = pickle.dumps({expression}, protocol=5, buffer_callback=b.append)\n\
             for part in [s, *b]:\n    \
                 part = memoryview(part).cast('B') if part is s else part.raw()\n    \
                 sys.stdout.buffer.write(struct.pack('<Q', len(part)) + bytes(part))\n"
        ),
        &[],
    );
    let mut parts = Vec::new();
    let mut rest = &out[..];
    while let Some((length, more)) = rest.split_first_chunk() {
        let (part, more) = more.split_at(u64::from_le_bytes(*length) as usize);
        parts.push(Bytes::copy_from_slice(part));
        rest = more;
    }
    let buffers = parts.split_off(1);
    Pickled { stream: parts.remove(0), buffers }
}

/// A call of the `mapfunc` in this source, or of its `step`.
pub(crate) fn source(text: &str, params: Pickled) -> Call {
    python();
    Call::new(Code::new(Bytes::from(format!("src\n{text}"))), params, (3, 11))
}

/// The same without parameters.
pub(crate) fn plain(text: &str) -> Call {
    static NONE: OnceLock<Pickled> = OnceLock::new();
    source(text, NONE.get_or_init(|| pickled("None")).clone())
}

/// The doubles of a value.
pub(crate) fn doubles(value: &Value) -> Vec<f64> {
    match &value.body {
        Body::Numbers { leaves, .. } => leaves
            .iter()
            .flat_map(|leaf| match leaf {
                Leaf::F64(numbers) => numbers.clone(),
                Leaf::Int(number) => vec![*number as f64],
                other => panic!("{other:?}"),
            })
            .collect(),
        other => panic!("{other:?}"),
    }
}

/// What Python says a value is.
pub(crate) fn shown(value: &Value) -> String {
    match &value.body {
        Body::Pickled(pickled) => {
            assert!(pickled.buffers.is_empty());
            let shown = ask(
                "import pickle, sys; print(repr(pickle.load(sys.stdin.buffer)), end='')",
                &pickled.stream,
            );
            String::from_utf8(shown).unwrap()
        }
        other => format!("{other:?}"),
    }
}

/// The children of this process that are interpreters.
pub(crate) fn children() -> Vec<i32> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let mut found: Vec<i32> = tasks
        .filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("children")).ok())
        .flat_map(|line| line.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>())
        .collect();
    found.sort_unstable();
    found
}
