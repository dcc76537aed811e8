//! Answers made row by row: numbers that chunks give, joined in order, and the rule by which classifiers choose.

use crate::kernels::{Level, elementwise};
use crate::learner::{Answer, Question};
use crate::linear::rows::RowChunk;
use qjam::Reduce;

/// What classifiers answer that know the joint probability of a row and each class.
pub const CLASSIFIER: &[Question] = &[
    Question::Predict,
    Question::Probabilities,
    Question::LogProbabilities,
    Question::JointLogProbabilities,
];

/// The first number that is not what it should be: its row, its column, and what it is.
pub type BadNumber = Option<(u64, u64, f64)>;

/// Numbers of rows, one row after the other.
#[derive(Clone, Debug, PartialEq, qjam::Wire)]
pub struct RowNumbers {
    /// As many for each row as for any other.
    pub values: Vec<f64>,
    /// Rows.
    pub rows: u64,
    /// The first number of the data that is not finite.
    pub bad: BadNumber,
}

impl Reduce for RowNumbers {
    fn merge(&mut self, right: Self) {
        self.bad = self.bad.or(further(right.bad, self.rows));
        self.values.extend(right.values);
        self.rows += right.rows;
    }
}

/// The same number, with so many more rows before it.
pub fn further(bad: BadNumber, rows: u64) -> BadNumber {
    bad.map(|(row, column, value)| (rows + row, column, value))
}

/// The first number of a chunk that is not finite.
pub fn not_finite<C: RowChunk>(x: &C) -> BadNumber {
    (0..x.count()).find_map(|row| x.bad(row).map(|(column, value)| (row as u64, column, value)))
}

/// The likeliest class of each row: the first of the largest.
pub fn likeliest(joint: &[f64], classes: &[f64]) -> Vec<f64> {
    let best = |row: &[f64]| (1..row.len()).fold(0, |best, at| if row[at] > row[best] { at } else { best });
    joint.chunks_exact(classes.len()).map(|row| classes[best(row)]).collect()
}

/// The logarithm of the sum of the exponentials of each `k` numbers.
pub fn log_sums(joint: &[f64], k: usize) -> Vec<f64> {
    let mut shifted = joint.to_vec();
    let mut most = Vec::with_capacity(joint.len() / k);
    for row in shifted.chunks_exact_mut(k) {
        let largest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        row.iter_mut().for_each(|value| *value -= largest);
        most.push(largest);
    }
    elementwise::exp(Level::best(), &mut shifted);
    let mut sums: Vec<f64> = shifted.chunks_exact(k).map(|row| row.iter().sum()).collect();
    elementwise::log(Level::best(), &mut sums);
    sums.iter_mut().zip(most).for_each(|(sum, most)| *sum += most);
    sums
}

/// Logarithms of the probabilities of `k` classes, from joint ones.
pub fn log_probabilities(mut joint: Vec<f64>, k: usize) -> Vec<f64> {
    let sums = log_sums(&joint, k);
    for (row, sum) in joint.chunks_exact_mut(k).zip(sums) {
        row.iter_mut().for_each(|value| *value -= sum);
    }
    joint
}

/// The answer to one of the questions of a [`CLASSIFIER`].
pub fn classified(question: Question, joint: Vec<f64>, classes: &[f64]) -> Answer {
    let k = classes.len();
    match question {
        Question::Predict => Answer::Values(likeliest(&joint, classes)),
        Question::JointLogProbabilities => Answer::Doubles(joint, k),
        Question::LogProbabilities => Answer::Doubles(log_probabilities(joint, k), k),
        _ => {
            let mut probabilities = log_probabilities(joint, k);
            elementwise::exp(Level::best(), &mut probabilities);
            Answer::Doubles(probabilities, k)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_add_up_to_one_also_where_exponentials_underflow() {
        let joint = vec![-1000.0, -1001.0, 3.0, 3.0];
        let Answer::Doubles(found, 2) = classified(Question::Probabilities, joint.clone(), &[4.0, 9.0])
        else {
            panic!("probabilities are numbers")
        };
        let first = 1.0 / (1.0 + (-1.0_f64).exp());
        assert!((found[0] - first).abs() < 1e-12 && (found[2] - 0.5).abs() < 1e-15, "{found:?}");
        assert!(found.chunks(2).all(|row| (row[0] + row[1] - 1.0).abs() < 1e-12));
        assert_eq!(classified(Question::Predict, joint, &[4.0, 9.0]), Answer::Values(vec![4.0, 4.0]));
    }

    #[test]
    fn joined_numbers_keep_the_first_bad_one_and_its_row() {
        let part = |bad| RowNumbers { values: vec![1.0, 2.0], rows: 2, bad };
        let mut all = part(None);
        all.merge(part(Some((1, 5, f64::INFINITY))));
        all.merge(part(Some((0, 0, f64::NAN))));
        assert_eq!((all.bad, all.values.len(), all.rows), (Some((3, 5, f64::INFINITY)), 6, 6));
    }
}
