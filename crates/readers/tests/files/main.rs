//! Every kind of file: one program for all, since each would be linked with all the formats.
#![allow(clippy::unwrap_used, reason = "a test says what went wrong by panicking")]

mod binary;
#[path = "../common/mod.rs"]
mod common;
mod csv;
mod libsvm;
mod media;
mod open;
mod parquet;
