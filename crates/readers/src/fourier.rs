//! A fast Fourier transform, for spectra of frames.
//!
//! Lengths are powers of two and the order of operations is fixed, so the bits are the same on every processor. It is not
//! optimised further, because reading and converting sound takes longer.

use std::f64::consts::TAU;

/// Transforms of one length.
pub(crate) struct Fourier {
    /// Cosine and sine of the twiddle factors, for half of the circle.
    turns: Vec<(f64, f64)>,
    real: Vec<f64>,
    imaginary: Vec<f64>,
}

impl Fourier {
    /// A transform of `length` values, which must be a power of two.
    pub(crate) fn new(length: usize) -> Fourier {
        let turn = |k: usize| {
            let angle = -TAU * k as f64 / length as f64;
            (angle.cos(), angle.sin())
        };
        Fourier {
            turns: (0..length / 2).map(turn).collect(),
            real: vec![0.0; length],
            imaginary: vec![0.0; length],
        }
    }

    /// The squared magnitudes of the first half of the spectrum, including the middle.
    pub(crate) fn power(&mut self, values: impl Iterator<Item = f64>) -> impl Iterator<Item = f64> + '_ {
        let n = self.real.len();
        // In bit-reversed order.
        let shift = usize::BITS - n.trailing_zeros().max(1);
        for (i, value) in values.take(n).enumerate() {
            let place = if n == 1 { 0 } else { i.reverse_bits() >> shift };
            (self.real[place], self.imaginary[place]) = (value, 0.0);
        }
        let mut half = 1;
        while half < n {
            let step = n / (2 * half);
            for start in (0..n).step_by(2 * half) {
                for k in 0..half {
                    let (cos, sin) = self.turns[k * step];
                    let (a, b) = (start + k, start + k + half);
                    let (re, im) = (self.real[b], self.imaginary[b]);
                    let (re, im) = (re * cos - im * sin, re * sin + im * cos);
                    (self.real[b], self.imaginary[b]) = (self.real[a] - re, self.imaginary[a] - im);
                    (self.real[a], self.imaginary[a]) = (self.real[a] + re, self.imaginary[a] + im);
                }
            }
            half *= 2;
        }
        (0..=n / 2).map(|k| self.real[k] * self.real[k] + self.imaginary[k] * self.imaginary[k])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_the_definition() {
        for n in [2, 4, 8, 64] {
            let values: Vec<f64> = (0..n).map(|i| ((i * i * 7 + 3) % 11) as f64 - 5.0).collect();
            let found: Vec<f64> = Fourier::new(n).power(values.iter().copied()).collect();
            assert_eq!(found.len(), n / 2 + 1);
            for (k, power) in found.iter().enumerate() {
                let (mut re, mut im) = (0.0, 0.0);
                for (i, value) in values.iter().enumerate() {
                    let angle = -TAU * (k * i) as f64 / n as f64;
                    re += value * angle.cos();
                    im += value * angle.sin();
                }
                assert!((power - (re * re + im * im)).abs() < 1e-9 * (1.0 + power), "{n} {k}");
            }
        }
    }
}
