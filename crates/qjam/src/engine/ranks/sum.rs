//! Adding results up by the library's own sum, for those who do not mind the order.
//!
//! Results that are vectors of `f64` are added element by element whatever the function, so the library can do it, and
//! it may know the network better than we do. What is given up is said at
//! [`Builder::any_order`](crate::Builder::any_order). Whether it can be done is known only when all have run their
//! blocks: the first gathering brings up lengths instead of values, rank 0 decides, and then everybody adds at once, or
//! values are gathered as always.

use super::gather::Gathering;
use super::link::Link;
use super::share;
use super::wire::{Command, encoded, tag};
use serde::{Deserialize, Serialize};

/// Whether the values of some ranks could be added up by the library.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Summable {
    /// There are none.
    #[default]
    Nothing,
    /// All of them are vectors of this length.
    Length(u64),
    /// Not all of them are vectors of one length.
    No,
}

/// What rank 0 has decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Decision {
    /// The library adds vectors of this length.
    Add(u64),
    /// Values are gathered after all.
    Gather,
    /// Nobody wants them.
    Drop,
}

impl Summable {
    pub(super) fn and(self, other: Summable) -> Summable {
        match (self, other) {
            (Summable::Nothing, any) | (any, Summable::Nothing) => any,
            (Summable::Length(a), Summable::Length(b)) if a == b => self,
            _ => Summable::No,
        }
    }
}

/// Tells everybody what was decided.
pub(super) fn tell(link: &Link, decision: Decision) {
    pass_on(link, decision);
}

fn pass_on(link: &Link, decision: Decision) {
    let message = encoded(&Command::Decided(decision));
    share::below(link.rank(), link.size()).for_each(|rank| link.send(rank, tag::COMMAND, &message));
}

/// Waits for what was decided, and passes it on.
pub(super) fn hear(link: &Link) -> Decision {
    let (from, message) = link.wait(share::above(link.rank()), tag::COMMAND, || {});
    match postcard::from_bytes::<Command>(message.as_ref()) {
        Ok(Command::Decided(decision)) => {
            pass_on(link, decision);
            decision
        }
        _ => panic!("rank {from} sent something else than a decision"),
    }
}

impl Gathering {
    /// Adds what this rank has to what all others have.
    pub(super) fn add(&mut self, link: &Link, length: u64) -> Vec<f64> {
        let mut sum: Option<Vec<f64>> = None;
        for (_, value) in self.take() {
            let Ok(value) = value.downcast::<Vec<f64>>() else { continue };
            match &mut sum {
                None => sum = Some(*value),
                Some(sum) => sum.iter_mut().zip(value.iter()).for_each(|(left, right)| *left += right),
            }
        }
        let mut sum = sum.unwrap_or_else(|| vec![0.0; length as usize]);
        link.sum(&mut sum);
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::Summable::{Length, No, Nothing};

    #[test]
    fn only_vectors_of_one_length_can_be_added() {
        for (a, b, both) in [
            (Nothing, Nothing, Nothing),
            (Nothing, Length(3), Length(3)),
            (Length(3), Length(3), Length(3)),
            (Length(3), Length(4), No),
            (No, Length(3), No),
            (No, Nothing, No),
        ] {
            assert_eq!((a.and(b), b.and(a)), (both, both));
        }
    }
}
