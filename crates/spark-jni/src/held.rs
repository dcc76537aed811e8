//! What an executor keeps of descents: for each partition its columns, its coordinates, and the round that comes next.
//!
//! Spark may run a task twice, or where its partition has not been. So a round is done only on coordinates that are at that round; one
//! that has been done already gives its answer again; and for any other the answer is [`Advance::Elsewhere`], upon which the
//! driver has the partition put at a round it knows and taken from there.

use qjam_algos::linear::{Draws, Steps, local_steps};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The columns of a partition, one after the other.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Columns {
    /// Where each begins, and where the last ends.
    pub starts: Vec<u64>,
    /// Rows of the entries.
    pub rows: Vec<u32>,
    /// Their values.
    pub values: Vec<f64>,
}

impl Columns {
    /// Columns that fit together; otherwise what is wrong.
    pub fn checked(starts: Vec<u64>, rows: Vec<u32>, values: Vec<f64>) -> Result<Columns, String> {
        let entries = rows.len() as u64;
        let ascend = starts.windows(2).all(|pair| pair[0] <= pair[1]);
        if rows.len() != values.len()
            || starts.first() != Some(&0)
            || starts.last() != Some(&entries)
            || !ascend
        {
            return Err(format!("columns that do not begin and end where {entries} entries do"));
        }
        Ok(Columns { starts, rows, values })
    }

    fn column(&self, j: usize) -> (&[u32], &[f64]) {
        let range = self.starts[j] as usize..self.starts[j + 1] as usize;
        (&self.rows[range.clone()], &self.values[range])
    }
}

/// What is done in a round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Task {
    /// σ'.
    pub sigma: f64,
    /// λ of ridge regression.
    pub lambda: f64,
    /// Steps, as a multiple of the columns.
    pub h: f64,
    /// Of the draws.
    pub seed: u64,
    /// The round, counted from 0.
    pub round: u64,
}

/// What came of a round.
#[derive(Clone, Debug, PartialEq)]
pub enum Advance {
    /// `A Δα`, and the sum of the squares of all coordinates.
    Done(Vec<f64>, f64),
    /// The partition is not here, or not at this round.
    Elsewhere,
    /// A column has a row that the residual has not.
    Unfit,
}

/// A partition.
#[derive(Debug, Default)]
struct Partition {
    columns: Columns,
    alpha: Vec<f64>,
    /// The round that comes next.
    next: u64,
    /// The answer to the round before.
    last: Option<(Vec<f64>, f64)>,
}

/// A descent, which is a number that the driver has made up, and a partition of it.
type Key = (u64, u32);

static HELD: Mutex<BTreeMap<Key, Arc<Mutex<Partition>>>> = Mutex::new(BTreeMap::new());

fn locked<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

fn partition(descent: u64, number: u32) -> Option<Arc<Mutex<Partition>>> {
    locked(&HELD).get(&(descent, number)).cloned()
}

/// Whether the columns of a partition are here.
pub fn has(descent: u64, number: u32) -> bool {
    partition(descent, number).is_some()
}

/// Keeps a partition's columns. Its coordinates are zeros, and the first round comes next.
pub fn hold(descent: u64, number: u32, columns: Columns) {
    let alpha = vec![0.0; columns.starts.len().saturating_sub(1)];
    let held = Partition { columns, alpha, next: 0, last: None };
    locked(&HELD).insert((descent, number), Arc::new(Mutex::new(held)));
}

/// Puts a partition that is here at a round, with these coordinates. Returns false if they are not as many as columns.
pub fn place(descent: u64, number: u32, alpha: Vec<f64>, next: u64) -> bool {
    let Some(held) = partition(descent, number) else { return false };
    let mut held = locked(&held);
    let is_fit = alpha.len() == held.alpha.len();
    if is_fit {
        (held.alpha, held.next, held.last) = (alpha, next, None);
    }
    is_fit
}

/// The coordinates of a partition, if it is at this round.
pub fn coordinates(descent: u64, number: u32, next: u64) -> Option<Vec<f64>> {
    let held = partition(descent, number)?;
    let held = locked(&held);
    (held.next == next).then(|| held.alpha.clone())
}

