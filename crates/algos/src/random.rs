//! Repeatable random numbers: the same seed gives the same numbers on every machine.
//!
//! Used for initial weights and synthetic data, which are made once on the master. Only additions, shifts and
//! multiplications of integers, and one exact conversion to a float, so there is nothing a platform could round
//! differently.

/// A SplitMix64 stream.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The stream of a seed.
    pub fn new(seed: u64) -> Random {
        // Neighbouring seeds would otherwise give streams that are shifts of each other.
        let mut stream = Random(seed ^ 0x6a09_e667_f3bc_c908);
        Random(stream.bits())
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in `[0, 1)`, a multiple of 2⁻⁵³.
    pub fn uniform(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Uniform in `0..bound`; 0 if the bound is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.bits()) * bound as u128) >> 64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::Random;

    #[test]
    fn uniform_numbers_stay_in_range_and_average_a_half() {
        let mut random = Random::new(1);
        let values: Vec<f64> = (0..100_000).map(|_| random.uniform()).collect();
        assert!(values.iter().all(|v| (0.0..1.0).contains(v)));
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        assert!((mean - 0.5).abs() < 0.005, "{mean}");
    }

    #[test]
    fn below_reaches_every_number_under_the_bound() {
        let mut random = Random::new(2);
        let mut seen = [0; 7];
        (0..7000).for_each(|_| seen[random.below(7)] += 1);
        assert!(seen.iter().all(|n| (800..1200).contains(n)), "{seen:?}");
        assert_eq!(random.below(0), 0);
    }

    #[test]
    fn a_seed_names_its_stream_for_good() {
        assert_eq!(Random::new(42).bits(), Random::new(42).bits());
        assert_ne!(Random::new(42).bits(), Random::new(43).bits());
    }
}
