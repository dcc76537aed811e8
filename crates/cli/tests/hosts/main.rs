//! The command on other hosts: what it says when one would not serve, and how hosts are looked after.
//!
//! These need the test hosts: `cargo xtask test --only hosts` makes them and runs these; or by hand
//!
//! ```text
//! cargo xtask hosts up
//! QJAM_TEST_HOSTS=target/hosts QJAM_SSH="ssh -F target/hosts/ssh_config" cargo test -p qjam-cli --test hosts
//! ```

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "all of this is test: what is not there should end it, and what was seen is worth reading then"
)]

mod care;
mod faults;
mod kmeans;
#[path = "../learners/mod.rs"]
mod learners;
mod linear;
mod support;
