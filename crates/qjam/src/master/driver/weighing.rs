//! What results weigh beside the data that they are made of.
//!
//! In: rounds as they are handed over, the first part of each that comes back, and its value. Out: the functions whose results are
//! long beside their chunks, for `explain`. Nothing here changes a cut: the cut decides bits, so it follows from the data and from what the
//! user says, and never from what was measured.
//!
//! Weighing a value takes as long as encoding it, so only the first round of a function over a data set is weighed, the second, the
//! fourth and so on.

use super::choosing::number_of;
use crate::dataset::DataSetId;
use crate::engine::order::Order;
use crate::function::Mode;
use qjam_core::reduce::blocks::{CHUNKS_LEAST, DATA_PER_RESULT};
use std::collections::HashMap;
use std::fmt;

/// Results of a round that are shorter than this together cost little, however they are cut.
const MADE_BYTES_MIN: u64 = 1 << 20;
/// Functions and data sets that are counted. Programs that make new data for each round are counted anew now and then.
const KINDS_MAX: usize = 256;

/// A function whose results are long beside the chunks they are made of, so that making and combining them is much of a round.
///
/// Printed, it says so and what to do about it. [`Master::long_results`](crate::Master::long_results) gives them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LongResults {
    /// The function.
    pub function: String,
    /// Bytes of its data.
    pub data_bytes: u64,
    /// How many results a round makes and combines: one for each chunk, or an accumulator for each block of a fold.
    pub results: u32,
    /// Bytes of one of them.
    pub result_bytes: u64,
    /// Whether the results are the accumulators of a fold.
    pub is_fold: bool,
}

impl LongResults {
    /// How many results there would be in a cut that is made for them.
    fn results_advised(&self) -> u64 {
        let wanted = self.data_bytes / self.result_bytes.saturating_mul(DATA_PER_RESULT).max(1);
        if self.is_fold { wanted.max(1) } else { wanted.max(CHUNKS_LEAST.into()) }
    }

    fn is_long(&self) -> bool {
        u64::from(self.results).saturating_mul(self.result_bytes) >= MADE_BYTES_MIN
            && self.results_advised().saturating_mul(2) <= self.results.into()
    }
}

impl fmt::Display for LongResults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LongResults { function, data_bytes, results, result_bytes, is_fold } = self;
        let (each, advised) = (data_bytes / u64::from(*results).max(1), self.results_advised());
        write!(
            f,
            "{function}: a result has {result_bytes} bytes and its data {each}, and a round makes and combines {results} of them; "
        )?;
        match is_fold {
            true => write!(
                f,
                "about {advised} would do: `#[qjam::fold(accumulator_bytes = {result_bytes})]` lets more chunks share one"
            ),
            false => write!(
                f,
                "{advised} chunks would do: `data.for_results_of({result_bytes})`, or in Python a larger `slice_size`"
            ),
        }
    }
}

/// What is known of a round that is weighed.
#[derive(Debug)]
pub(super) struct Weighing {
    found: LongResults,
    chunks: u32,
    /// Bytes of the first part that came, and how many chunks it is of.
    part: Option<(u64, u32)>,
}

impl Weighing {
    /// Notes a part of so many bytes, which is of so many chunks; the first one counts.
    pub(super) fn part(&mut self, chunks: u32, bytes: impl FnOnce() -> Option<u64>) {
        if self.part.is_none() && chunks < self.chunks {
            self.part = bytes().map(|bytes| (bytes, chunks));
        }
    }

    /// Whether results of a few chunks are as long as that of all. Those that are put one behind the other are not: together they
    /// have the same length in every cut.
    fn is_sum(&self, value_bytes: u64) -> bool {
        let Some((bytes, chunks)) = self.part else { return true };
        let share = f64::from(chunks) / f64::from(self.chunks.max(1));
        bytes as f64 >= value_bytes as f64 * (1.0 + share) / 2.0
    }
}

