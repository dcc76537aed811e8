//! The functions that run on a chunk: sums for a step, the quality of answers, and the answers themselves.

use super::layers::Running;
use super::loss::{Given, lose};
use super::network::{Network, Output};
use super::numbers::Kernel;
use super::source::{Picked, Source};
use crate::answers::{RowNumbers, not_finite};
use crate::kernels::nearest::Real;
use crate::kernels::{Level, elementwise};
use qjam::{Csr, Ctx, Dense};

/// A network, and which rows of each chunk are meant.
#[derive(Clone, Debug, qjam::Wire)]
pub struct Request {
    pub(super) network: Network,
    pub(super) theta: Vec<f64>,
    /// Where the rows of each chunk begin among all that are meant; one number more than there are chunks.
    pub(super) starts: Vec<u64>,
    /// Their indices within their chunks; empty if all rows are meant.
    pub(super) rows: Vec<u32>,
    /// Their targets: the index of a class, or numbers.
    pub(super) targets: Vec<f64>,
    /// Their weights; empty if all are 1.
    pub(super) weights: Vec<f64>,
}

/// Sums over rows, at the parameters of a request.
#[derive(Clone, Debug, PartialEq, qjam::Wire, qjam::Sum)]
pub struct Sums {
    /// Sum of the weights.
    pub weight: f64,
    /// Weighted sum of the losses.
    pub loss: f64,
    /// Its gradient.
    pub gradient: Vec<f64>,
}

/// How good answers are.
#[derive(Clone, Debug, PartialEq, qjam::Wire, qjam::Sum)]
pub struct Quality {
    /// Weight of the rows whose class was right.
    pub right: f64,
    /// Weighted sum of squared errors, for each output.
    pub missed: Vec<f64>,
}

impl Request {
    /// What to ask of a network: no rows yet.
    pub(super) fn of(network: Network, theta: Vec<f64>) -> Request {
        Request { network, theta, starts: vec![], rows: vec![], targets: vec![], weights: vec![] }
    }

    /// Numbers that the target of a row has.
    pub(super) fn per_row(&self) -> usize {
        if self.network.output().classifies() { 1 } else { self.network.outputs() }
    }

    /// Hands over the rows of a chunk that are meant, in batches with what is given for them.
    fn each_batch(&self, chunk: u32, rows: usize, mut take: impl FnMut(Picked<'_>, Given<'_>)) {
        let range = self.starts[chunk as usize] as usize..self.starts[chunk as usize + 1] as usize;
        let list = (!self.rows.is_empty()).then(|| &self.rows[range.clone()]);
        let per_row = self.per_row();
        let mut at = range.start;
        for picked in Picked::batches(list, rows) {
            let weights = (!self.weights.is_empty()).then(|| &self.weights[at..at + picked.len()]);
            let targets = &self.targets[at * per_row..(at + picked.len()) * per_row];
            take(picked, Given { targets, weights });
            at += picked.len();
        }
    }
}

/// A network of this shape with these parameters, in memory that the thread keeps.
fn with<T: Kernel, R>(network: &Network, theta: &[f64], work: impl FnOnce(&mut Running<T>) -> R) -> R {
    T::with_running(|kept| {
        if kept.as_ref().is_none_or(|running| running.network() != network) {
            *kept = Some(Running::new(network));
        }
        match kept {
            Some(running) => {
                running.set(theta);
                work(running)
            }
            None => unreachable!("it was put there"),
        }
    })
}

/// Loss and gradient, summed over the rows that are meant.
#[qjam::map]
pub fn slopes<C: Source>(request: &Request, x: &C, ctx: &Ctx) -> Sums {
    let level = Level::best();
    let mut sums = Sums { weight: 0.0, loss: 0.0, gradient: vec![0.0; request.theta.len()] };
    with(&request.network, &request.theta, |running: &mut Running<C::Number>| {
        request.each_batch(ctx.chunk(), x.count(), |picked, given| {
            running.forward(level, x, picked);
            sums.loss += lose(running, level, picked.len(), given);
            sums.weight += given.weights.map_or(picked.len() as f64, |weights| weights.iter().sum());
            running.backward(level, x, picked, &mut sums.gradient);
        });
        running.flush(&mut sums.gradient);
    });
    sums
}

/// How good the answers are for the rows that are meant.
#[qjam::map]
pub fn quality<C: Source>(request: &Request, x: &C, ctx: &Ctx) -> Quality {
    let (level, output) = (Level::best(), request.network.output());
    let mut found = Quality { right: 0.0, missed: vec![0.0; request.network.outputs()] };
    with(&request.network, &request.theta, |running: &mut Running<C::Number>| {
        request.each_batch(ctx.chunk(), x.count(), |picked, given| {
            running.forward(level, x, picked);
            for (i, sums) in running.sums(picked.len()).enumerate() {
                let weight = given.weights.map_or(1.0, |weights| weights[i]);
                if output.classifies() {
                    let is_right = chosen(sums) == given.targets[i] as usize;
                    found.right += if is_right { weight } else { 0.0 };
                    continue;
                }
                let targets = &given.targets[i * sums.len()..];
                for ((missed, sum), target) in found.missed.iter_mut().zip(sums).zip(targets) {
                    let mut value = [sum.to_f64()];
                    if output == Output::Poisson {
                        elementwise::exp(level, &mut value);
                    }
                    *missed += weight * (value[0] - target) * (value[0] - target);
                }
            }
        });
    });
    found
}

/// The class that sums mean: the first of the largest, or the second of two if the only one is over 0.
fn chosen<T: Kernel>(sums: &[T]) -> usize {
    match sums {
        [only] => usize::from(*only > T::default()),
        _ => (1..sums.len()).fold(0, |best, at| if sums[at] > sums[best] { at } else { best }),
    }
}

/// The sums of the last layer for all rows, and the first number that is not finite.
#[qjam::map]
pub fn sums_of_rows<C: Source>(request: &Request, x: &C) -> RowNumbers {
    let level = Level::best();
    let mut values = Vec::with_capacity(x.count() * request.network.outputs());
    with(&request.network, &request.theta, |running: &mut Running<C::Number>| {
        for picked in Picked::batches(None, x.count()) {
            running.forward(level, x, picked);
            values.extend(running.sums(picked.len()).flatten().map(|sum| sum.to_f64()));
        }
    });
    RowNumbers { values, rows: x.count() as u64, bad: not_finite(x) }
}

/// Looks for the first number that is not finite.
#[qjam::map]
pub fn look<C: Source>(_: &(), x: &C) -> RowNumbers {
    RowNumbers { values: vec![], rows: x.count() as u64, bad: not_finite(x) }
}

qjam::register!(slopes::<Dense<f32>>, slopes::<Dense<f64>>, slopes::<Csr<f32>>, slopes::<Csr<f64>>);
qjam::register!(quality::<Dense<f32>>, quality::<Dense<f64>>, quality::<Csr<f32>>, quality::<Csr<f64>>);
qjam::register!(sums_of_rows::<Dense<f32>>, sums_of_rows::<Dense<f64>>);
qjam::register!(sums_of_rows::<Csr<f32>>, sums_of_rows::<Csr<f64>>);
qjam::register!(look::<Dense<f32>>, look::<Dense<f64>>, look::<Csr<f32>>, look::<Csr<f64>>);
