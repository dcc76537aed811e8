//! Steps along gradients that come one after the other, each of which may be that of a few rows only: SGD with momentum, and Adam.
//!
//! A rule has the state between two steps and knows nothing of where gradients come from. The bits of a step depend on state and
//! gradient alone: every coordinate is its own chain of roundings.

use crate::kernels::{Level, per_level};

/// How a point moves against a gradient.
#[derive(Clone, Debug, PartialEq)]
pub enum Rule {
    /// With a velocity that keeps a share of what it was.
    Sgd(Sgd),
    /// With a step for each coordinate, by the size of its gradients so far.
    Adam(Adam),
}

impl Rule {
    /// Moves the point by one step.
    pub fn step(&mut self, x: &mut [f64], gradient: &[f64]) {
        match self {
            Rule::Sgd(sgd) => sgd.step(x, gradient),
            Rule::Adam(adam) => adam.step(x, gradient),
        }
    }
}

/// Stochastic gradient descent with momentum.
///
/// ```
/// use qjam_algos::optimize::first_order::Sgd;
/// let (mut sgd, mut x) = (Sgd::new(1, 0.9, true), [1.0]);
/// for _ in 0..200 {
///     let slope = 2.0 * x[0];
///     sgd.step(&mut x, &[slope]);
/// }
/// assert!(x[0].abs() < 1e-3);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Sgd {
    /// Length of a step for a gradient of 1.
    pub rate: f64,
    momentum: f64,
    nesterov: bool,
    velocity: Vec<f64>,
}

impl Sgd {
    /// At rest, for so many coordinates, with a rate of 0.01.
    pub fn new(len: usize, momentum: f64, nesterov: bool) -> Sgd {
        Sgd { rate: 0.01, momentum, nesterov, velocity: vec![0.0; len] }
    }

    /// The same with another rate.
    pub fn with_rate(self, rate: f64) -> Sgd {
        Sgd { rate, ..self }
    }

    /// The same with this velocity, which another one had.
    ///
    /// # Panics
    ///
    /// When it has another length.
    pub fn with_velocity(self, velocity: Vec<f64>) -> Sgd {
        assert_eq!(velocity.len(), self.velocity.len(), "coordinates of the velocity");
        Sgd { velocity, ..self }
    }

    /// What a step keeps of the one before.
    pub fn velocity(&self) -> &[f64] {
        &self.velocity
    }

    /// Moves the point by one step.
    pub fn step(&mut self, x: &mut [f64], gradient: &[f64]) {
        let factors = [self.momentum, self.rate, f64::from(u8::from(self.nesterov))];
        sgd_step(Level::best(), x, gradient, &mut self.velocity, factors);
    }
}

/// Adam (Kingma and Ba): steps by the mean of gradients over the root of the mean of their squares.
///
/// ```
/// use qjam_algos::optimize::first_order::Adam;
/// let (mut adam, mut x) = (Adam::new(1), [1.0]);
/// adam.rate = 0.01;
/// for _ in 0..2000 {
///     let slope = 2.0 * x[0];
///     adam.step(&mut x, &[slope]);
/// }
/// assert!(x[0].abs() < 1e-2);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Adam {
    /// Length of a step at most, about.
    pub rate: f64,
    betas: [f64; 2],
    epsilon: f64,
    /// Powers of the betas, by which means that began at 0 are too small.
    powers: [f64; 2],
    means: [Vec<f64>; 2],
}

impl Adam {
    /// For so many coordinates, with a rate of 0.001 and the usual means over 10 and 1000 steps.
    pub fn new(len: usize) -> Adam {
        Adam {
            rate: 1e-3,
            betas: [0.9, 0.999],
            epsilon: 1e-8,
            powers: [1.0, 1.0],
            means: [vec![0.0; len], vec![0.0; len]],
        }
    }

    /// The same with another rate.
    pub fn with_rate(self, rate: f64) -> Adam {
        Adam { rate, ..self }
    }

    /// The same with other shares that means keep in a step, and what is added to roots.
    pub fn with_means(self, beta_1: f64, beta_2: f64, epsilon: f64) -> Adam {
        Adam { betas: [beta_1, beta_2], epsilon, ..self }
    }

    /// The same after so many steps that left these means.
    ///
    /// # Panics
    ///
    /// When they have another length.
    pub fn after(self, steps: u64, means: [Vec<f64>; 2]) -> Adam {
        assert!(
            means.iter().zip(&self.means).all(|(new, old)| new.len() == old.len()),
            "coordinates of the means"
        );
        // One product after the other, as the steps had it.
        let power = |beta: f64| (0..steps).take_while(|_| beta > 0.0).fold(1.0, |power, _| power * beta);
        Adam { powers: self.betas.map(power), means, ..self }
    }

