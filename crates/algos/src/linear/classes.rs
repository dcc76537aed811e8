//! Classes among targets: which there are, which rows are whose, and how much they count.

use super::error::LearnError;
use super::solvers::coordinate::partition::PrepareError;

/// Most classes that are learnt apart.
pub const CLASSES_MAX: usize = 10_000;

/// The numbers that stand for classes, in order, and the class of every row.
#[derive(Clone, Debug, PartialEq)]
pub struct Classes {
    values: Vec<f64>,
    /// Of rows that count nothing it may be none: then it is the number of classes.
    of_rows: Vec<u32>,
}

impl Classes {
    /// Finds the classes of rows that count.
    pub fn of(targets: &[f64], weights: Option<&[f64]>) -> Result<Classes, LearnError> {
        let counts = |row: usize| weights.is_none_or(|weights| weights[row] > 0.0);
        if let Some(row) = targets.iter().position(|target| !target.is_finite()) {
            return Err(PrepareError::Target { row, value: targets[row] }.into());
        }
        let mut values: Vec<f64> = vec![];
        for (row, target) in targets.iter().enumerate().filter(|(row, _)| counts(*row)) {
            if let Err(at) = values.binary_search_by(|value| value.total_cmp(&clean(*target))) {
                values.insert(at, clean(*target));
            }
            if values.len() > CLASSES_MAX {
                return Err(LearnError::Classes { found: values.len(), rows: row + 1 });
            }
        }
        if values.len() < 2 {
            return Err(LearnError::OneClass { class: values.first().copied() });
        }
        let class = |target: &f64| {
            let found = values.binary_search_by(|value| value.total_cmp(&clean(*target)));
            found.unwrap_or(values.len()) as u32
        };
        let of_rows = targets.iter().map(class).collect();
        Ok(Classes { values, of_rows })
    }

    /// What the targets call them.
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// How many models tell them apart.
    pub fn models(&self) -> usize {
        if self.values.len() == 2 { 1 } else { self.values.len() }
    }

    /// 1 for the rows of the class that a model is for, else −1. Of two classes it is the second.
    pub fn labels(&self, model: usize) -> Vec<f64> {
        let class = self.positive(model);
        self.of_rows.iter().map(|of| if *of == class { 1.0 } else { -1.0 }).collect()
    }

    /// Weights for a model with all classes balanced: the row's own by the inverse of its class's share. Where there are more
    /// than two, rows of other classes than the model's keep theirs, as liblinear has it.
    pub fn balanced(&self, weights: Option<&[f64]>, model: usize) -> Vec<f64> {
        self.weighed(weights, |class| self.values.len() == 2 || class == self.positive(model))
    }

    /// The row's own weight, by the inverse of its class's share for these classes.
    fn weighed(&self, weights: Option<&[f64]>, is_balanced: impl Fn(u32) -> bool) -> Vec<f64> {
        let weight = |row: usize| weights.map_or(1.0, |weights| weights[row]);
        let mut counts = vec![0.0; self.values.len() + 1];
        self.of_rows.iter().enumerate().for_each(|(row, class)| counts[*class as usize] += weight(row));
        let k = self.values.len();
        let all: f64 = counts[..k].iter().sum();
        let factor = |class: u32| match is_balanced(class) {
            true => all / (k as f64 * counts[class as usize]),
            false => 1.0,
        };
        let balanced = |(row, class): (usize, &u32)| match weight(row) {
            0.0 => 0.0,
            weight => weight * factor(*class),
        };
        self.of_rows.iter().enumerate().map(balanced).collect()
    }

    /// The class of every row, counted from 0; of rows that count nothing it may be none, which is one more than there are.
    pub fn of_rows(&self) -> &[u32] {
        &self.of_rows
    }

    /// Weights with all classes balanced, for one model of all of them.
    pub fn balanced_together(&self, weights: Option<&[f64]>) -> Vec<f64> {
        self.weighed(weights, |_| true)
    }

    fn positive(&self, model: usize) -> u32 {
        if self.values.len() == 2 { 1 } else { model as u32 }
    }
}

/// The two zeros are one class.
fn clean(target: f64) -> f64 {
    if target == 0.0 { 0.0 } else { target }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_the_numbers_that_count() {
        let classes = Classes::of(&[3.0, -1.0, 3.0, 0.0, -0.0], None).unwrap();
        assert_eq!((classes.values(), classes.models()), (&[-1.0, 0.0, 3.0][..], 3));
        assert_eq!(classes.labels(2), [1.0, -1.0, 1.0, -1.0, -1.0]);
        let classes = Classes::of(&[3.0, -1.0, 7.0], Some(&[1.0, 0.5, 0.0])).unwrap();
        assert_eq!((classes.values(), classes.models()), (&[-1.0, 3.0][..], 1));
        assert_eq!(classes.labels(0)[..2], [1.0, -1.0]);
    }

    #[test]
    fn balanced_classes_weigh_the_same() {
        let classes = Classes::of(&[1.0, 1.0, 1.0, 2.0], None).unwrap();
        assert_eq!(classes.balanced(None, 0), [4.0 / 6.0, 4.0 / 6.0, 4.0 / 6.0, 2.0]);
        let halves = classes.balanced(Some(&[1.0, 0.0, 1.0, 1.0]), 0);
        assert_eq!(halves, [0.75, 0.0, 0.75, 1.5]);
    }

    #[test]
    fn one_class_and_numbers_that_are_none_are_refused() {
        let refused = Classes::of(&[2.0, 2.0], None).unwrap_err().to_string();
        assert!(refused.contains("all rows are of class 2"), "{refused}");
        let refused = Classes::of(&[2.0, f64::NAN], None).unwrap_err().to_string();
        assert!(refused.contains("row 1"), "{refused}");
    }
}
