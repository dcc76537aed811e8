//! The supervisor: serves a master over a connection until that ends.

use super::entry::Stdio;
use std::fs::File;
use std::io;

/// Serves until the master closes the connection.
pub(crate) fn serve(stdio: Stdio) -> io::Result<()> {
    io::copy(&mut File::from(stdio.input), &mut io::sink())?;
    drop((stdio.output, stdio.dir));
    Ok(())
}
