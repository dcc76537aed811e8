//! What the last layer's errors cost, row by row, and the derivative of that by its sums.

use super::layers::Running;
use super::network::Output;
use super::numbers::Kernel;
use crate::kernels::{Level, elementwise};

/// Targets and weights of the rows of a batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Given<'a> {
    /// The index of the class of each row, or as many numbers for each as there are outputs.
    pub(super) targets: &'a [f64],
    /// The weight of each row; none if all are 1.
    pub(super) weights: Option<&'a [f64]>,
}

impl Given<'_> {
    fn weight(&self, row: usize) -> f64 {
        self.weights.map_or(1.0, |weights| weights[row])
    }
}

/// The weighted sum of the losses of so many rows that went forward; their derivatives become the last layer's errors.
pub(super) fn lose<T: Kernel>(running: &mut Running<T>, level: Level, rows: usize, given: Given<'_>) -> f64 {
    match running.network().output() {
        Output::Softmax => softmax(running, level, rows, given),
        Output::Logistic => logistic(running, level, rows, given),
        Output::Squares => squares(running, rows, given),
        Output::Poisson => poisson(running, level, rows, given),
    }
}

/// Exponentials of differences to the largest sum of a row cannot overflow.
fn softmax<T: Kernel>(running: &mut Running<T>, level: Level, rows: usize, given: Given<'_>) -> f64 {
    let units = running.network().outputs();
    let [totals, right] = &mut running.doubles;
    let Some(layer) = running.layers.last_mut() else { return 0.0 };
    let width = layer.width;
    let values = &mut layer.values[..rows * width];
    for (i, row) in values.chunks_exact_mut(width).enumerate() {
        let row = &mut row[..units];
        let most = row.iter().fold(row[0], |most, value| if *value > most { *value } else { most });
        row.iter_mut().for_each(|value| *value = *value - most);
        right[i] = row[given.targets[i] as usize].to_f64();
    }
    elementwise::exp(level, values);
    let batch = values.chunks_exact(width).zip(layer.errors.chunks_exact_mut(width));
    for (i, (row, errors)) in batch.enumerate() {
        let total: f64 = row[..units].iter().map(|e| e.to_f64()).sum();
        let (weight, class) = (given.weight(i), given.targets[i] as usize);
        let share = weight / total;
        for (unit, (error, e)) in errors[..units].iter_mut().zip(row).enumerate() {
            let off = if unit == class { weight } else { 0.0 };
            *error = T::from_f64(e.to_f64() * share - off);
        }
        errors[units..].fill(T::default());
        totals[i] = total;
    }
    elementwise::log(level, &mut totals[..rows]);
    (0..rows).map(|i| given.weight(i) * (totals[i] - right[i])).sum()
}

fn logistic<T: Kernel>(running: &mut Running<T>, level: Level, rows: usize, given: Given<'_>) -> f64 {
    let [chances, costs] = &mut running.doubles;
    let Some(layer) = running.layers.last_mut() else { return 0.0 };
    let (chances, costs) = (&mut chances[..rows], &mut costs[..rows]);
    for (chance, row) in chances.iter_mut().zip(layer.values.chunks_exact(layer.width)) {
        *chance = row[0].to_f64();
    }
    costs.copy_from_slice(chances);
    elementwise::softplus(level, costs);
    let mut loss = 0.0;
    for i in 0..rows {
        loss += given.weight(i) * (costs[i] - given.targets[i] * chances[i]);
    }
    elementwise::sigmoid(level, chances);
    for (i, errors) in layer.errors.chunks_exact_mut(layer.width).take(rows).enumerate() {
        errors.fill(T::default());
        errors[0] = T::from_f64(given.weight(i) * (chances[i] - given.targets[i]));
    }
    loss
}

fn squares<T: Kernel>(running: &mut Running<T>, rows: usize, given: Given<'_>) -> f64 {
    let units = running.network().outputs();
    let Some(layer) = running.layers.last_mut() else { return 0.0 };
    let batch = layer.values.chunks_exact(layer.width).zip(layer.errors.chunks_exact_mut(layer.width));
    let mut loss = 0.0;
    for (i, (row, errors)) in batch.take(rows).enumerate() {
        let (weight, targets) = (given.weight(i), &given.targets[i * units..][..units]);
        for ((error, value), target) in errors.iter_mut().zip(row).zip(targets) {
            let missed = value.to_f64() - target;
            loss += 0.5 * weight * missed * missed;
            *error = T::from_f64(weight * missed);
        }
        errors[units..].fill(T::default());
    }
    loss
}

/// `y log(y / p) - y + p` with `p = eᶻ`.
fn poisson<T: Kernel>(running: &mut Running<T>, level: Level, rows: usize, given: Given<'_>) -> f64 {
    let units = running.network().outputs();
    let [expected, logs] = &mut running.doubles;
    let Some(layer) = running.layers.last_mut() else { return 0.0 };
    let numbers = rows * units;
    let (expected, logs) = (&mut expected[..numbers], &mut logs[..numbers]);
    for (to, row) in expected.chunks_exact_mut(units).zip(layer.values.chunks_exact(layer.width)) {
        to.iter_mut().zip(row).for_each(|(to, value)| *to = value.to_f64());
    }
    logs.copy_from_slice(&given.targets[..numbers]);
    elementwise::log(level, logs);
    let mut loss = 0.0;
    for at in 0..numbers {
        let (target, sum, weight) = (given.targets[at], expected[at], given.weight(at / units));
        let over = if target > 0.0 { target * (logs[at] - sum) } else { 0.0 };
        loss += weight * (over - target);
    }
    elementwise::exp(level, expected);
    for (i, errors) in layer.errors.chunks_exact_mut(layer.width).take(rows).enumerate() {
        let weight = given.weight(i);
        for (unit, error) in errors[..units].iter_mut().enumerate() {
            let at = i * units + unit;
            loss += weight * expected[at];
            *error = T::from_f64(weight * (expected[at] - given.targets[at]));
        }
        errors[units..].fill(T::default());
    }
    loss
}
