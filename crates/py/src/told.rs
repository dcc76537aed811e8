//! What a master knows, in the words and numbers that Python gets.

use pyo3::prelude::*;
use pyo3::types::PyTuple;
use qjam::journal::{RoundReport, What};

/// The fields of `qjam.RoundReport`.
pub(crate) fn report_tuple<'py>(py: Python<'py>, r: &RoundReport) -> PyResult<Bound<'py, PyTuple>> {
    let seconds = |us: u64| us as f64 / 1e6;
    let times = [r.total_us, r.worker_us, r.master_us, r.overhead_us].map(seconds);
    let counts = [
        r.bytes_out,
        r.bytes_in,
        r.chunks_sent,
        r.cache_hits,
        r.cache_misses,
        r.retries,
        r.discarded,
        r.stolen,
        r.backups,
        r.lost,
        r.restored,
        r.replayed,
    ];
    (r.round, times, counts).into_pyobject(py)
}

/// An entry of the journal, with the workers' names.
pub(crate) fn in_words(master: &qjam::Master, what: &What) -> (&'static str, String) {
    let name = |worker: &qjam::ids::WorkerId| master.name_of(*worker);
    match what {
        What::WorkerStarted(w) => ("worker started", name(w)),
        What::WorkerJoined(w) => ("worker joined", name(w)),
        What::WorkerSuspected(w) => ("worker suspected", name(w)),
        What::WorkerReturned(w) => ("worker returned", name(w)),
        What::WorkerLost(w, death) => ("worker lost", format!("{} {death}", name(w))),
        What::InterpreterLost { worker, death, .. } => {
            ("interpreter lost", format!("{} {death}", name(worker)))
        }
        What::SeatGivenUp(w) => ("worker given up", name(w)),
        What::SeatRemoved(seat) => ("worker removed", format!("{seat:?}")),
        What::RoundStarted { round, chunks, blocks } => {
            ("round started", format!("{}: {chunks} chunks in {blocks} blocks", round.0))
        }
        What::Retried { round, worker, blocks } => {
            ("retried", format!("{blocks} blocks of round {} by {}", round.0, name(worker)))
        }
        What::Stolen { round, worker, blocks } => {
            ("stolen", format!("{blocks} blocks of round {} from {}", round.0, name(worker)))
        }
        What::BackedUp { round, late, worker, .. } => (
            "backed up",
            format!("a block of round {} that {} is late with, by {}", round.0, name(late), name(worker)),
        ),
        What::Discarded { round, worker, blocks } => {
            ("discarded", format!("{blocks} blocks of round {} from {}", round.0, name(worker)))
        }
        What::RoundOver { round, finished } => {
            ("round over", format!("{}: {}", round.0, if *finished { "it has a value" } else { "it failed" }))
        }
        What::Report(report) => {
            let RoundReport { round, total_us, bytes_out, bytes_in, cache_misses, chunks_sent, .. } = report;
            let bytes = format!("{bytes_out} bytes out, {bytes_in} in");
            let chunks = format!("{cache_misses} chunks opened, {chunks_sent} sent to hosts");
            ("report", format!("round {round} took {total_us} µs; {bytes}; {chunks}"))
        }
        What::RoundRecalled { round } => ("round recalled", round.0.to_string()),
        What::WorkersChosen { round, why, .. } => {
            ("workers chosen", format!("from round {} on: {why}", round.0))
        }
        What::Checkpointed { partitions, bytes, .. } => {
            ("checkpointed", format!("{partitions} states of {bytes} bytes in all"))
        }
        What::Restored { worker, partition, steps, .. } => (
            "restored",
            format!("the state of partition {partition} by {}, {steps} rounds run again", name(worker)),
        ),
        What::Moved { partitions, .. } => ("moved", format!("the states of partitions {partitions:?}")),
    }
}
