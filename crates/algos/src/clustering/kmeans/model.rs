//! What fitting leaves: centres, which know where new rows belong, and can be kept in a file.

use super::lloyd::{Centres, label, squared_distance};
use crate::kernels::Level;
use crate::kernels::nearest::{Real, Rows};
use crate::models::{self, FileError, Notes};
use qjam::{DataSet, Dense, Master};
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
    /// A number that is none.
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

/// What the file calls this model.
pub const KIND: &str = "kmeans";
/// The newest way its parts are laid out that this version knows.
const VERSION: u32 = 1;

impl<T: Real> Model<T> {
    /// A model of these centres.
    pub fn new(centres: Centres<T>) -> Model<T> {
        Model { centres }
    }

    /// Its centres.
    pub fn centres(&self) -> &Centres<T> {
        &self.centres
    }

    /// The nearest centre of each of some row-major rows.
    pub fn predict(&self, rows: &[T]) -> Result<Vec<u32>, ModelError> {
        let rows = self.rows(rows)?;
        let mut nearest = vec![0; rows.len()];
        T::nearest(Level::best(), &self.centres.panels(), rows, &mut nearest);
        Ok(nearest)
    }

    /// The nearest centre of every row of a data set.
    pub fn predict_all(&self, master: &Master, data: &DataSet<Dense<T>>) -> Result<Vec<u32>, ModelError> {
        let (found, expected) = (data.chunk(0).map_err(qjam::Error::from)?.cols(), self.centres.dims());
        if found != expected {
            return Err(ModelError::Columns { found, expected });
        }
        let found = master.run(label::<T>, &self.centres.panels(), data)?;
        match found.bad {
            Some((row, column, value)) => Err(ModelError::NotFinite { row, column, value }),
            None => Ok(found.labels),
        }
    }

    /// The distances of each row to all centres, one row of them each.
    pub fn transform(&self, rows: &[T]) -> Result<Vec<T>, ModelError> {
        let rows = self.rows(rows)?;
        let centres = self.centres.values.chunks_exact(self.centres.dims);
        let distances = |i| centres.clone().map(move |c| squared_distance(rows.row(i), c).sqrt());
        Ok((0..rows.len()).flat_map(distances).map(T::from_f64).collect())
    }

    /// The sum of the squared distances of rows to their nearest centres.
    pub fn inertia(&self, rows: &[T]) -> Result<f64, ModelError> {
        let nearest = self.predict(rows)?;
        let dims = self.centres.dims;
        let rows = rows.chunks_exact(dims).zip(nearest);
        Ok(rows.map(|(x, j)| squared_distance(x, &self.centres.values[j as usize * dims..][..dims])).sum())
    }

    /// Writes the model to a file, whole or not at all.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), ModelError> {
        self.save_with(path, &Notes::default())
    }

    /// Writes the model to a file with notes on how it came about.
    pub fn save_with(&self, path: impl AsRef<Path>, notes: &Notes) -> Result<(), ModelError> {
        let shape = [self.centres.len(), self.centres.dims()];
        Ok(models::save(
            path.as_ref(),
            KIND,
            VERSION,
            notes,
            &[("centres", &shape, models::Values::of(&self.centres.values))],
        )?)
    }

    /// Reads a model that [`Model::save`] wrote. One of 32-bit numbers can be read as 64-bit ones and the other way round.
    pub fn load(path: impl AsRef<Path>) -> Result<Model<T>, ModelError> {
        let file = models::load(path.as_ref(), KIND, VERSION)?;
        let (shape, values) = file.matrix("centres")?;
        let values = values.iter().map(|v| T::from_f64(*v)).collect();
        let centres =
            Centres::new(values, shape[1]).ok_or_else(|| file.damaged("there are no centres in it"))?;
        Ok(Model { centres })
    }

    fn rows<'a>(&self, rows: &'a [T]) -> Result<Rows<'a, T>, ModelError> {
        let dims = self.centres.dims();
        if !rows.len().is_multiple_of(dims) {
            return Err(ModelError::Rows { found: rows.len(), expected: dims });
        }
        match rows.iter().position(|v| !v.to_f64().is_finite()) {
            Some(at) => {
                let value = rows[at].to_f64();
                Err(ModelError::NotFinite { row: (at / dims) as u64, column: (at % dims) as u64, value })
            }
            None => Ok(Rows::new(rows, dims, dims)),
        }
    }
}
