//! Every kind of file: one program for all, since each would be linked with all the formats.

mod binary;
#[path = "../common/mod.rs"]
mod common;
mod csv;
mod libsvm;
mod media;
mod open;
mod parquet;
