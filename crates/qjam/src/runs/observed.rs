//! Values that a program got from elsewhere than its rounds, as an earlier run recorded them.
//!
//! A program may decide by the clock, or by what the machine is. Such a value is recorded under a name
//! ([`Master::observe`](crate::Master::observe)); a run that is resumed or replayed gets the recorded values, in the order of
//! their names' occurrence, and so decides the same.

use std::collections::{HashMap, VecDeque};

/// A longer value is not recorded.
pub(super) const OBSERVED_BYTES_MAX: usize = 64 << 10;

/// What an earlier run recorded and this one has not asked for yet.
#[derive(Debug, Default)]
pub(crate) struct Observations(HashMap<String, VecDeque<Option<Vec<u8>>>>);

impl Observations {
    /// Adds the next value of a name; `None` for one that was too long.
    pub(super) fn add(&mut self, name: String, value: Option<Vec<u8>>) {
        self.0.entry(name).or_default().push_back(value);
    }

    /// Adds what an even earlier run recorded beyond these.
    pub(super) fn continue_with(&mut self, before: Observations) {
        for (name, values) in before.0 {
            let own = self.0.entry(name).or_default();
            own.extend(values.into_iter().skip(own.len()));
        }
    }

    /// Takes the next value of a name.
    pub(crate) fn take(&mut self, name: &str) -> Option<Vec<u8>> {
        self.0.get_mut(name)?.pop_front()?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[(&str, u8)]) -> Observations {
        let mut observations = Observations::default();
        values.iter().for_each(|(name, value)| observations.add((*name).into(), Some(vec![*value])));
        observations
    }

    #[test]
    fn values_come_back_by_name_in_their_order() {
        let mut observations = of(&[("a", 1), ("b", 2), ("a", 3)]);
        observations.add("a".into(), None);
        let mut take = |name| observations.take(name);
        assert_eq!([take("a"), take("a"), take("b")], [Some(vec![1]), Some(vec![3]), Some(vec![2])]);
        // What was too long, what was not recorded, what nobody knows.
        assert_eq!([take("a"), take("b"), take("c")], [None, None, None]);
    }

    #[test]
    fn a_run_that_had_not_caught_up_is_continued_by_the_one_before() {
        let mut observations = of(&[("a", 1)]);
        observations.continue_with(of(&[("a", 9), ("a", 2), ("b", 3)]));
        let mut take = |name| observations.take(name);
        assert_eq!(
            [take("a"), take("a"), take("a"), take("b")],
            [Some(vec![1]), Some(vec![2]), None, Some(vec![3])]
        );
    }
}
