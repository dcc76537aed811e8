//! What two runs have in common, and where they part.
//!
//! Rounds are compared in order: function, data, parameters, value. The first that differs is named, with what differs first:
//! everything after it may follow from that. If it is the data, the chunk is named too.

use qjam::runs::{Round, Run, RunError, Story};
use serde::Serialize;
use std::path::Path;

/// Two runs, side by side.
#[derive(Debug, Serialize)]
pub struct Comparison {
    /// Facts of both runs: name, first run, second run.
    pub facts: Vec<(&'static str, String, String)>,
    /// Rounds from the first on that are equal as far as the files tell.
    pub rounds_equal: usize,
    /// The first round that differs; nothing if none does.
    pub difference: Option<Difference>,
    /// Equal rounds whose value is not in both files, so that it could not be compared.
    pub values_unknown: usize,
}

/// The first round in which two runs differ.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Number of the round.
    pub round: u64,
    /// Its function in the first run; in the second, if the first has no such round.
    pub function: String,
    /// What differs.
    pub what: What,
}

/// What differs between two rounds of the same number.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum What {
    /// Only the first run has the round.
    OnlyInFirst,
    /// Only the second run has the round.
    OnlyInSecond,
    /// The functions: that of the second run.
    Function(String),
    /// The data: the first chunk that differs, if the files name the chunks.
    Data(Option<ChunkDifference>),
    /// The parameters.
    Parameters,
    /// The values, though function, data and parameters are the same.
    Value,
    /// One has failed: why, in the first run or in the second.
    Failure(Option<String>, Option<String>),
}

/// Where two data sets differ.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct ChunkDifference {
    /// The first chunk that differs, or the first of a few neighbours of which one does.
    pub chunk: usize,
    /// How many neighbours: 1, but in data sets of very many chunks.
    pub neighbours: u32,
    /// Names of chunks that differ.
    pub differing: usize,
    /// Names of chunks that were compared.
    pub compared: usize,
}

/// Compares two run files.
pub fn compare(first: &Path, second: &Path) -> Result<Comparison, RunError> {
    let (a, b) = (Run::read(first)?, Run::read(second)?);
    let (rounds_a, rounds_b) = (Run::rounds(first)?, Run::rounds(second)?);
    let equal = rounds_a.iter().zip(&rounds_b).take_while(|(a, b)| differs(a, b).is_none());
    let (rounds_equal, values_unknown) = equal.fold((0, 0), |(equal, unknown), (a, b)| {
        (equal + 1, unknown + usize::from(a.result.is_none() || b.result.is_none()))
    });
    let difference = match (rounds_a.get(rounds_equal), rounds_b.get(rounds_equal)) {
        (None, None) => None,
        (Some(a), None) => Some(found(a, What::OnlyInFirst)),
        (None, Some(b)) => Some(found(b, What::OnlyInSecond)),
        (Some(a), Some(b)) => differs(a, b).map(|what| found(a, what)),
    };
    let mut comparison = Comparison { facts: facts(&a, &b), rounds_equal, difference, values_unknown };
    if let Some(Difference { what: What::Data(chunk), .. }) = &mut comparison.difference {
        let (a, b) = (&rounds_a[rounds_equal].data, &rounds_b[rounds_equal].data);
        *chunk = differing_chunk((&Story::read(first)?, a), (&Story::read(second)?, b));
    }
    Ok(comparison)
}

fn found(round: &Round, what: What) -> Difference {
    Difference { round: round.round, function: round.function.clone(), what }
}

/// What differs between two rounds, as far as both files tell.
fn differs(a: &Round, b: &Round) -> Option<What> {
    let unequal = |a: &Option<String>, b: &Option<String>| a.is_some() && b.is_some() && a != b;
    if a.function != b.function {
        return Some(What::Function(b.function.clone()));
    }
    if a.data != b.data {
        return Some(What::Data(None));
    }
    if unequal(&a.params, &b.params) {
        return Some(What::Parameters);
    }
    if a.error != b.error {
        return Some(What::Failure(a.error.clone(), b.error.clone()));
    }
    unequal(&a.result, &b.result).then_some(What::Value)
}

fn differing_chunk(a: (&Story, &String), b: (&Story, &String)) -> Option<ChunkDifference> {
    let ((each_a, names_a), (each_b, names_b)) = (a.0.chunk_names.get(a.1)?, b.0.chunk_names.get(b.1)?);
    if each_a != each_b {
        return None;
    }
    let compared = names_a.len().max(names_b.len());
    let is_other = |n: &usize| names_a.get(*n) != names_b.get(*n);
    let first = (0..compared).find(is_other)?;
    Some(ChunkDifference {
        chunk: first * *each_a as usize,
        neighbours: *each_a,
        differing: (0..compared).filter(is_other).count(),
        compared,
    })
}

fn facts(a: &Run, b: &Run) -> Vec<(&'static str, String, String)> {
    let mut facts = Vec::new();
    let mut fact = |name, of: &dyn Fn(&Run) -> String| facts.push((name, of(a), of(b)));
    let seconds = |us: u64| format!("{:.3} s", us as f64 / 1e6);
    fact("run", &|run| run.id.clone());
    fact("command", &|run| {
        let words = run.arguments.iter().map(|word| word.to_string_lossy().into_owned());
        let program = run.program.file_name().unwrap_or_default().to_string_lossy().into_owned();
        std::iter::once(program).chain(words).collect::<Vec<_>>().join(" ")
    });
    fact("version", &|run| run.version.clone());
    fact("executable", &|run| short(run.executable.as_deref()));
    fact("workers", &|run| run.workers.clone());
    fact("seed", &|run| run.seed.to_string());
    fact("data", &|run| run.data.iter().map(|d| short(Some(&d.hash))).collect::<Vec<_>>().join(", "));
    fact("rounds", &|run| run.rounds.to_string());
    fact("failed", &|run| run.failed.to_string());
    fact("lasted", &|run| seconds(run.lasted_us));
    fact("T_total", &|run| seconds(run.total.total_us));
    fact("T_worker", &|run| seconds(run.total.worker_us));
    fact("T_master", &|run| seconds(run.total.master_us));
    fact("T_overhead", &|run| seconds(run.total.overhead_us));
    fact("bytes out", &|run| run.total.bytes_out.to_string());
    fact("bytes in", &|run| run.total.bytes_in.to_string());
    fact("retries", &|run| run.total.retries.to_string());
    fact("backups", &|run| run.total.backups.to_string());
    fact("lost", &|run| run.lost.len().to_string());
    facts
}

/// The first digits of a hash.
fn short(hash: Option<&str>) -> String {
    hash.map_or("-".into(), |hash| hash.chars().take(12).collect())
}
