//! What the master and its workers tell each other about Python, and its bytes.
//!
//! The messages between them carry these bytes without reading them: a welcome has a [`Setup`](WorkerSetup), the answer of
//! a host that was asked has [`InterpreterFacts`].

use super::numerics::Variable;
use serde::{Deserialize, Serialize};

/// What an executor needs to know of Python, when its master has functions of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerSetup {
    /// The master's version, which code travels between: major and minor.
    pub version: (u8, u8),
    /// The master's own interpreter, for executors on its machine. Elsewhere one has to be found.
    pub interpreter: Option<String>,
    /// Where that one looks for modules.
    pub path: Vec<String>,
    /// Which interpreter the user wants on other hosts: a path or a name.
    pub wanted: Option<String>,
    /// How many slots the master has on this machine, if others share it with this executor; otherwise 0.
    pub slots_here: u32,
    /// The master's settings of how libraries compute, if this is another machine.
    pub numerics: Vec<Variable>,
    /// Modules that interpreters need and may not have. Only Python reads it.
    pub support: Vec<u8>,
}

/// An interpreter that was found, and what it can import.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterpreterFacts {
    /// Its path there.
    pub interpreter: String,
    /// Its version.
    pub version: (u8, u8, u8),
    /// NumPy's version, or why it cannot be imported.
    pub numpy: Result<String, String>,
    /// The linear algebra that NumPy was built with, name and version; empty if it does not say.
    pub blas: String,
    /// The CPU features that NumPy found; empty if it does not say.
    pub cpu: String,
    /// Names of the modules that can be imported, of the top level, in order.
    pub modules: Vec<String>,
}

impl WorkerSetup {
    /// For a welcome.
    pub fn to_bytes(&self) -> Vec<u8> {
        encoded(self)
    }

    /// From a welcome; `None` if these bytes are no setup.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        postcard::from_bytes(bytes).ok()
    }
}

impl InterpreterFacts {
    /// For the master.
    pub fn to_bytes(&self) -> Vec<u8> {
        encoded(self)
    }

    /// From a host; `None` if these bytes are no facts.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        postcard::from_bytes(bytes).ok()
    }
}

fn encoded(value: &impl Serialize) -> Vec<u8> {
    postcard::to_stdvec(value).expect("plain values can be written to memory")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_of_python_survives_the_trip() {
        let setup = WorkerSetup {
            version: (3, 11),
            interpreter: Some("/usr/bin/python3".into()),
            path: vec!["/usr/lib/python3".into()],
            wanted: Some("python3.11".into()),
            slots_here: 4,
            numerics: vec![("OPENBLAS_CORETYPE".into(), "Haswell".into())],
            support: vec![7; 60_000],
        };
        assert_eq!(WorkerSetup::from_bytes(&setup.to_bytes()), Some(setup));
        for numpy in [Ok("1.26.4".to_owned()), Err("No module named 'numpy'".to_owned())] {
            let modules = (0..400).map(|n| format!("module_{n}")).collect();
            let facts = InterpreterFacts {
                interpreter: "/usr/bin/python3.11".into(),
                version: (3, 11, 7),
                numpy,
                blas: "scipy-openblas 0.3.29".into(),
                cpu: "AVX2 SSE".into(),
                modules,
            };
            assert_eq!(InterpreterFacts::from_bytes(&facts.to_bytes()), Some(facts));
        }
        assert_eq!(InterpreterFacts::from_bytes(&[255; 9]), None);
    }
}
