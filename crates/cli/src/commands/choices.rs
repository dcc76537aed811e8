//! What a tuner chose, in a file: one JSON object a line, which a later run can follow to the same bits.
//!
//! `work` and `sigma` are for reading; `bits` has both numbers in the sixteen digits of their 64 bits, since a decimal
//! fraction need not come back as it was.

use super::placing;
use anyhow::{Context, anyhow};
use qjam_algos::linear::{Choice, Reason};
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

#[derive(Serialize, Deserialize)]
struct Line {
    round: usize,
    work: f64,
    sigma: f64,
    reason: String,
    bits: [String; 2],
}

/// Writes all choices of a fit.
pub(crate) fn write(path: &Path, choices: &[Choice]) -> anyhow::Result<()> {
    let mut text = String::new();
    for choice in choices {
        let line = Line {
            round: choice.round,
            work: choice.work,
            sigma: choice.sigma,
            reason: choice.reason.to_string(),
            bits: [choice.work, choice.sigma].map(|number| format!("{:016x}", number.to_bits())),
        };
        let _ = writeln!(text, "{}", serde_json::to_string(&line)?);
    }
    placing::write(path, |out| out.write_all(text.as_bytes()))
        .with_context(|| format!("--choices {} cannot be written", path.display()))
}

/// Reads them again.
pub(crate) fn read(path: &Path) -> anyhow::Result<Vec<Choice>> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).with_context(|| format!("--replay {shown} cannot be read"))?;
    let mut choices: Vec<Choice> = Vec::new();
    for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let wrong = |why: String| {
            anyhow!("--replay {shown}, line {}: {why}; give a file that --choices wrote", at + 1)
        };
        let line: Line = serde_json::from_str(line).map_err(|e| wrong(e.to_string()))?;
        let number = |digits: &str| u64::from_str_radix(digits, 16).map(f64::from_bits);
        let [work, sigma] = &line.bits;
        let (Ok(work), Ok(sigma)) = (number(work), number(sigma)) else {
            return Err(wrong("its bits are not sixteen digits".into()));
        };
        if line.round == 0 || choices.last().is_some_and(|last| last.round >= line.round) {
            return Err(wrong(format!("round {} does not come after the one before", line.round)));
        }
        choices.push(Choice { round: line.round, work, sigma, reason: Reason::Given });
    }
    match choices.is_empty() {
        true => Err(anyhow!("--replay {shown} is empty; give a file that --choices wrote")),
        false => Ok(choices),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_to_the_bit() {
        let path = std::env::temp_dir().join(format!("qjam-choices-{}", std::process::id()));
        let choice = |round, work: f64| Choice { round, work, sigma: 1.0 + work, reason: Reason::First };
        let choices = [choice(1, 0.1), choice(3, 1.0 / 3.0), choice(9, 0.1 + 0.2)];
        write(&path, &choices).unwrap();
        let found = read(&path).unwrap();
        for (a, b) in choices.iter().zip(&found) {
            assert_eq!(
                (a.round, a.work.to_bits(), a.sigma.to_bits()),
                (b.round, b.work.to_bits(), b.sigma.to_bits())
            );
        }
        std::fs::write(&path, "{\"round\":1}\n").unwrap();
        assert!(read(&path).unwrap_err().to_string().contains("line 1: missing field"));
        std::fs::write(&path, "").unwrap();
        assert!(read(&path).unwrap_err().to_string().contains("is empty"));
        std::fs::remove_file(&path).unwrap();
    }
}
