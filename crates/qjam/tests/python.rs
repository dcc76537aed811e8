//! Python functions, run by child interpreters of slots that are threads of this process.

#![allow(clippy::unwrap_used, reason = "all of this is test")]

mod python {
    pub(crate) mod deaths;
    mod memory;
    mod running;
    pub(crate) mod shop;
}

qjam_conformance::hook!(python::deaths::PROGRAMS);
