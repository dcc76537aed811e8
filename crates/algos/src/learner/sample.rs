//! Small data sets that every learner can be fitted to, for tests that run for all of them.
//!
//! Rows lie around three centres, so that there is something to find; targets follow from them. A sample depends on its
//! arguments alone.

use super::{Fitted, Job, Learner, LearnerError, Progress, Training};
use crate::models::Parts;
use crate::options::{Settings, Spelling, Target};
use qjam::{Csr, DataError, DataSet, Dtype, Master, Rng, Rows};

const ROWS: usize = 240;
const COLUMNS: usize = 5;

/// How rows are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Whether zeros are left out.
    pub sparse: bool,
    /// The type of the numbers.
    pub dtype: Dtype,
}

/// A learner with settings and data for a fit that takes no time.
#[derive(Debug)]
pub struct Sample {
    /// The learner.
    pub learner: &'static dyn Learner,
    /// Values of its options.
    pub settings: Settings,
    /// The rows.
    pub rows: Rows,
    /// A target for each row, for learners that need them.
    pub targets: Option<Vec<f64>>,
}

impl Sample {
    /// Fits the learner to all rows.
    pub fn fit(&self, master: &Master) -> Result<Fitted, LearnerError> {
        self.job(master, None, |job| self.learner.fit(job))
    }

    /// Has the learner learn from all rows as one batch, beginning from these parts of a model.
    pub fn update(&self, master: &Master, start: Option<&Parts>) -> Result<Fitted, LearnerError> {
        self.job(master, start, |job| self.learner.update(job))
    }

    fn job<R>(&self, master: &Master, start: Option<&Parts>, work: impl FnOnce(&mut Job<'_>) -> R) -> R {
        let training = Training { targets: self.targets.as_deref(), start, ..Training::new(&self.rows) };
        let observer = &mut |_: &Progress<'_>| {};
        work(&mut Job { master, settings: &self.settings, training, memory_limit: None, observer })
    }
}

/// Dense rows of 64 bits.
///
/// # Panics
///
/// If the learner's [`sample_options`](Learner::sample_options) are not in its table.
pub fn small(learner: &'static dyn Learner) -> Sample {
    sample(learner, Stored { sparse: false, dtype: Dtype::F64 }).expect("numbers in memory make a data set")
}

/// The same rows, stored as asked. In several chunks, so that there is something to share.
///
/// # Panics
///
/// If the learner's [`sample_options`](Learner::sample_options) are not in its table.
pub fn sample(learner: &'static dyn Learner, stored: Stored) -> Result<Sample, DataError> {
    let table = learner.table();
    let mut settings = Settings::new(table, Spelling::Command);
    for (flag, value) in learner.sample_options() {
        settings.set_text(flag, value).unwrap_or_else(|e| panic!("{}: {e}", table.name));
    }
    let mut random = Rng::keyed(7, 0, 0);
    let (mut values, mut targets) = (Vec::with_capacity(ROWS * COLUMNS), Vec::with_capacity(ROWS));
    for row in 0..ROWS {
        let class = row % 3;
        for column in 0..COLUMNS {
            // Exact in 32 bits, and with zeros that sparse rows can leave out.
            let noise = (random.normal() * 64.0).round() / 512.0;
            let zero = column == 4 && row % 2 == 0;
            let value = if zero { 0.0 } else { noise + if column % 3 == class { 0.5 } else { -0.25 } };
            values.push(if learner.takes_negative() { value } else { value.abs() });
        }
        targets.push(match table.target {
            Target::Classes => class as f64,
            _ => class as f64 + random.normal() * 0.1,
        });
    }
    let targets = (table.target != Target::None).then_some(targets);
    Ok(Sample { learner, settings, rows: rows(values, stored)?, targets })
}

fn rows(values: Vec<f64>, stored: Stored) -> Result<Rows, DataError> {
    const CHUNK: usize = 50;
    let singles = || values.iter().map(|v| *v as f32).collect::<Vec<f32>>();
    Ok(match (stored.sparse, stored.dtype) {
        (false, Dtype::F32) => DataSet::dense(singles(), COLUMNS)?.chunk_records(CHUNK)?.into(),
        (false, Dtype::F64) => DataSet::dense(values, COLUMNS)?.chunk_records(CHUNK)?.into(),
        (true, Dtype::F32) => DataSet::csr(&csr(&singles()))?.chunk_records(CHUNK)?.into(),
        (true, Dtype::F64) => DataSet::csr(&csr(&values))?.chunk_records(CHUNK)?.into(),
    })
}

fn csr<T: qjam::chunk::Element + PartialEq + Default>(values: &[T]) -> Csr<T> {
    let (mut starts, mut columns, mut stored) = (vec![0], vec![], vec![]);
    for row in values.chunks_exact(COLUMNS) {
        for (column, value) in row.iter().enumerate().filter(|(_, value)| **value != T::default()) {
            columns.push(column as u32);
            stored.push(*value);
        }
        starts.push(columns.len() as u64);
    }
    Csr::from_vecs(starts, columns, stored, COLUMNS, None).expect("columns are in order and in range")
}
