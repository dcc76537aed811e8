//! Workers on other hosts, really reached over ssh: the test hosts of `cargo xtask hosts up`.
//!
//! This executable is the program, the worker that is copied to the hosts, and (started again, see [`program`]) the
//! master that is killed. Where the hosts are is said by `QJAM_TEST_HOSTS`, how they are reached by `QJAM_SSH`; without
//! them every test fails:
//!
//! ```text
//! export QJAM_TEST_HOSTS=$PWD/target/hosts QJAM_SSH="ssh -F $PWD/target/hosts/ssh_config"
//! cargo test -p qjam --test hosts
//! ```
//!
//! A test claims the hosts it uses ([`hosts::claim`]), because it may pull their cables, and nothing may be left running
//! on them when it is over. Those that take minutes are ignored, and run by `cargo xtask test --full`.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "all of this is test: what is not there should end it, and the figures it saw are its purpose"
)]

qjam_conformance::hook!(
    cache::PROGRAMS,
    ends::PROGRAMS,
    large::PROGRAMS,
    mixed::PROGRAMS,
    python::PROGRAMS,
    stops::PROGRAMS,
);

mod hosts;
mod program;
#[path = "../state/ridge.rs"]
mod ridge;
mod work;

mod bits;
mod cache;
mod cuts;
mod ends;
mod joining;
mod large;
mod memory;
mod mixed;
mod python;
mod schedules;
mod state;
mod stops;
mod user_code;
