//! Two runs side by side, and the first round in which they differ.

use super::runs::named;
use crate::args::Compare;
use crate::output;
use anyhow::Context;
use qjam_dashboard::compare::{ChunkDifference, Comparison, Difference, What, compare};
use std::process::ExitCode;

/// The exit code says whether they differ.
pub(crate) fn run(args: &Compare) -> anyhow::Result<ExitCode> {
    let (first, second) = (named(&args.first)?, named(&args.second)?);
    let comparison = compare(&first.path, &second.path).context("cannot compare the runs")?;
    match args.json {
        true => output::json(&comparison)?,
        false => show(&comparison),
    }
    Ok(if comparison.difference.is_none() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn show(comparison: &Comparison) {
    let rows = comparison.facts.iter().map(|(name, a, b)| {
        let mark = if a == b { " " } else { "≠" };
        [(*name).to_owned(), mark.to_owned(), a.clone(), b.clone()]
    });
    output::table(["", "", "first", "second"], rows);
    output::line(match &comparison.difference {
        None => format!("All {} rounds are equal as far as the files tell.", comparison.rounds_equal),
        Some(difference) => told(difference),
    });
    if comparison.values_unknown > 0 {
        output::line(format!(
            "The values of {} of the {} equal rounds are not in both files; `qjam replay` computes and compares them.",
            comparison.values_unknown, comparison.rounds_equal
        ));
    }
}

fn told(Difference { round, function, what }: &Difference) -> String {
    let first = format!("The first difference is in round {round}, {function}:");
    match what {
        What::OnlyInFirst => format!("{first} only the first run has that round."),
        What::OnlyInSecond => format!("{first} only the second run has that round."),
        What::Function(other) => format!("{first} the second run ran {other}."),
        What::Data(None) => format!("{first} the data differ."),
        What::Data(Some(ChunkDifference { chunk, neighbours, differing, compared })) => {
            let which = match neighbours {
                1 => format!("chunk {chunk}"),
                several => format!("chunks {chunk} to {}", chunk + *several as usize - 1),
            };
            format!("{first} the data differ, first in {which} ({differing} of {compared} differ).")
        }
        What::Parameters => format!("{first} the parameters differ."),
        What::Value => {
            format!("{first} the values differ, though function, data and parameters are the same.")
        }
        What::Failure(a, b) => {
            let why = |error: &Option<String>| {
                error.as_ref().map_or("it had a value".to_owned(), |error| {
                    format!("it failed: {}", error.lines().next().unwrap_or_default())
                })
            };
            format!("{first} in the first run {}; in the second {}.", why(a), why(b))
        }
        _ => format!("{first} they differ."),
    }
}
