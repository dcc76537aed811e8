//! Which fold each row is in, for cross-validation.
//!
//! Comes in: how many rows there are, or the class of each. Goes out: the number of a fold for each row. Follows from the targets and
//! the seed alone, so it is the same for every cut and on any workers. Folds differ in size by one row at most, and with classes
//! also in the rows of each class.

use qjam::Rng;
use std::collections::BTreeMap;

/// Folds of so many rows.
pub fn folds(rows: u64, folds: u32, seed: u64) -> Vec<u32> {
    dealt([(0..rows as usize).collect()].into_iter(), rows as usize, folds, seed)
}

/// Folds that have the same share of each class.
pub fn stratified(targets: &[f64], folds: u32, seed: u64) -> Vec<u32> {
    let mut classes: BTreeMap<i64, Vec<usize>> = BTreeMap::new();
    for (row, target) in targets.iter().enumerate() {
        // In the order of the numbers, whatever their sign.
        let bits = (target + 0.0).to_bits().cast_signed();
        classes.entry(bits ^ (((bits >> 63).cast_unsigned()) >> 1).cast_signed()).or_default().push(row);
    }
    dealt(classes.into_values(), targets.len(), folds, seed)
}

/// Shuffles each group and deals its rows out, going on where the last group ended.
fn dealt(groups: impl Iterator<Item = Vec<usize>>, rows: usize, folds: u32, seed: u64) -> Vec<u32> {
    let mut of_rows = vec![0; rows];
    let mut next = 0;
    for (number, mut group) in groups.enumerate() {
        let mut random = Rng::keyed(seed, number as u64, 0);
        for at in (1..group.len()).rev() {
            group.swap(at, random.below(at as u64 + 1) as usize);
        }
        for row in group {
            of_rows[row] = next;
            next = (next + 1) % folds;
        }
    }
    of_rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folds_are_as_equal_as_can_be_overall_and_in_each_class() {
        let targets: Vec<f64> = (0..103).map(|row| f64::from(row * row % 7 - 2)).collect();
        let found = stratified(&targets, 5, 3);
        let size = |class: Option<f64>, fold: u32| {
            found
                .iter()
                .zip(&targets)
                .filter(|(f, t)| **f == fold && class.is_none_or(|class| class == **t))
                .count()
        };
        for class in [None, Some(-2.0), Some(-1.0), Some(0.0), Some(2.0)] {
            let sizes: Vec<usize> = (0..5).map(|fold| size(class, fold)).collect();
            assert!(sizes.iter().max().unwrap() - sizes.iter().min().unwrap() <= 1, "{class:?} {sizes:?}");
        }
        assert_eq!(found, stratified(&targets, 5, 3));
        assert_ne!(found, stratified(&targets, 5, 4));
        let plain = folds(10, 3, 0);
        assert_eq!(
            (0..3).map(|fold| plain.iter().filter(|f| **f == fold).count()).collect::<Vec<_>>(),
            [4, 3, 3]
        );
    }
}
