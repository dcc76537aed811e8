//! What can be chosen of Gaussian naive Bayes, and the values that were checked.

use crate::options::{Kind, Opt, OptionError, Preset, Settings, Table, Target};

/// What can be chosen.
pub const TABLE: Table = Table {
    name: "gaussian-nb",
    class: "GaussianNB",
    about: "Tell classes apart by the mean and variance of each column in each class",
    detail: "\
Gaussian naive Bayes: in each class every column has a normal distribution of its own. One round over the data finds the
moments of all classes; they are merged by Chan's formulas, which lose no digits where means are large beside deviations.",
    target: Target::Classes,
    weighted: true,
    sparse: false,
    dtype: None,
    options: &[
        Opt {
            name: "priors",
            flag: "priors",
            kind: Kind::File,
            words: &[("none", "the share of each class among the weights of all rows")],
            default: Preset::Word("none"),
            typed: false,
            help: "Probabilities of the classes before a row is seen",
            detail: "A file (`.npy`; in Python an array) has a number for each class, in the order of the classes. They add up to 1.",
        },
        Opt {
            name: "var_smoothing",
            flag: "var-smoothing",
            kind: Kind::Real { min: 0.0, max: f64::INFINITY, open: false },
            words: &[],
            default: Preset::Real(1e-9),
            typed: false,
            help: "Share of the largest variance of a column that is added to all variances",
            detail: "Keeps columns that are constant in a class from dividing by zero.",
        },
    ],
    examples: &[
        "fit gaussian-nb digits.npy --labels classes.npy --out digits.model",
        "fit gaussian-nb flowers.csv --target kind --out flowers.model",
        "predict digits.model new.npy --probabilities --out probabilities.csv",
    ],
};

/// Values of the options. A value that exists is valid.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Params {
    var_smoothing: f64,
}

impl Params {
    /// What settings of [`TABLE`] say. Priors are handed over by the caller.
    pub fn from_settings(settings: &Settings) -> Result<Params, OptionError> {
        Ok(Params { var_smoothing: settings.real("var_smoothing")? })
    }

    /// Share of the largest variance that is added to all variances.
    pub fn var_smoothing(&self) -> f64 {
        self.var_smoothing
    }
}

impl Default for Params {
    fn default() -> Params {
        Params { var_smoothing: 1e-9 }
    }
}