    /// Means of gradients and of their squares.
    pub fn means(&self) -> &[Vec<f64>; 2] {
        &self.means
    }

    /// Moves the point by one step.
    pub fn step(&mut self, x: &mut [f64], gradient: &[f64]) {
        self.powers.iter_mut().zip(self.betas).for_each(|(power, beta)| *power *= beta);
        let rate = self.rate * (1.0 - self.powers[1]).sqrt() / (1.0 - self.powers[0]);
        let [means, squares] = &mut self.means;
        let [beta_1, beta_2] = self.betas;
        adam_step(Level::best(), x, gradient, means, squares, [rate, beta_1, beta_2, self.epsilon]);
    }
}

per_level! { fn sgd_step(x: &mut [f64], gradient: &[f64], velocity: &mut [f64], factors: [f64; 3]) = sgd_body }
per_level! {
    fn adam_step(
        x: &mut [f64],
        gradient: &[f64],
        means: &mut [f64],
        squares: &mut [f64],
        factors: [f64; 4],
    ) = adam_body
}

#[inline(always)]
fn sgd_body(x: &mut [f64], gradient: &[f64], velocity: &mut [f64], [momentum, rate, nesterov]: [f64; 3]) {
    for ((x, slope), velocity) in x.iter_mut().zip(gradient).zip(velocity) {
        *velocity = momentum * *velocity - rate * slope;
        // Nesterov's step looks ahead to where the velocity leads.
        let ahead = momentum * *velocity - rate * slope;
        *x += if nesterov == 1.0 { ahead } else { *velocity };
    }
}

#[inline(always)]
fn adam_body(
    x: &mut [f64],
    gradient: &[f64],
    means: &mut [f64],
    squares: &mut [f64],
    [rate, beta_1, beta_2, epsilon]: [f64; 4],
) {
    for (((x, slope), mean), square) in x.iter_mut().zip(gradient).zip(means).zip(squares) {
        *mean = beta_1 * *mean + (1.0 - beta_1) * slope;
        *square = beta_2 * *square + (1.0 - beta_2) * (slope * slope);
        *x -= rate * *mean / (square.sqrt() + epsilon);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_those_of_the_formulas() {
        let (mut adam, mut x) = (Adam::new(2).with_rate(0.1), [1.0, -1.0]);
        adam.step(&mut x, &[3.0, -0.5]);
        // The first step has the length of the rate, whatever the gradient.
        assert!((x[0] - 0.9).abs() < 1e-7 && (x[1] + 0.9).abs() < 1e-7, "{x:?}");
        let (mut sgd, mut x) = (Sgd::new(1, 0.5, false).with_rate(0.1), [1.0]);
        sgd.step(&mut x, &[1.0]);
        sgd.step(&mut x, &[1.0]);
        assert!((x[0] - (1.0 - 0.1 - 0.15)).abs() < 1e-15, "{x:?}");
        let (mut nesterov, mut x) = (Sgd::new(1, 0.5, true).with_rate(0.1), [1.0]);
        nesterov.step(&mut x, &[1.0]);
        assert!((x[0] - (1.0 - 0.15)).abs() < 1e-15, "{x:?}");
    }

    #[test]
    fn a_rule_goes_on_from_its_state_with_the_same_bits() {
        let gradient = |x: &[f64]| [x[0] * 0.7, (x[1] - 1.0) * 3.0];
        let (mut whole, mut x) = (Adam::new(2), [1.0, 2.0]);
        for _ in 0..7 {
            let g = gradient(&x);
            whole.step(&mut x, &g);
        }
        let mut again = Adam::new(2).after(7, whole.means().clone());
        assert_eq!(again, whole);
        let (mut y, g) = (x, gradient(&x));
        whole.step(&mut x, &g);
        again.step(&mut y, &g);
        assert_eq!(x, y);
    }

    #[test]
    fn bits_are_the_same_with_all_instructions() {
        let numbers: Vec<f64> = (0..37).map(|i| (f64::from(i) * 0.37).sin()).collect();
        let run = |level| {
            let (mut x, mut a, mut b) = (numbers.clone(), vec![0.1; 37], vec![0.2; 37]);
            adam_step(level, &mut x, &numbers, &mut a, &mut b, [0.01, 0.9, 0.999, 1e-8]);
            sgd_step(level, &mut x, &numbers, &mut a, [0.9, 0.01, 1.0]);
            [x, a, b].concat().iter().map(|v| v.to_bits()).collect::<Vec<u64>>()
        };
        let expected = run(Level::best());
        assert!(Level::available().into_iter().all(|level| run(level) == expected));
    }
}
