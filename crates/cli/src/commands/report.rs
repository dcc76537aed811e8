//! A page about a run, for a browser.

use super::runs::named;
use crate::args::Report;
use crate::output;
use anyhow::{Context, bail};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

pub(crate) fn run(args: &Report) -> anyhow::Result<()> {
    let run = named(&args.run)?;
    let page = qjam_dashboard::report::page(&run.path).context("cannot read the run file")?;
    let out = args.out.clone().unwrap_or_else(|| PathBuf::from(format!("qjam-{}.html", run.id)));
    if out.as_os_str() == "-" {
        if args.open {
            bail!("--open needs a file to open; leave out `--out -`");
        }
        return std::io::stdout().write_all(page.as_bytes()).context("standard output cannot be written");
    }
    write_new(&out, page.as_bytes(), args.force)?;
    output::line(format!("{} ({})", out.display(), output::bytes(page.len() as u64)));
    if args.open {
        open(&out)?;
    }
    Ok(())
}

/// Writes the page beside the file and renames it, so that nobody sees half of it.
fn write_new(out: &Path, page: &[u8], force: bool) -> anyhow::Result<()> {
    if !force && out.exists() && !is_report(out) {
        bail!(
            "{} exists and is not a report; name another file, or overwrite it with --force",
            out.display()
        );
    }
    if out.is_dir() {
        bail!("{} is a folder; name a file in it", out.display());
    }
    let mut name = out.file_name().context("--out names no file")?.to_owned();
    name.push(format!(".{}.part", std::process::id()));
    let part = out.with_file_name(name);
    let written = std::fs::write(&part, page).and_then(|()| std::fs::rename(&part, out));
    if written.is_err() {
        let _ = std::fs::remove_file(&part);
    }
    written.with_context(|| format!("cannot write {}", out.display()))
}

/// Whether a file is a report of ours, which may be written again.
fn is_report(path: &Path) -> bool {
    use std::io::Read;
    let mut start = Vec::new();
    let read = std::fs::File::open(path).and_then(|file| file.take(4096).read_to_end(&mut start));
    read.is_ok() && String::from_utf8_lossy(&start).contains("<title>qjam run ")
}

/// Opens a file or an address in the user's browser.
pub(super) fn open(path: &Path) -> anyhow::Result<()> {
    const OPENER: &str = "xdg-open";
    let mut command = Command::new(OPENER);
    command.arg(path).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => bail!("`{OPENER}` ended with {status}; open {} in a browser yourself", path.display()),
        Err(e) => bail!("cannot start `{OPENER}` ({e}); open {} in a browser yourself", path.display()),
    }
}
