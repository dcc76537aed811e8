//! What fitting leaves: centres, which know where new rows belong, and can be kept in a file.

use super::Params;
use super::lloyd::{Centres, Labels, Measure, distances, first_unusable, inertia, label};
use super::points::{DenseRows, Points, View};
use crate::kernels::nearest::{Real, Rows};
use crate::models::{self, FileError, Format, Notes, Parts, PartsError, Tensor};
use qjam::{DataSet, Master};
use std::path::Path;
use thiserror::Error;

/// Centres that rows are compared with.
#[derive(Clone, Debug, PartialEq)]
pub struct Model<T> {
    centres: Centres<T>,
}

/// What is wrong with something handed to a model.
#[derive(Debug, Error)]
pub enum ModelError {
    /// Rows of another width.
    #[error("k-means: {found} values are no whole number of rows; the centres have {expected} columns")]
    Rows {
        /// Values given.
        found: usize,
        /// Columns of a centre.
        expected: usize,
    },
    /// A data set of another width.
    #[error(
        "k-means: the data has {found} columns and the centres have {expected}; predict on rows like those the model was fitted to"
    )]
    Columns {
        /// Columns of the data.
        found: usize,
        /// Columns of a centre.
        expected: usize,
    },
    /// Weights were asked for.
    #[error("k-means: the rows have no labels that could be their weights")]
    NoWeights,
    /// A number that is not finite.
    #[error("k-means: row {row}, column {column} (counted from 0) is {value}, which is near no centre")]
    NotFinite {
        /// Row.
        row: u64,
        /// Column.
        column: u64,
        /// NaN or an infinity.
        value: f64,
    },
    /// The data could not be read, or a round failed.
    #[error(transparent)]
    Run(#[from] qjam::Error),
    /// The file could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
}

/// How files have this model.
pub const FORMAT: Format = Format { kind: "kmeans", version: 1, attributes: &[] };

impl<T: Real> Model<T> {
    /// A model of these centres.
    pub fn new(centres: Centres<T>) -> Model<T> {
        Model { centres }
    }

    /// Its centres.
    pub fn centres(&self) -> &Centres<T> {
        &self.centres
    }

    /// The same centres in numbers of another type.
    pub fn converted<U: Real>(&self) -> Model<U> {
        let values = self.centres.values.iter().map(|v| U::from_f64(v.to_f64())).collect();
        Model { centres: Centres { values, dims: self.centres.dims } }
    }

    /// The nearest centre of each of some row-major rows.
    pub fn predict(&self, rows: &[T]) -> Result<Vec<u32>, ModelError> {
        self.nearest(self.rows(rows)?)
    }

    /// The distances of each of some row-major rows to all centres, one row of them each.
    pub fn transform(&self, rows: &[T]) -> Result<Vec<T>, ModelError> {
        let rows = self.usable(self.rows(rows)?)?;
        Ok(Measure::new(&self.centres, false).distances(rows))
    }

    /// The sum of the squared distances of row-major rows to their nearest centres.
    pub fn inertia(&self, rows: &[T]) -> Result<f64, ModelError> {
        let rows = self.usable(self.rows(rows)?)?;
        Ok(Measure::new(&self.centres, false).sum(rows))
    }

