//! What can be chosen of a Gaussian mixture, and the values that were checked.

use crate::options::{Kind as Value, Opt, OptionError, Preset, Settings, Table, Target};

const NONE: &[(&str, &str)] = &[("none", "what the start finds")];

/// What can be chosen.
pub const TABLE: Table = Table {
    name: "gaussian-mixture",
    class: "GaussianMixture",
    about: "Find groups of rows that are normal, each with a weight, a mean and covariances",
    detail: "\
A mixture of normal densities, by expectation and maximisation. A round tells the chunks the components, and sums weights,
means and covariances of all rows by how likely each component is to have made them; the master makes the next components of
these sums. It ends when the mean log-likelihood of the rows gains less than `tol` in a round.",
    target: Target::None,
    weighted: false,
    sparse: false,
    dtype: None,
    options: &[
        Opt {
            name: "n_components",
            flag: "components",
            kind: Value::Integer { min: 1, max: 1 << 20 },
            words: &[],
            default: Preset::Integer(1),
            typed: true,
            help: "How many components",
            detail: "",
        },
        Opt {
            name: "covariance_type",
            flag: "covariance",
            kind: Value::Word,
            words: &[
                ("full", "every component has covariances of its own"),
                ("tied", "all have the same covariances"),
                ("diag", "every component has a variance for each column"),
                ("spherical", "every component has one variance"),
            ],
            default: Preset::Word("full"),
            typed: false,
            help: "What covariances components have",
            detail: "",
        },
        Opt {
            name: "tol",
            flag: "tolerance",
            kind: Value::Real { min: 0.0, max: f64::INFINITY, open: false },
            words: &[],
            default: Preset::Real(1e-3),
            typed: false,
            help: "Stop when the mean log-likelihood of the rows changes by less",
            detail: "",
        },
        Opt {
            name: "reg_covar",
            flag: "regularization",
            kind: Value::Real { min: 0.0, max: f64::INFINITY, open: false },
            words: &[],
            default: Preset::Real(1e-6),
            typed: false,
            help: "What is added to all variances, so that none is 0",
            detail: "",
        },
        Opt {
            name: "max_iter",
            flag: "iterations",
            kind: Value::Integer { min: 0, max: 1 << 32 },
            words: &[],
            default: Preset::Integer(100),
            typed: false,
            help: "Most rounds of a start",
            detail: "",
        },
        Opt {
            name: "n_init",
            flag: "starts",
            kind: Value::Integer { min: 1, max: 1 << 20 },
            words: &[],
            default: Preset::Integer(1),
            typed: false,
            help: "How often to begin anew; the mixture of highest likelihood is kept",
            detail: "",
        },
        Opt {
            name: "init_params",
            flag: "init",
            kind: Value::Word,
            words: &[
                ("kmeans", "the clusters that k-means finds"),
                ("k-means++", "rows that lie apart, with no variance but `reg_covar`"),
                ("random", "every row belongs to the components by random shares"),
                ("random_from_data", "random rows, with no variance but `reg_covar`"),
            ],
            default: Preset::Word("kmeans"),
            typed: false,
            help: "How the first components are found",
            detail: "",
        },
        Opt {
            name: "weights_init",
            flag: "start-weights",
            kind: Value::File,
            words: NONE,
            default: Preset::Word("none"),
            typed: false,
            help: "Weights to begin from, one for each component",
            detail: "A file (`.npy`; in Python an array).",
        },
        Opt {
            name: "means_init",
            flag: "start-means",
            kind: Value::File,
            words: NONE,
            default: Preset::Word("none"),
            typed: false,
            help: "Means to begin from, a row for each component",
            detail: "A file (`.npy`; in Python an array).",
        },
        Opt {
            name: "precisions_init",
            flag: "start-precisions",
            kind: Value::File,
            words: NONE,
            default: Preset::Word("none"),
            typed: false,
            help: "Inverse covariances to begin from",
            detail: "A file (`.npy`; in Python an array) of as many numbers as the covariances have: for `full` a square matrix for each component.",
        },
        Opt {
            name: "random_state",
            flag: "seed",
            kind: Value::Seed,
            words: &[],
            default: Preset::Integer(0),
            typed: false,
            help: "Seed of the starts",
            detail: "",
        },
    ],
    examples: &[
        "fit gaussian-mixture digits.npy --components 10 --out digits.model",
        "fit gaussian-mixture table.csv --components 4 --covariance diag --starts 5 --out table.model",
        "predict table.model new.csv --probabilities --out shares.csv",
    ],
};

