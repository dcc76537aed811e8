//! Prints the book's page of learners, `docs/book/learners.md`.

use std::io::Write;

fn main() -> std::io::Result<()> {
    std::io::stdout().write_all(qjam_algos::registry::page::all().as_bytes())
}
