//! What a run of k-means is asked to do, checked when it is made.
//!
//! [`TABLE`] and [`MINIBATCH`] are the tables of what can be chosen; [`Params`] is what the code takes.

use crate::options::{Kind, Opt, OptionError, Preset, Settings, Table, Target};
use thiserror::Error;

const N_CLUSTERS: Opt = Opt {
    name: "n_clusters",
    flag: "k",
    kind: Kind::Integer { min: 1, max: Params::K_MAX as u64 },
    words: &[],
    default: Preset::Integer(8),
    typed: true,
    help: "How many clusters",
    detail: "At most as many as there are rows.",
};

const INIT: Opt = Opt {
    name: "init",
    flag: "init",
    kind: Kind::File,
    words: &[
        (
            "k-means++",
            "one row after the other, each drawn by its squared distance to the nearest one so far",
        ),
        (
            "parallel",
            "k-means‖: about 2 k rows in each of a few rounds, and k-means++ among them; for many centres",
        ),
        ("random", "rows drawn by weight alone"),
    ],
    default: Preset::Word("k-means++"),
    typed: false,
    help: "Where the first centres come from",
    detail: "A file (`.npy`; in Python an array) has one centre a row. Bits depend on the choice, never on the workers.",
};

const RANDOM_STATE: Opt = Opt {
    name: "random_state",
    flag: "seed",
    kind: Kind::Seed,
    words: &[],
    default: Preset::Integer(0),
    typed: false,
    help: "Seed of all random choices",
    detail: "",
};

const SKIP_BAD_ROWS: Opt = Opt {
    name: "skip_bad_rows",
    flag: "skip-bad-rows",
    kind: Kind::Flag,
    words: &[],
    default: Preset::Flag(false),
    typed: false,
    help: "Leave out rows with NaN or an infinity instead of refusing them",
    detail: "",
};

/// What can be chosen of k-means.
pub const TABLE: Table = Table {
    name: "kmeans",
    class: "KMeans",
    about: "Group rows around k centres; the same bits on any workers",
    detail: "\
Lloyd's algorithm: every row goes to its nearest centre, every centre to the mean of its rows, until no centre moves.
Running out of iterations is no error; the result says so.",
    target: Target::None,
    weighted: true,
    sparse: true,
    dtype: None,
    options: &[
        N_CLUSTERS,
        INIT,
        Opt {
            name: "n_init",
            flag: "starts",
            kind: Kind::Integer { min: 1, max: 1_000_000 },
            words: &[("auto", "10 with random first centres, else 1")],
            default: Preset::Word("auto"),
            typed: false,
            help: "How often to begin anew; the result of lowest inertia is kept",
            detail: "Given first centres are begun from once.",
        },
        Opt {
            name: "max_iter",
            flag: "iterations",
            kind: Kind::Integer { min: 1, max: 1_000_000_000 },
            words: &[],
            default: Preset::Integer(300),
            typed: false,
            help: "Most iterations of one start",
            detail: "",
        },
        Opt {
            name: "tol",
            flag: "tolerance",
            kind: Kind::Real { min: 0.0, max: f64::INFINITY, open: false },
            words: &[],
            default: Preset::Real(1e-4),
            typed: false,
            help: "Stop when centres move less: a share of the mean variance of the columns",
            detail: "The squared distances that all centres moved are added up for that. With 0 only the fixed point ends it, \
where no centre moves at all.",
        },
        Opt {
            name: "algorithm",
            flag: "algorithm",
            kind: Kind::Word,
            words: &[
                ("auto", "leave out distances that cannot matter, where that pays"),
                ("lloyd", "compute all of them"),
                ("elkan", "scikit-learn's word; the same as auto"),
            ],
            default: Preset::Word("auto"),
            typed: false,
            help: "How nearest centres are found",
            detail: "Changes the time and no bit of the result.",
        },
        Opt {
            name: "empty_clusters",
            flag: "empty-clusters",
            kind: Kind::Word,
            words: &[
                ("farthest", "they move to the rows that are farthest from their own centres, as in scikit-learn"),
                ("keep", "they stay where they are"),
            ],
            default: Preset::Word("farthest"),
            typed: false,
            help: "What becomes of centres that no row is nearest to",
            detail: "",
        },
        RANDOM_STATE,
        SKIP_BAD_ROWS,
    ],
    examples: &[
        "fit kmeans x.npy --k 20 --out x.model",
        "fit kmeans homes.csv --k 5 --without street,price --missing mean --out homes.model",
        "fit kmeans x.parquet --k 1000 --init parallel --workers proc:4,big --out x.model",
        "predict x.model new.npy --out labels.npy",
    ],
};

