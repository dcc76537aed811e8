//! What can be chosen of locally weighted regression, and the values that were checked.

use crate::options::{Kind, Opt, OptionError, Preset, Settings, Table, Target};

/// What can be chosen.
pub const TABLE: Table = Table {
    name: "lwr",
    class: "LocallyWeightedRegression",
    about: "Predict by a linear fit of its own for each row, in which near rows count more",
    detail: "\
Locally weighted linear regression. The rows that are learnt from are the model; each row that is asked about gets least squares in
which they count by their distance. One round over the learnt rows serves thousands of rows that are asked about.
Columns should have scales that make distances mean something: `--standardize` sees to that.",
    target: Target::Values,
    weighted: true,
    sparse: false,
    dtype: None,
    options: &[
        Opt {
            name: "bandwidth",
            flag: "bandwidth",
            kind: Kind::Real { min: 0.0, max: f64::INFINITY, open: true },
            words: &[("auto", "the root of the sum of all variances, times the number of rows to the power of -1/(columns + 4)")],
            default: Preset::Word("auto"),
            typed: false,
            help: "How far away rows still count",
            detail: "The standard deviation of the Gaussian kernel; the distance from which on rows do not count with the others.",
        },
        Opt {
            name: "kernel",
            flag: "kernel",
            kind: Kind::Word,
            words: &[
                ("gaussian", "exp(-d²/2h²) at the distance d with the bandwidth h"),
                ("epanechnikov", "1 - d²/h², and 0 beyond h"),
                ("tricube", "(1 - d³/h³)³, and 0 beyond h"),
            ],
            default: Preset::Word("gaussian"),
            typed: false,
            help: "How the weight of a row falls with its distance",
            detail: "With a kernel that ends, rows without any other in reach are predicted as NaN.",
        },
        Opt {
            name: "degree",
            flag: "degree",
            kind: Kind::Integer { min: 0, max: 1 },
            words: &[],
            default: Preset::Integer(1),
            typed: false,
            help: "What is fitted around a row: 0 a mean, 1 a linear function",
            detail: "",
        },
        Opt {
            name: "alpha",
            flag: "alpha",
            kind: Kind::Real { min: 0.0, max: f64::INFINITY, open: false },
            words: &[],
            default: Preset::Real(0.0),
            typed: false,
            help: "Penalty on the squares of the slopes, beside the weighted mean of squared residuals",
            detail: "Without it, slopes are 0 in directions in which the rows in reach do not vary.",
        },
    ],
    examples: &[
        "fit lwr homes.csv --target price --standardize --out homes.model",
        "fit lwr x.npy --labels y.npy --bandwidth 0.5 --kernel tricube --out x.model",
        "predict x.model new.npy --out values.npy",
    ],
};

/// How the bandwidth is found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bandwidth {
    /// By the spread and the number of the rows.
    Auto,
    /// It is given.
    Given(f64),
}

/// How the weight of a row falls with its distance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernel {
    /// A normal density.
    Gaussian,
    /// A parabola.
    Epanechnikov,
    /// Cleveland's.
    Tricube,
}

impl Kernel {
    /// All of them.
    pub const ALL: [Kernel; 3] = [Kernel::Gaussian, Kernel::Epanechnikov, Kernel::Tricube];

    /// Its word.
    pub fn word(self) -> &'static str {
        match self {
            Kernel::Gaussian => "gaussian",
            Kernel::Epanechnikov => "epanechnikov",
            Kernel::Tricube => "tricube",
        }
    }

    /// The kernel of this word.
    pub fn named(word: &str) -> Option<Kernel> {
        Kernel::ALL.into_iter().find(|kernel| kernel.word() == word)
    }
}

/// Values of the options. A value that exists is valid.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Params {
    bandwidth: Bandwidth,
    pub(super) kernel: Kernel,
    pub(super) slopes: bool,
    pub(super) alpha: f64,
}

impl Params {
    /// Everything as by default, with this bandwidth, which must be over 0.
    pub fn new(bandwidth: f64) -> Params {
        assert!(bandwidth > 0.0, "a bandwidth of {bandwidth}");
        Params { bandwidth: Bandwidth::Given(bandwidth), kernel: Kernel::Gaussian, slopes: true, alpha: 0.0 }
    }

    /// The same with another kernel.
    pub fn with_kernel(self, kernel: Kernel) -> Params {
        Params { kernel, ..self }
    }

    /// The same with linear functions or means.
    pub fn with_slopes(self, slopes: bool) -> Params {
        Params { slopes, ..self }
    }

    /// The same with this penalty, which must not be negative.
    pub fn with_alpha(self, alpha: f64) -> Params {
        assert!(alpha >= 0.0, "a penalty of {alpha}");
        Params { alpha, ..self }
    }

    /// What settings of [`TABLE`] say.
    pub fn from_settings(settings: &Settings) -> Result<Params, OptionError> {
        let bandwidth = match settings.word("bandwidth")? {
            Some(_) => Bandwidth::Auto,
            None => Bandwidth::Given(settings.real("bandwidth")?),
        };
        Ok(Params {
            bandwidth,
            kernel: settings.word("kernel")?.and_then(Kernel::named).unwrap_or(Kernel::Gaussian),
            slopes: settings.integer("degree")? == 1,
            alpha: settings.real("alpha")?,
        })
    }

    /// How the bandwidth is found.
    pub fn bandwidth(&self) -> Bandwidth {
        self.bandwidth
    }
}
