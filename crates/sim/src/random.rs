//! Random numbers that depend on the seed and on nothing else.
//!
//! A splitmix generator: small and fast. Streams are separated by a tag, so that an additional draw in one stream does not change
//! the others.

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub struct Rng {
    state: u64,
}

/// Mixes the bits of a number.
pub fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Rng {
    /// The stream of this seed.
    pub fn new(seed: u64) -> Self {
        Rng { state: mix(seed ^ 0x71_6a61_6d73_696d) }
    }

    /// Another stream of the same seed.
    pub fn fork(&self, tag: u64) -> Self {
        Rng { state: mix(self.state ^ mix(tag.wrapping_add(1))) }
    }

    /// Any number.
    pub fn any(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.state)
    }

    /// A number below `n`, which is not zero.
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.any()) * u128::from(n)) >> 64) as u64
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        assert!(low <= high, "{low} to {high}");
        low + self.below(high - low + 1)
    }

    /// A number from `low` to `high`, log-uniform: as many below ten as from ten to a hundred.
    pub fn magnitude(&mut self, low: u64, high: u64) -> u64 {
        assert!(0 < low && low <= high, "{low} to {high}");
        let (a, b) = ((low as f64).ln(), (high as f64).ln());
        let x = (a + (b - a) * (self.any() >> 11) as f64 / (1u64 << 53) as f64).exp();
        (x as u64).clamp(low, high)
    }

    /// True with this probability in percent.
    pub fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One of these.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len() as u64) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_of_one_seed_differ_and_repeat() {
        let mut a = Rng::new(7).fork(1);
        let mut b = Rng::new(7).fork(2);
        let firsts: Vec<u64> = (0..4).map(|_| a.any()).collect();
        assert_ne!(firsts, (0..4).map(|_| b.any()).collect::<Vec<_>>());
        let mut again = Rng::new(7).fork(1);
        assert_eq!(firsts, (0..4).map(|_| again.any()).collect::<Vec<_>>());
    }

    #[test]
    fn draws_stay_within_their_bounds_and_reach_them() {
        let mut rng = Rng::new(1);
        let drawn: std::collections::BTreeSet<u64> = (0..200).map(|_| rng.between(3, 6)).collect();
        assert_eq!(drawn.into_iter().collect::<Vec<_>>(), [3, 4, 5, 6]);
        assert!((0..1000).map(|_| rng.magnitude(5, 5_000)).all(|n| (5..=5_000).contains(&n)));
    }
}
