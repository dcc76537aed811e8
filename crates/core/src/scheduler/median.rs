//! The running median of a stream of numbers.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Numbers with their median; for an even count, the greater of the two in the middle.
#[derive(Debug, Default)]
pub(crate) struct Median {
    /// The lesser half.
    below: BinaryHeap<u64>,
    /// The middle and what is greater: as many, or one more.
    above: BinaryHeap<Reverse<u64>>,
}

impl Median {
    pub(crate) fn push(&mut self, number: u64) {
        match self.get() {
            Some(middle) if number < middle => self.below.push(number),
            _ => self.above.push(Reverse(number)),
        }
        if self.below.len() > self.above.len() {
            self.above.extend(self.below.pop().map(Reverse));
        } else if self.above.len() > self.below.len() + 1 {
            self.below.extend(self.above.pop().map(|Reverse(number)| number));
        }
    }

    pub(crate) fn get(&self) -> Option<u64> {
        self.above.peek().map(|Reverse(number)| *number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_what_sorting_would_give() {
        let (mut median, mut all) = (Median::default(), Vec::new());
        assert_eq!(median.get(), None);
        for n in 0..500u64 {
            let number = n * 7919 % 101;
            median.push(number);
            all.push(number);
            all.sort_unstable();
            assert_eq!(median.get(), Some(all[all.len() / 2]));
        }
    }
}