/// What can be chosen of k-means on batches.
pub const MINIBATCH: Table = Table {
    name: "minibatch-kmeans",
    class: "MiniBatchKMeans",
    about: "Group rows around k centres, looking at a few rows at a time",
    detail: "\
For data that is too much to be read in every iteration. An iteration draws a batch of rows, and every centre moves to the
mean of all rows it was ever given. The rows drawn depend on the seed alone, so the bits are the same on any workers.",
    target: Target::None,
    weighted: true,
    sparse: true,
    dtype: None,
    options: &[
        N_CLUSTERS,
        INIT,
        Opt {
            name: "batch_size",
            flag: "batch",
            kind: Kind::Integer { min: 1, max: 1 << 40 },
            words: &[],
            default: Preset::Integer(1024),
            typed: false,
            help: "Rows of a batch, about",
            detail: "",
        },
        Opt {
            name: "max_iter",
            flag: "iterations",
            kind: Kind::Integer { min: 1, max: 1_000_000_000 },
            words: &[],
            default: Preset::Integer(100),
            typed: false,
            help: "Most passes over the data: so many times as many batches as make up the data",
            detail: "",
        },
        Opt {
            name: "max_no_improvement",
            flag: "patience",
            kind: Kind::Integer { min: 1, max: 1_000_000_000 },
            words: &[("none", "never stop for that")],
            default: Preset::Integer(10),
            typed: false,
            help: "Stop after so many batches in a row that did not lower the smoothed inertia of a batch",
            detail: "",
        },
        Opt {
            name: "tol",
            flag: "tolerance",
            kind: Kind::Real { min: 0.0, max: f64::INFINITY, open: false },
            words: &[],
            default: Preset::Real(0.0),
            typed: false,
            help: "Stop when centres move less: a share of the mean variance of the columns",
            detail: "With 0 movement ends nothing.",
        },
        RANDOM_STATE,
        SKIP_BAD_ROWS,
    ],
    examples: &["fit minibatch-kmeans x.npy --k 100 --batch 4096 --iterations 10 --out x.model"],
};

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