/// What covariances components have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, qjam::Wire)]
pub enum Covariance {
    /// Every component has its own.
    Full,
    /// All have the same.
    Tied,
    /// Every component has a variance for each column.
    Diag,
    /// Every component has one variance.
    Spherical,
}

impl Covariance {
    const ALL: [Covariance; 4] =
        [Covariance::Full, Covariance::Tied, Covariance::Diag, Covariance::Spherical];

    /// Its word.
    pub fn name(self) -> &'static str {
        match self {
            Covariance::Full => "full",
            Covariance::Tied => "tied",
            Covariance::Diag => "diag",
            Covariance::Spherical => "spherical",
        }
    }

    /// The one of this word.
    pub fn named(name: &str) -> Option<Covariance> {
        Covariance::ALL.into_iter().find(|covariance| covariance.name() == name)
    }

    /// The dimensions of the covariances of so many components.
    pub fn shape(self, components: usize, columns: usize) -> Vec<usize> {
        match self {
            Covariance::Full => vec![components, columns, columns],
            Covariance::Tied => vec![columns, columns],
            Covariance::Diag => vec![components, columns],
            Covariance::Spherical => vec![components],
        }
    }

    /// Numbers that a fit chooses freely.
    pub fn freedom(self, components: u64, columns: u64) -> u64 {
        let half = columns * (columns + 1) / 2;
        let covariances = match self {
            Covariance::Full => components * half,
            Covariance::Tied => half,
            Covariance::Diag => components * columns,
            Covariance::Spherical => components,
        };
        covariances + components * columns + components - 1
    }
}

/// How the first components are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Init {
    /// The clusters of k-means.
    KMeans,
    /// Rows drawn by k-means++.
    PlusPlus,
    /// Random shares of every row.
    Random,
    /// Random rows.
    RandomFromData,
}

/// Values of the options. A value that exists is valid.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Params {
    pub(super) components: usize,
    pub(super) covariance: Covariance,
    pub(super) tol: f64,
    pub(super) reg_covar: f64,
    pub(super) max_iter: u64,
    pub(super) starts: u64,
    pub(super) init: Init,
    pub(super) seed: u64,
    pub(super) prunes: bool,
}

impl Params {
    /// Everything as by default, with so many components.
    ///
    /// Panics for none at all.
    pub fn new(components: usize, covariance: Covariance) -> Params {
        assert!(components > 0, "a mixture has a component");
        Params {
            components,
            covariance,
            tol: 1e-3,
            reg_covar: 1e-6,
            max_iter: 100,
            starts: 1,
            init: Init::KMeans,
            seed: 0,
            prunes: true,
        }
    }

    /// The same with another way to begin.
    pub fn with_init(self, init: Init) -> Params {
        Params { init, ..self }
    }

    /// Whether the k-means of the start keeps bounds for its rows. Decides about time and memory, and about no bit.
    pub fn with_pruning(self, prunes: bool) -> Params {
        Params { prunes, ..self }
    }

    /// What settings of [`TABLE`] say. Arrays to begin from are handed over by the caller.
    pub fn from_settings(settings: &Settings) -> Result<Params, OptionError> {
        let covariance = settings.word("covariance_type")?.and_then(Covariance::named);
        let init = match settings.word("init_params")? {
            Some("k-means++") => Init::PlusPlus,
            Some("random") => Init::Random,
            Some("random_from_data") => Init::RandomFromData,
            _ => Init::KMeans,
        };
        Ok(Params {
            components: settings.count("n_components")?,
            covariance: covariance.unwrap_or(Covariance::Full),
            tol: settings.real("tol")?,
            reg_covar: settings.real("reg_covar")?,
            max_iter: settings.integer("max_iter")?,
            starts: settings.integer("n_init")?,
            init,
            seed: settings.integer("random_state")?,
            prunes: true,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Spelling;

    #[test]
    fn defaults_of_the_table_and_of_the_params_agree() {
        let mut settings = Settings::new(&TABLE, Spelling::Python);
        assert_eq!(Params::from_settings(&settings), Ok(Params::new(1, Covariance::Full)));
        settings.set_text("covariance_type", "tied").unwrap();
        settings.set_text("init_params", "random").unwrap();
        let expected = Params::new(1, Covariance::Tied).with_init(Init::Random);
        assert_eq!(Params::from_settings(&settings), Ok(expected));
        assert!(settings.set_text("covariance_type", "round").is_err());
    }

    #[test]
    fn numbers_that_are_chosen_freely_are_counted() {
        let freedom = |covariance: Covariance| covariance.freedom(3, 4);
        assert_eq!(Covariance::ALL.map(freedom), [44, 24, 26, 17]);
    }
}