    /// The nearest centre of every row of a matrix, dense or sparse, here and now.
    ///
    /// ```
    /// use qjam::Csr;
    /// use qjam_algos::clustering::kmeans::{Centres, Model};
    /// let model = Model::new(Centres::new(vec![0.0, 0.0, 9.0, 9.0], 2).unwrap());
    /// let x = Csr::from_vecs(vec![0, 0, 2], vec![0, 1], vec![8.0, 7.0], 2, None)?;
    /// assert_eq!(model.predict_matrix(&x)?, [0, 1]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn predict_matrix<C: Points<Number = T>>(&self, x: &C) -> Result<Vec<u32>, ModelError> {
        self.fits(x, false)?;
        self.nearest(x.view(false))
    }

    /// The distances of every row of a matrix, dense or sparse, to all centres, here and now.
    pub fn transform_matrix<C: Points<Number = T>>(&self, x: &C) -> Result<Vec<T>, ModelError> {
        self.fits(x, false)?;
        Ok(Measure::new(&self.centres, false).distances(self.usable(x.view(false))?))
    }

    /// The nearest centre of every row of a data set.
    pub fn predict_all<C: Points<Number = T>>(
        &self,
        master: &Master,
        data: &DataSet<C>,
    ) -> Result<Vec<u32>, ModelError> {
        let found = self.label(master, data, false)?;
        refuse(found.bad)?;
        Ok(found.labels)
    }

    /// The same for rows that are read as a fit with these params reads them: with weights, if they have any, and
    /// [`NO_LABEL`](super::NO_LABEL) for rows that were skipped.
    pub fn labels<C: Points<Number = T>>(
        &self,
        master: &Master,
        data: &DataSet<C>,
        params: &Params,
    ) -> Result<Vec<u32>, ModelError> {
        let found = self.label(master, data, params.weighted())?;
        refuse(found.bad.filter(|_| !params.skips_bad_rows()))?;
        Ok(found.labels)
    }

    /// The distances of every row of a data set to all centres, one row of them each. All of them come home.
    pub fn transform_all<C: Points<Number = T>>(
        &self,
        master: &Master,
        data: &DataSet<C>,
    ) -> Result<Vec<T>, ModelError> {
        self.fits(&data.chunk(0).map_err(qjam::Error::from)?, false)?;
        let found = master.run(distances::<C>, &Measure::new(&self.centres, false), data)?;
        refuse(found.bad)?;
        Ok(found.distances)
    }

    /// The weighted sum of the squared distances of all rows of a data set to their nearest centres.
    pub fn inertia_all<C: Points<Number = T>>(
        &self,
        master: &Master,
        data: &DataSet<C>,
        weighted: bool,
    ) -> Result<f64, ModelError> {
        self.fits(&data.chunk(0).map_err(qjam::Error::from)?, weighted)?;
        let sum = master.run(inertia::<C>, &Measure::new(&self.centres, weighted), data)?;
        if !sum.is_finite() {
            // Which number it is, the labels know.
            refuse(self.label(master, data, weighted)?.bad)?;
        }
        Ok(sum)
    }

    /// Writes the model to a file, whole or not at all.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), ModelError> {
        self.save_with(path, &Notes::default())
    }

    /// Writes the model to a file with notes on how it came about.
    pub fn save_with(&self, path: impl AsRef<Path>, notes: &Notes) -> Result<(), ModelError> {
        Ok(models::save(path.as_ref(), &self.parts(), notes)?)
    }

    /// Reads a model that [`Model::save`] wrote. One of 32-bit numbers can be read as 64-bit ones and the other way round.
    pub fn load(path: impl AsRef<Path>) -> Result<Model<T>, ModelError> {
        let (parts, _) = models::load(path.as_ref(), FORMAT)?;
        let damaged = |e: PartsError| FileError::Damaged { path: path.as_ref().into(), what: e.to_string() };
        Ok(Model::of_parts(&parts).map_err(damaged)?)
    }

    /// What it consists of.
    pub fn parts(&self) -> Parts {
        let shape = [self.centres.len(), self.centres.dims()];
        Parts::new(FORMAT, vec![Tensor::new("centres", &shape, &self.centres.values)])
    }

    /// A model of these parts.
    pub fn of_parts(parts: &Parts) -> Result<Model<T>, PartsError> {
        let ([_, columns], values) = parts.tensor("centres")?;
        let values = values.iter().map(|v| T::from_f64(*v)).collect();
        let centres = Centres::new(values, columns);
        centres.map(Model::new).ok_or_else(|| PartsError::inconsistent("there are no centres in it"))
    }

    fn label<C: Points<Number = T>>(
        &self,
        master: &Master,
        data: &DataSet<C>,
        weighted: bool,
    ) -> Result<Labels, ModelError> {
        self.fits(&data.chunk(0).map_err(qjam::Error::from)?, weighted)?;
        Ok(master.run(label::<C>, &self.centres.compared(true, weighted), data)?)
    }

    fn fits<C: Points>(&self, x: &C, weighted: bool) -> Result<(), ModelError> {
        let expected = self.centres.dims();
        match x.dims(weighted) {
            Some(found) if found == expected => Ok(()),
            Some(found) => Err(ModelError::Columns { found, expected }),
            None => Err(ModelError::NoWeights),
        }
    }

    fn rows<'a>(&self, rows: &'a [T]) -> Result<DenseRows<'a, T>, ModelError> {
        let dims = self.centres.dims();
        match rows.len().is_multiple_of(dims) {
            true => Ok(DenseRows(Rows::new(rows, dims, dims))),
            false => Err(ModelError::Rows { found: rows.len(), expected: dims }),
        }
    }

    fn nearest(&self, rows: impl View<T>) -> Result<Vec<u32>, ModelError> {
        let mut nearest = vec![0; rows.len()];
        self.centres.targets(true).nearest(self.usable(rows)?, &mut nearest);
        Ok(nearest)
    }

    fn usable<V: View<T>>(&self, rows: V) -> Result<V, ModelError> {
        refuse(first_unusable(rows))?;
        Ok(rows)
    }
}

fn refuse(bad: Option<(u64, u64, f64)>) -> Result<(), ModelError> {
    match bad {
        Some((row, column, value)) => Err(ModelError::NotFinite { row, column, value }),
        None => Ok(()),
    }
}