/// What becomes of a centre that no row is nearest to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum EmptyClusters {
    /// It takes over the row that is farthest from its own centre. Costs a round in iterations that have such centres.
    #[default]
    Farthest,
    /// It stays where it is.
    Keep,
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
    empty_clusters: EmptyClusters,
    batch_rows: usize,
    patience: Option<usize>,
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
    /// A value that the learner's table does not allow.
    #[error(transparent)]
    Option(#[from] OptionError),
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
            empty_clusters: EmptyClusters::default(),
            batch_rows: 1024,
            patience: Some(10),
            seed: 0,
        })
    }

    /// What settings of [`TABLE`] or [`MINIBATCH`] say. First centres that are given, a file or an array, are for the
    /// caller to hand over: here they are as good as the default.
    pub fn from_settings(settings: &Settings) -> Result<Params, ParamsError> {
        let start = match settings.word("init")? {
            Some("parallel") => Start::Parallel,
            Some("random") => Start::Random,
            _ => Start::PlusPlus,
        };
        let params = Params::new(settings.count("n_clusters")?)?
            .with_start(start)
            .with_iterations_max(settings.count("max_iter")?)?
            .with_tolerance(settings.real("tol")?)?
            .with_skip_bad_rows(settings.flag("skip_bad_rows")?)
            .with_seed(settings.integer("random_state")?);
        if settings.table().name == MINIBATCH.name {
            let patience = match settings.word("max_no_improvement")? {
                None => Some(settings.count("max_no_improvement")?),
                Some(_) => None,
            };
            return Ok(params.with_batch_rows(settings.count("batch_size")?)?.with_patience(patience));
        }
        let starts = match settings.word("n_init")? {
            None => settings.count("n_init")?,
            Some(_) if start == Start::Random => 10,
            Some(_) => 1,
        };
        let pruning = settings.word("algorithm")? != Some("lloyd");
        let empty = match settings.word("empty_clusters")? {
            Some("keep") => EmptyClusters::Keep,
            _ => EmptyClusters::Farthest,
        };
        Ok(params.with_starts(starts)?.with_pruning(pruning).with_empty_clusters(empty))
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

    /// Most iterations of one start; where rows are taken in batches, most passes over the data.
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

    /// Whether rows with NaN or an infinity are left out; otherwise the first is an error that names its place.
    pub fn with_skip_bad_rows(self, skip_bad_rows: bool) -> Params {
        Params { skip_bad_rows, ..self }
    }

    /// What becomes of a centre that no row is nearest to; on batches it stays where it is.
    pub fn with_empty_clusters(self, empty_clusters: EmptyClusters) -> Params {
        Params { empty_clusters, ..self }
    }

    /// About how many rows a batch has, where rows are taken in batches.
    pub fn with_batch_rows(self, batch_rows: usize) -> Result<Params, ParamsError> {
        match batch_rows {
            0 => Err(ParamsError::Zero { name: "the number of rows of a batch" }),
            _ => Ok(Params { batch_rows, ..self }),
        }
    }

    /// Where rows are taken in batches: how many in a row may fail to lower the smoothed inertia of a batch before it
    /// stops; `None` for any number.
    pub fn with_patience(self, patience: Option<usize>) -> Params {
        Params { patience, ..self }
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

    /// Whether rows that are not finite are left out.
    pub fn skips_bad_rows(&self) -> bool {
        self.skip_bad_rows
    }

    /// What becomes of a centre that no row is nearest to.
    pub fn empty_clusters(&self) -> EmptyClusters {
        self.empty_clusters
    }

    /// About how many rows a batch has.
    pub fn batch_rows(&self) -> usize {
        self.batch_rows
    }

    /// Batches in a row that may fail to lower the smoothed inertia.
    pub fn patience(&self) -> Option<usize> {
        self.patience
    }

    /// Seed of all random choices.
    pub fn seed(&self) -> u64 {
        self.seed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Spelling;

    #[test]
    fn settings_out_of_range_are_refused_with_their_value() {
        assert_eq!(Params::new(0), Err(ParamsError::Clusters { k: 0 }));
        let params = Params::new(3).unwrap();
        assert!(params.with_starts(0).is_err() && params.with_iterations_max(0).is_err());
        assert_eq!(params.with_tolerance(-1.0), Err(ParamsError::Tolerance { value: -1.0 }));
        assert!(params.with_tolerance(f64::NAN).is_err() && params.with_tolerance(0.0).is_ok());
        assert!(params.with_batch_rows(0).is_err());
    }

    #[test]
    fn settings_say_what_the_builder_says() {
        let mut settings = Settings::new(&TABLE, Spelling::Command);
        let defaults = Params::new(8).unwrap();
        assert_eq!(Params::from_settings(&settings), Ok(defaults));
        for (flag, text) in [
            ("k", "5"),
            ("init", "random"),
            ("iterations", "7"),
            ("tolerance", "0"),
            ("algorithm", "lloyd"),
            ("seed", "9"),
            ("skip-bad-rows", "true"),
            ("empty-clusters", "keep"),
        ] {
            settings.set_text(flag, text).unwrap();
        }
        let built = Params::new(5).unwrap().with_start(Start::Random).with_iterations_max(7).unwrap();
        let built = built
            .with_tolerance(0.0)
            .unwrap()
            .with_pruning(false)
            .with_seed(9)
            .with_skip_bad_rows(true)
            .with_empty_clusters(EmptyClusters::Keep);
        assert_eq!(Params::from_settings(&settings), built.with_starts(10));
        settings.set_text("starts", "3").unwrap();
        assert_eq!(Params::from_settings(&settings), built.with_starts(3));
        settings.set_text("init", "centres.npy").unwrap();
        settings.set_text("starts", "auto").unwrap();
        assert_eq!(Params::from_settings(&settings).map(|p| p.starts()), Ok(1));
    }

    #[test]
    fn batches_have_a_table_of_their_own() {
        let mut settings = Settings::new(&MINIBATCH, Spelling::Python);
        settings.set("batch_size", crate::options::Value::Integer(50)).unwrap();
        let params = Params::from_settings(&settings).unwrap();
        assert_eq!((params.batch_rows(), params.iterations_max(), params.tolerance()), (50, 100, 0.0));
    }
}
