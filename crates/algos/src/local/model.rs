//! What fitting leaves: the rows that were learnt from, and how near counts.

use super::params::{Kernel, Params};
use super::sums::{BATCH, Queries, Sums, sums, sums_of, terms};
use super::{NAME, solve};
use crate::answers::{RowNumbers, not_finite};
use crate::clustering::kmeans::parts as parts_of;
use crate::input::{InputError, Problem};
use crate::linear::rows::RowChunk;
use crate::models::{Format, Parts, PartsError, Tensor};
use crate::options::Value;
use qjam::{DataSet, Dense, Master, Reduce};

/// The word of the kernel.
pub const KERNEL: &str = "kernel";
/// How files have this model.
pub const FORMAT: Format = Format { kind: NAME, version: 1, attributes: &[KERNEL] };
/// Numbers that a round brings home at most.
const NUMBERS_MAX: usize = 1 << 20;

/// Rows, their targets and weights, and a bandwidth.
#[derive(Clone, Debug)]
pub struct LocalModel {
    params: Params,
    bandwidth: f64,
    centre: Vec<f64>,
    target: f64,
    /// Columns, target, weight.
    learnt: DataSet<Dense<f64>>,
}

impl LocalModel {
    pub(super) fn new(
        params: Params,
        bandwidth: f64,
        centre: Vec<f64>,
        learnt: DataSet<Dense<f64>>,
    ) -> Result<LocalModel, qjam::Error> {
        let learnt = learnt.partitions(parts_of(learnt.records()))?;
        let mut model = LocalModel { params, bandwidth, centre, target: 0.0, learnt };
        let (mut sum, mut weight) = (0.0, 0.0);
        model.each(|row, columns| {
            sum += row[columns] * row[columns + 1];
            weight += row[columns + 1];
        })?;
        model.target = sum / weight;
        Ok(model)
    }

    /// Columns of the rows.
    pub fn columns(&self) -> usize {
        self.centre.len()
    }

    /// How many rows it has.
    pub fn rows(&self) -> u64 {
        self.learnt.records()
    }

    /// How far away rows still count.
    pub fn bandwidth(&self) -> f64 {
        self.bandwidth
    }

    /// How many queries a round is asked about: their sums come home, and their weights for a batch of rows are in memory.
    fn together(&self) -> usize {
        (NUMBERS_MAX / terms(self.columns()).max(BATCH)).max(1)
    }

    /// Shows every learnt row with its target and weight, and the number of columns before these.
    fn each(&self, mut tell: impl FnMut(&[f64], usize)) -> Result<(), qjam::Error> {
        for index in 0..self.learnt.len() {
            self.learnt.chunk(index)?.rows_iter().for_each(|row| tell(row, self.columns()));
        }
        Ok(())
    }

    /// The values that are expected of rows: a round for every few thousand of them.
    pub fn predict<C: RowChunk>(&self, master: &Master, data: &DataSet<C>) -> Result<Vec<f64>, InputError> {
        // A query's value has the same bits whatever is asked about with it.
        let data = data.chunk_records(self.together()).map_err(qjam::Error::from)?;
        let mut found = RowNumbers { values: vec![], rows: 0, bad: None };
        for index in 0..data.len() {
            let chunk = data.chunk(index).map_err(qjam::Error::from)?;
            found.merge(self.values(&chunk, |queries| master.run(sums, queries, &self.learnt))?);
        }
        sound(found)
    }

    /// The same of the rows of one chunk, on this thread.
    pub fn predict_of<C: RowChunk>(&self, x: &C) -> Result<Vec<f64>, InputError> {
        sound(self.values(x, |queries| self.summed(queries))?)
    }

    fn values<C: RowChunk>(
        &self,
        x: &C,
        mut ask: impl FnMut(&Queries) -> Result<Sums, qjam::Error>,
    ) -> Result<RowNumbers, InputError> {
        let columns = self.columns();
        if x.width() != columns {
            return Err(Problem::Columns { found: x.width(), expected: columns }.of(NAME));
        }
        let mut found = RowNumbers { values: vec![], rows: x.count() as u64, bad: not_finite(x) };
        if found.bad.is_some() {
            return Ok(found);
        }
        let together = self.together();
        for first in (0..x.count()).step_by(together) {
            let mut rows = vec![0.0; together.min(x.count() - first) * columns];
            rows.chunks_exact_mut(columns).enumerate().for_each(|(at, row)| x.write(first + at, row));
            let queries =
                Queries::new(self.params.kernel, self.bandwidth, (&self.centre, self.target), &rows);
            let sums = ask(&queries)?;
            let value = |(sums, query): (&[f64], &[f64])| {
                let value = match self.params.slopes {
                    true => solve::value(sums, query, self.params.alpha),
                    false => solve::mean(sums),
                };
                value + self.target
            };
            found.values.extend(sums.each().zip(queries.rows()).map(value));
        }
        Ok(found)
    }

