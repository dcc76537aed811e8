//! How things are shown: colours and moving lines on a terminal, plain lines elsewhere.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "this is where the command prints")]

pub(crate) mod events;

use qjam::printable;
use serde_json::json;
use std::io::{self, IsTerminal, Write};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process::ExitCode;

/// Whether standard output is a terminal that a person looks at.
pub(crate) fn is_terminal() -> bool {
    std::io::stdout().is_terminal() && std::env::var_os("TERM").is_none_or(|t| t != "dumb")
}

/// Whether colours are wanted.
pub(crate) fn has_colour() -> bool {
    is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty())
}

/// A line. If standard output cannot be written, the command ends: see [`unwritable`].
pub(crate) fn line(text: impl AsRef<str>) {
    write_line(&shown(text.as_ref(), has_colour()));
}

/// Text of our own for other programs, as it is.
pub(crate) fn raw(bytes: &[u8]) {
    if let Err(e) = std::io::stdout().write_all(bytes) {
        unwritable(e);
    }
}

/// A value for programs, in one line.
pub(crate) fn json(value: &impl serde::Serialize) -> anyhow::Result<()> {
    write_line(&one_line(value)?);
    Ok(())
}

/// A value for programs, as a terminal may show it.
pub(crate) fn one_line(value: &impl serde::Serialize) -> serde_json::Result<String> {
    let mut text = String::new();
    for c in serde_json::to_string(value)?.chars() {
        // What JSON lets pass and a terminal obeys.
        if qjam::is_obeyed(c) { text.push_str(&format!("\\u{:04x}", u32::from(c))) } else { text.push(c) }
    }
    Ok(text)
}

/// A line on standard error, as it is.
pub(crate) fn error_line(text: &str) {
    eprintln!("{text}");
}

fn write_line(text: &str) {
    if let Err(e) = writeln!(std::io::stdout(), "{text}") {
        unwritable(e);
    }
}

/// What this command writes to a terminal itself.
const OUR_SEQUENCES: [&str; 5] = ["\x1b[0m", "\x1b[1m", "\x1b[1;31m", "\x1b[32m", "\x1b[33m"];

/// A text in which hosts, files and run files may have their words, as it may be shown. Only our own colours are left in it.
fn shown(text: &str, with_colour: bool) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some(at) = rest.find('\x1b') {
        out.push_str(&printable(&rest[..at]));
        rest = &rest[at..];
        let ours = OUR_SEQUENCES.iter().find(|ours| with_colour && rest.starts_with(**ours));
        let (taken, put) = ours.map_or((1, "\\u{1b}"), |ours| (ours.len(), *ours));
        out.push_str(put);
        rest = &rest[taken..];
    }
    out.push_str(&printable(rest));
    out
}

/// Why standard output could not be written.
struct Unwritable(io::Error);

/// Ends the command, since nobody gets what it prints. The stack is unwound, so that masters are dropped, which ends
/// their workers and writes the end into their run files; [`until_unwritable`] takes it from there.
pub(crate) fn unwritable(e: io::Error) -> ! {
    qjam::runs::ends_early(match e.kind() {
        io::ErrorKind::BrokenPipe => "nobody reads the standard output of this command any more".into(),
        _ => format!("standard output cannot be written: {e}"),
    });
    resume_unwind(Box::new(Unwritable(e)))
}

/// Runs a command; if its output cannot be written, says so and gives the exit code for it. A reader that has gone away
/// (`qjam … | head`) has what it wants: that is success.
pub(crate) fn until_unwritable(command: impl FnOnce() -> ExitCode) -> ExitCode {
    let payload = match catch_unwind(AssertUnwindSafe(command)) {
        Ok(code) => return code,
        Err(payload) => payload,
    };
    match payload.downcast::<Unwritable>() {
        Ok(unwritable) if unwritable.0.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Ok(unwritable) => {
            let e = anyhow::Error::new(unwritable.0);
            error(&e.context("standard output cannot be written; make room there, or send it elsewhere"));
            ExitCode::FAILURE
        }
        Err(panic) => resume_unwind(panic),
    }
}

/// A heading.
pub(crate) fn heading(text: &str) {
    if has_colour() { line(format!("\x1b[1m{text}\x1b[0m")) } else { line(text) }
}

/// The mark of what went well.
pub(crate) fn good() -> &'static str {
    if has_colour() { "\x1b[32m✓\x1b[0m" } else { "✓" }
}

/// The mark of what went wrong.
pub(crate) fn bad() -> &'static str {
    if has_colour() { "\x1b[1;31m✗\x1b[0m" } else { "✗" }
}

