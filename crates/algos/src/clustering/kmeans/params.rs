//! What a run of k-means is asked to do, checked when it is made.

use thiserror::Error;

/// Where the first centres come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Start {
    /// k-means++: one row after the other, each drawn by its squared distance to the nearest one so far. One round of
    /// the data for every centre.
    #[default]
    PlusPlus,
    /// k-means‖: a few rounds that draw about `2 k` rows each, of which k-means++ then chooses on the master. For many
    /// centres or far workers.
    Parallel,
    /// Rows drawn by weight alone.
    Random,
}

/// Settings of k-means. A value that exists is valid.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Params {
    k: usize,
    start: Start,
    starts: usize,
    iterations_max: usize,
    tolerance: f64,
    pruning: bool,
    weighted: bool,
    skip_bad_rows: bool,
    no_improvement_max: Option<usize>,
    seed: u64,
}

/// What is wrong with a setting of k-means.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum ParamsError {
    /// No clusters, or more than can be numbered.
    #[error("k-means: {k} clusters; give a number from 1 to {}", Params::K_MAX)]
    Clusters {
        /// What was given.
        k: usize,
    },
    /// A count that must be at least 1.
    #[error("k-means: {name} is 0; give at least 1")]
    Zero {
        /// Which one.
        name: &'static str,
    },
    /// A tolerance that is negative or not finite.
    #[error("k-means: the tolerance is {value}; give a finite number that is not negative")]
    Tolerance {
        /// What was given.
        value: f64,
    },
}

impl Params {
    /// Most clusters there may be: marks of registers stay exact in 32-bit numbers.
    pub const K_MAX: usize = 1 << 24;

    /// `k` clusters, one start by k-means++, at most 300 iterations, tolerance 1e-4, seed 0.
    pub fn new(k: usize) -> Result<Params, ParamsError> {
        if k == 0 || k > Params::K_MAX {
            return Err(ParamsError::Clusters { k });
        }
        Ok(Params {
            k,
            start: Start::default(),
            starts: 1,
            iterations_max: 300,
            tolerance: 1e-4,
            pruning: true,
            weighted: false,
            skip_bad_rows: false,
            no_improvement_max: Some(10),
            seed: 0,
        })
    }

    /// Where the first centres come from.
    pub fn with_start(self, start: Start) -> Params {
        Params { start, ..self }
    }

    /// How often to begin anew; the result of lowest inertia is kept, of equal ones the first.
    pub fn with_starts(self, starts: usize) -> Result<Params, ParamsError> {
        if starts == 0 {
            Err(ParamsError::Zero { name: "the number of starts" })
        } else {
            Ok(Params { starts, ..self })
        }
    }

    /// Most iterations of one start.
    pub fn with_iterations_max(self, iterations_max: usize) -> Result<Params, ParamsError> {
        match iterations_max {
            0 => Err(ParamsError::Zero { name: "the number of iterations" }),
            _ => Ok(Params { iterations_max, ..self }),
        }
    }

    /// Stop when the squared distances that all centres moved sum to at most this share of the mean variance of the
    /// columns. With 0 only the fixed point stops it, where no centre moves at all.
    pub fn with_tolerance(self, tolerance: f64) -> Result<Params, ParamsError> {
        match tolerance.is_finite() && tolerance >= 0.0 {
            true => Ok(Params { tolerance, ..self }),
            false => Err(ParamsError::Tolerance { value: tolerance }),
        }
    }

    /// Whether rows may be spared distances that cannot matter. Changes no bit of the result, only the time.
    pub fn with_pruning(self, pruning: bool) -> Params {
        Params { pruning, ..self }
    }

    /// Whether rows have weights: the last column of dense rows, which is no coordinate then, and the labels of sparse
    /// ones, which are ignored otherwise. Weights are finite and not negative.
    pub fn with_weights_last(self, weighted: bool) -> Params {
        Params { weighted, ..self }
    }

    /// Whether rows with a number that is not finite are left out. Otherwise they are an error.
    pub fn with_skip_bad_rows(self, skip_bad_rows: bool) -> Params {
        Params { skip_bad_rows, ..self }
    }

    /// How many batches may get no better before fitting by batches ends; `None` for any number. At first 10.
    pub fn with_no_improvement_max(self, no_improvement_max: Option<usize>) -> Result<Params, ParamsError> {
        match no_improvement_max {
            Some(0) => Err(ParamsError::Zero { name: "the number of batches without improvement" }),
            _ => Ok(Params { no_improvement_max, ..self }),
        }
    }

    /// Seed of all random choices.
    pub fn with_seed(self, seed: u64) -> Params {
        Params { seed, ..self }
    }

    /// Number of clusters.
    pub fn k(&self) -> usize {
        self.k
    }

    /// Where the first centres come from.
    pub fn start(&self) -> Start {
        self.start
    }

    /// Number of starts.
    pub fn starts(&self) -> usize {
        self.starts
    }

    /// Most iterations of one start.
    pub fn iterations_max(&self) -> usize {
        self.iterations_max
    }

    /// Movement at which to stop, as a share of the mean variance.
    pub fn tolerance(&self) -> f64 {
        self.tolerance
    }

    /// Whether distances that cannot matter are left out.
    pub fn pruning(&self) -> bool {
        self.pruning
    }

    /// Whether rows have weights.
    pub fn weighted(&self) -> bool {
        self.weighted
    }

    /// Whether rows with a number that is not finite are left out.
    pub fn skip_bad_rows(&self) -> bool {
        self.skip_bad_rows
    }

    /// How many batches may get no better.
    pub fn no_improvement_max(&self) -> Option<usize> {
        self.no_improvement_max
    }

    /// Seed of all random choices.
    pub fn seed(&self) -> u64 {
        self.seed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_out_of_range_are_refused_with_their_value() {
        assert_eq!(Params::new(0), Err(ParamsError::Clusters { k: 0 }));
        let params = Params::new(3).unwrap();
        assert!(params.with_starts(0).is_err() && params.with_iterations_max(0).is_err());
        assert_eq!(params.with_tolerance(-1.0), Err(ParamsError::Tolerance { value: -1.0 }));
        assert!(params.with_tolerance(f64::NAN).is_err() && params.with_tolerance(0.0).is_ok());
    }
}
