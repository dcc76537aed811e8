//! How things are shown: colours and moving lines on a terminal, plain lines elsewhere.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "this is where the command prints")]

use std::io::{IsTerminal, Write};

/// Whether standard output is a terminal that a person looks at.
pub(crate) fn is_terminal() -> bool {
    std::io::stdout().is_terminal() && std::env::var_os("TERM").is_none_or(|t| t != "dumb")
}

/// Whether colours are wanted.
pub(crate) fn has_colour() -> bool {
    is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty())
}

/// A line.
pub(crate) fn line(text: impl AsRef<str>) {
    // A reader that has gone away (`qjam … | head`) is no reason to panic, nor to work on unseen.
    if let Err(e) = writeln!(std::io::stdout(), "{}", text.as_ref())
        && e.kind() == std::io::ErrorKind::BrokenPipe
    {
        std::process::exit(0);
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
        print!("\r\x1b[2K{text}");
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
    if is_error_terminal() {
        eprint!("\r\x1b[2K{text}");
    }
}

/// Ends such a line.
pub(crate) fn passed() {
    passing("");
}

fn is_error_terminal() -> bool {
    std::io::stderr().is_terminal() && std::env::var_os("TERM").is_none_or(|t| t != "dumb")
}

/// What went wrong, with what it came from.
pub(crate) fn error(e: &anyhow::Error) {
    let label =
        if std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty()) {
            "\x1b[1;31merror\x1b[0m"
        } else {
            "error"
        };
    let mut told = e.to_string();
    eprintln!("{label}: {told}");
    for cause in e.chain().skip(1).map(ToString::to_string) {
        // Some errors have the text of their cause in their own.
        if !told.contains(&cause) {
            eprintln!("  because: {cause}");
            told = cause;
        }
    }
}

/// A remark beside the results, on standard error.
pub(crate) fn note(text: &str) {
    eprintln!("[qjam] {text}");
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