/// The mark of what might be better.
pub(crate) fn warning() -> &'static str {
    if has_colour() { "\x1b[33m!\x1b[0m" } else { "!" }
}

/// A line that the next one overwrites; on anything but a terminal it is not printed.
pub(crate) fn moving(text: &str) {
    if is_terminal() {
        print!("\r\x1b[2K{}", shown(text, has_colour()));
        let _ = std::io::stdout().flush();
    }
}

/// Ends a moving line.
pub(crate) fn moved() {
    if is_terminal() {
        print!("\r\x1b[2K");
        let _ = std::io::stdout().flush();
    }
}

/// A line on standard error that the next one overwrites, for commands whose results go to standard output; on anything
/// but a terminal it is not printed.
pub(crate) fn passing(text: &str) {
    if is_error_terminal() && !events::are_told() {
        eprint!("\r\x1b[2K{}", shown(text, has_colour()));
    }
}

/// Tells that something is waited for: on a terminal in such a line, elsewhere in a line of its own, so that a log says
/// why nothing happens.
pub(crate) fn waiting(text: &str) {
    match is_error_terminal() {
        true => passing(&format!("  {text}")),
        false => note(text),
    }
}

/// Ends such a line.
pub(crate) fn passed() {
    passing("");
}

/// Whether standard error is a terminal that a person looks at.
pub(crate) fn is_error_terminal() -> bool {
    std::io::stderr().is_terminal() && std::env::var_os("TERM").is_none_or(|t| t != "dumb")
}

/// What went wrong, with what it came from.
pub(crate) fn error(e: &anyhow::Error) {
    if events::are_told() {
        let causes: Vec<String> = e.chain().skip(1).map(ToString::to_string).collect();
        return events::tell(|| json!({ "event": "failed", "error": e.to_string(), "because": causes }));
    }
    let label =
        if std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty()) {
            "\x1b[1;31merror\x1b[0m"
        } else {
            "error"
        };
    let mut told = e.to_string();
    eprintln!("{label}: {}", printable(&told));
    for cause in e.chain().skip(1).map(ToString::to_string) {
        // Some errors have the text of their cause in their own.
        if !told.contains(&cause) {
            eprintln!("  because: {}", printable(&cause));
            told = cause;
        }
    }
}

/// A remark beside the results, on standard error.
pub(crate) fn note(text: &str) {
    match events::are_told() {
        true => events::tell(|| json!({ "event": "note", "text": text })),
        false => eprintln!("[qjam] {}", printable(text)),
    }
}

/// What a master knows of costs and how many workers follow from it, beside the results.
pub(crate) fn explain(m: &qjam::Master) {
    let known = m.explain();
    if known.is_empty() {
        note("nothing was chosen: only with `auto`, or `auto:` before the workers, is their number measured");
    }
    for known in known {
        note(&known.to_string());
    }
    explain_results(m);
}

/// Which functions have results so long that another cut of the data would be cheaper, beside the results.
pub(crate) fn explain_results(m: &qjam::Master) {
    for long in m.long_results() {
        note(&long.to_string());
    }
}

/// Columns under their headings, as wide as they need be.
pub(crate) fn table<const N: usize>(heads: [&str; N], rows: impl Iterator<Item = [String; N]>) {
    let rows: Vec<[String; N]> = std::iter::once(heads.map(str::to_owned)).chain(rows).collect();
    let width = |n: usize| rows.iter().map(|row| row[n].chars().count()).max().unwrap_or(0);
    let widths: [usize; N] = std::array::from_fn(width);
    for row in &rows {
        let cells: Vec<String> =
            row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        line(format!("  {}", cells.join("  ").trim_end()));
    }
}

/// Microseconds for people.
pub(crate) fn time(us: u64) -> String {
    match us {
        0..1_000 => format!("{us} µs"),
        1_000..1_000_000 => format!("{:.1} ms", us as f64 / 1e3),
        _ => format!("{:.2} s", us as f64 / 1e6),
    }
}

/// Bytes for people.
pub(crate) fn bytes(n: u64) -> String {
    match n {
        0..1_024 => format!("{n} B"),
        1_024..1_048_576 => format!("{:.1} KiB", n as f64 / 1024.0),
        1_048_576..1_073_741_824 => format!("{:.1} MiB", n as f64 / 1_048_576.0),
        _ => format!("{:.1} GiB", n as f64 / 1_073_741_824.0),
    }
}

/// A number of things, of which one is called this.
pub(crate) fn count(n: u64, thing: &str) -> String {
    if n == 1 { format!("1 {thing}") } else { format!("{n} {thing}s") }
}