/// The sum of the squares of the products of all columns with the residual, which a duality gap needs; none if the partition is not
/// here, or a column has a row that the residual has not.
pub fn slopes(descent: u64, number: u32, w: &[f64]) -> Option<f64> {
    let held = partition(descent, number)?;
    let held = locked(&held);
    let mut sum = 0.0;
    for j in 0..held.alpha.len() {
        let (rows, values) = held.columns.column(j);
        let mut along = 0.0;
        for (row, value) in rows.iter().zip(values) {
            along += value * w.get(*row as usize)?;
        }
        sum += along * along;
    }
    Some(sum)
}

/// Does a round on a partition.
pub fn advance(descent: u64, number: u32, w: &[f64], task: &Task) -> Advance {
    let Some(held) = partition(descent, number) else { return Advance::Elsewhere };
    let mut held = locked(&held);
    let held = &mut *held;
    if let Some((change, squares)) = held.last.as_ref().filter(|_| held.next == task.round + 1) {
        return Advance::Done(change.clone(), *squares);
    }
    if held.next != task.round {
        return Advance::Elsewhere;
    }
    let Some(change) = steps(|j| held.columns.column(j), w, &mut held.alpha, task, number) else {
        return Advance::Unfit;
    };
    let squares = held.alpha.iter().map(|a| a * a).sum();
    held.next += 1;
    held.last = Some((change.clone(), squares));
    Advance::Done(change, squares)
}

/// The steps of a round on columns that are wherever they are.
pub fn steps<'a>(
    column: impl Fn(usize) -> (&'a [u32], &'a [f64]),
    w: &[f64],
    alpha: &mut [f64],
    task: &Task,
    number: u32,
) -> Option<Vec<f64>> {
    let count = ((task.h * alpha.len() as f64) as u64).max(1);
    let draws = Draws::new(task.seed, task.round, number);
    local_steps(column, w, alpha, &Steps { sigma: task.sigma, l1: 0.0, l2: task.lambda, count, draws })
}

/// Forgets all of a descent.
pub fn release(descent: u64) {
    locked(&HELD).retain(|(of, _), _| *of != descent);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns() -> Columns {
        Columns::checked(vec![0, 2, 3], vec![0, 2, 1], vec![1.0, 2.0, 3.0]).unwrap()
    }

    fn task(round: u64) -> Task {
        Task { sigma: 1.0, lambda: 0.5, h: 2.0, seed: 3, round }
    }

    const W: [f64; 3] = [-1.0, -2.0, -3.0];

    #[test]
    fn a_round_that_is_asked_for_twice_is_done_once() {
        hold(1, 0, columns());
        let first = advance(1, 0, &W, &task(0));
        assert!(matches!(&first, Advance::Done(change, squares) if change.len() == 3 && *squares > 0.0));
        assert_eq!(advance(1, 0, &W, &task(0)), first);
        assert_ne!(advance(1, 0, &W, &task(1)), first);
        assert_eq!(advance(1, 0, &W, &task(0)), Advance::Elsewhere, "that is two rounds ago");
        release(1);
        assert!(!has(1, 0));
    }

    #[test]
    fn a_partition_put_at_a_round_goes_on_with_the_same_bits() {
        hold(2, 0, columns());
        advance(2, 0, &W, &task(0));
        let kept = coordinates(2, 0, 1).unwrap();
        let wanted = advance(2, 0, &W, &task(1));
        // Another executor, which has never seen it.
        release(2);
        assert_eq!(advance(2, 0, &W, &task(1)), Advance::Elsewhere);
        hold(2, 0, columns());
        assert_eq!(advance(2, 0, &W, &task(1)), Advance::Elsewhere, "it is at the first round");
        assert!(!place(2, 0, vec![0.0], 1), "one coordinate for two columns");
        assert!(place(2, 0, kept, 1));
        assert_eq!(advance(2, 0, &W, &task(1)), wanted);
        assert_eq!(coordinates(2, 0, 1), None);
        // (1, 0, 2) and (0, 3, 0) with the residual.
        assert_eq!(slopes(2, 0, &W), Some(49.0 + 36.0));
        release(2);
    }

    #[test]
    fn columns_that_do_not_fit_are_refused() {
        for starts in [vec![], vec![0], vec![0, 3, 2, 3], vec![1, 3], vec![0, 4]] {
            assert!(Columns::checked(starts, vec![0, 2, 1], vec![1.0; 3]).is_err());
        }
        hold(3, 0, Columns::checked(vec![0, 1], vec![7], vec![1.0]).unwrap());
        assert_eq!(advance(3, 0, &W, &task(0)), Advance::Unfit);
        release(3);
    }
}