    /// The sums over all learnt rows, merged along the tree of rounds.
    fn summed(&self, queries: &Queries) -> Result<Sums, qjam::Error> {
        let chunks = self.learnt.len();
        self.node(queries, 0..chunks.next_power_of_two(), chunks)
    }

    fn node(
        &self,
        queries: &Queries,
        chunks: std::ops::Range<usize>,
        count: usize,
    ) -> Result<Sums, qjam::Error> {
        if chunks.len() == 1 {
            return Ok(sums_of(queries, &self.learnt.chunk(chunks.start)?));
        }
        let middle = chunks.start + chunks.len() / 2;
        let mut left = self.node(queries, chunks.start..middle, count)?;
        if middle < count {
            left.merge(self.node(queries, middle..chunks.end, count)?);
        }
        Ok(left)
    }

    /// What it consists of.
    pub fn parts(&self) -> Parts {
        let (columns, rows) = (self.columns(), self.rows() as usize);
        let (mut values, mut targets, mut weights) = (vec![], vec![], vec![]);
        let told = self.each(|row, columns| {
            values.extend_from_slice(&row[..columns]);
            targets.push(row[columns]);
            weights.push(row[columns + 1]);
        });
        assert!(told.is_ok(), "rows in memory can be read");
        let single = |name: &str, value: f64| Tensor::new(name, &[1], &[value]);
        let tensors = vec![
            Tensor::new("rows", &[rows, columns], &values),
            Tensor::new("targets", &[rows], &targets),
            Tensor::new("weights", &[rows], &weights),
            Tensor::new("centre", &[columns], &self.centre),
            single("bandwidth", self.bandwidth),
            single("degree", f64::from(u8::from(self.params.slopes))),
            single("alpha", self.params.alpha),
        ];
        let attributes = vec![(KERNEL.into(), Value::Text(self.params.kernel.word().into()))];
        Parts { attributes, ..Parts::new(FORMAT, tensors) }
    }

    /// A model of these parts.
    pub fn of_parts(parts: &Parts) -> Result<LocalModel, PartsError> {
        let wrong = |what: &str| PartsError::inconsistent(what);
        let ([rows, columns], values) = parts.tensor("rows")?;
        let ([_], targets) = parts.tensor("targets")?;
        let ([_], weights) = parts.tensor("weights")?;
        let ([_], centre) = parts.tensor("centre")?;
        let single = |name: &str| match parts.tensor::<1>(name)?.1[..] {
            [value] if value.is_finite() => Ok(value),
            _ => Err(PartsError::inconsistent(format!("{name} is not one finite number"))),
        };
        let (bandwidth, degree, alpha) = (single("bandwidth")?, single("degree")?, single("alpha")?);
        let kernel = parts.word(KERNEL).and_then(Kernel::named);
        let kernel = kernel.ok_or_else(|| wrong("it has no kernel that is known"))?;
        let is_one = [targets.len(), weights.len(), centre.len()] == [rows, rows, columns];
        if !is_one || rows == 0 || columns == 0 {
            return Err(wrong("its tensors do not belong to one model"));
        }
        if !(bandwidth > 0.0 && alpha >= 0.0) || weights.iter().any(|w| !(w.is_finite() && *w > 0.0)) {
            return Err(wrong("its bandwidth or a weight is not over 0, or its alpha negative"));
        }
        if values.iter().chain(&targets).chain(&centre).any(|value| !value.is_finite()) {
            return Err(wrong("a number of its rows is not finite"));
        }
        let beside = values.chunks_exact(columns).zip(targets.iter().zip(&weights));
        let all = beside.flat_map(|(row, (target, weight))| row.iter().copied().chain([*target, *weight]));
        let learnt = DataSet::dense(all.collect(), columns + 2).map_err(PartsError::inconsistent)?;
        let params = Params::new(bandwidth).with_kernel(kernel).with_slopes(degree != 0.0).with_alpha(alpha);
        LocalModel::new(params, bandwidth, centre, learnt).map_err(PartsError::inconsistent)
    }
}

fn sound(found: RowNumbers) -> Result<Vec<f64>, InputError> {
    match found.bad {
        Some((row, column, value)) => Err(Problem::NotFinite { row, column, value }.of(NAME)),
        None => Ok(found.values),
    }
}
