//! A table that can be read by people and by programs.

use std::fmt::Write;

/// A table.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// What it is called in file names.
    pub name: &'static str,
    /// What it shows, and whether that was simulated, computed or measured.
    pub title: String,
    /// Names of the columns.
    pub columns: Vec<String>,
    /// The cells.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// One without rows.
    pub fn new(name: &'static str, title: impl Into<String>, columns: &[&str]) -> Self {
        let columns = columns.iter().map(ToString::to_string).collect();
        Table { name, title: title.into(), columns, rows: Vec::new() }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let cells: Vec<String> = cells.into_iter().collect();
        assert_eq!(cells.len(), self.columns.len(), "{}: a row of another length", self.name);
        self.rows.push(cells);
    }

    /// As Markdown, numbers to the right.
    pub fn markdown(&self) -> String {
        let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
        let rule = vec!["---:".to_string(); self.columns.len()];
        let mut text = format!("*{}*\n\n{}{}", self.title, line(&self.columns), line(&rule).replace(' ', ""));
        self.rows.iter().for_each(|row| text += &line(row));
        text
    }

    /// As comma-separated values.
    pub fn csv(&self) -> String {
        let mut text = String::new();
        for row in std::iter::once(&self.columns).chain(&self.rows) {
            let quoted = row.iter().map(|cell| format!("\"{}\"", cell.replace('"', "\"\"")));
            let _ = writeln!(text, "{}", quoted.collect::<Vec<_>>().join(","));
        }
        text
    }
}

/// A whole number with its thousands apart.
pub fn whole(n: u64) -> String {
    let digits = n.to_string();
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().map(|g| std::str::from_utf8(g).unwrap_or_default()).collect();
    groups.join(" ")
}

/// Bytes, with a unit.
pub fn bytes(n: f64) -> String {
    scaled(n, 1e3, &["B", "KB", "MB", "GB", "TB"])
}

/// Seconds, with a unit.
pub fn time(seconds: f64) -> String {
    let with = |n: f64, unit: &str| format!("{} {unit}", three_digits(n));
    match seconds {
        s if s < 120.0 => scaled(s * 1e6, 1e3, &["µs", "ms", "s"]),
        s if s < 3_600.0 => with(s / 60.0, "min"),
        s if s < 86_400.0 => with(s / 3_600.0, "h"),
        s => with(s / 86_400.0, "d"),
    }
}

fn scaled(n: f64, step: f64, units: &[&str]) -> String {
    let (mut n, mut at) = (n, 0);
    while n >= 0.9995 * step && at + 1 < units.len() {
        n /= step;
        at += 1;
    }
    format!("{} {}", three_digits(n), units[at])
}

/// Three digits are enough.
fn three_digits(n: f64) -> String {
    let digits = match n {
        n if n >= 99.95 => 0,
        n if n >= 9.995 => 1,
        _ => 2,
    };
    let text = format!("{n:.digits$}");
    if digits > 0 { text.trim_end_matches('0').trim_end_matches('.').into() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_for_people() {
        assert_eq!([whole(7), whole(12_345), whole(1_000_000)], ["7", "12 345", "1 000 000"]);
        assert_eq!([bytes(8.0), bytes(8_192.0), bytes(8e9)], ["8 B", "8.19 KB", "8 GB"]);
        assert_eq!(
            [time(0.000_5), time(1.25), time(600.0), time(86_400.0)],
            ["500 µs", "1.25 s", "10 min", "1 d"]
        );
    }

    #[test]
    fn a_table_is_written_both_ways() {
        let mut table = Table::new("t", "Title", &["a", "b"]);
        table.row(["1".into(), "2".into()]);
        assert_eq!(table.markdown(), "*Title*\n\n| a | b |\n|---:|---:|\n| 1 | 2 |\n");
        assert_eq!(table.csv(), "\"a\",\"b\"\n\"1\",\"2\"\n");
    }
}