/// The rounds that were weighed, and what came of it.
#[derive(Default)]
pub(super) struct Weigher {
    /// Rounds so far of each function over each data set.
    rounds: HashMap<(u64, DataSetId), u64>,
    long: Vec<LongResults>,
}

impl Weigher {
    /// A round begins; says whether it is weighed.
    pub(super) fn begin(&mut self, name: &str, order: &Order) -> Option<Box<Weighing>> {
        let cut = order.head.cut;
        let (results, is_fold) = match order.function.mode() {
            Mode::Map => (cut.chunks, false),
            Mode::Fold => (cut.blocks(), true),
            Mode::Step => return None,
        };
        let data_bytes = order.data.bytes();
        if results <= CHUNKS_LEAST || data_bytes == 0 {
            return None;
        }
        if self.rounds.len() >= KINDS_MAX {
            self.rounds.clear();
        }
        let count = self.rounds.entry((number_of(name), order.data.id)).or_default();
        *count += 1;
        if !count.is_power_of_two() {
            return None;
        }
        let found = LongResults { function: name.to_owned(), data_bytes, results, result_bytes: 0, is_fold };
        Some(Box::new(Weighing { found, chunks: cut.chunks, part: None }))
    }

    /// A round that was weighed has a value of so many bytes.
    pub(super) fn end(&mut self, weighing: Weighing, value_bytes: u64) {
        let is_sum = weighing.is_sum(value_bytes);
        let found = LongResults { result_bytes: value_bytes, ..weighing.found };
        let same = |known: &LongResults| {
            (&known.function, known.data_bytes, known.results)
                == (&found.function, found.data_bytes, found.results)
        };
        self.long.retain(|known| !same(known));
        if is_sum && found.is_long() && self.long.len() < KINDS_MAX {
            self.long.push(found);
        }
    }

    /// Functions whose results are long, in the order in which they were found.
    pub(super) fn long(&self) -> &[LongResults] {
        &self.long
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sixteen MiB of data in 256 results.
    fn weighing(part: Option<(u64, u32)>, is_fold: bool) -> Weighing {
        let found = LongResults {
            function: "f".into(),
            data_bytes: 16 << 20,
            results: 256,
            result_bytes: 0,
            is_fold,
        };
        Weighing { found, chunks: 256, part }
    }

    fn found(part: Option<(u64, u32)>, value_bytes: u64) -> Option<u64> {
        let mut weigher = Weigher::default();
        weigher.end(weighing(part, false), value_bytes);
        weigher.long().first().map(LongResults::results_advised)
    }

    #[test]
    fn results_are_long_if_fewer_of_them_would_do() {
        assert_eq!(found(None, 64), None, "short ones");
        assert_eq!(found(None, 16 << 10), None, "a quarter of their data");
        assert_eq!(found(None, 64 << 10), Some(64));
        assert_eq!(found(None, 16 << 20), Some(16), "enough for many workers");
        assert_eq!(found(Some((1 << 20, 128)), 1 << 20), Some(16));
    }

    #[test]
    fn results_that_are_put_one_behind_the_other_are_not_counted() {
        assert_eq!(found(Some((1 << 19, 128)), 1 << 20), None);
        assert_eq!(found(Some(((1 << 20) * 255 / 256, 255)), 1 << 20), None);
    }

    #[test]
    fn what_is_said_of_a_function_is_what_was_weighed_last() {
        let mut weigher = Weigher::default();
        weigher.end(weighing(None, true), 4 << 20);
        weigher.end(weighing(None, true), 2 << 20);
        let [long] = weigher.long() else { panic!("{:?}", weigher.long()) };
        let text = long.to_string();
        assert_eq!(
            text,
            "f: a result has 2097152 bytes and its data 65536, and a round makes and combines 256 of them; about 2 would do: \
             `#[qjam::fold(accumulator_bytes = 2097152)]` lets more chunks share one"
        );
        weigher.end(weighing(None, true), 8);
        assert!(weigher.long().is_empty());
    }
}
