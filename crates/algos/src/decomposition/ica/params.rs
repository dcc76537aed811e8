//! What can be chosen of independent component analysis, and the values that were checked.

use crate::options::{Kind, Opt, OptionError, Preset, Settings, Table, Target};

/// What can be chosen.
pub const TABLE: Table = Table {
    name: "ica",
    class: "FastICA",
    about: "Find the directions along which rows are least normal: independent sources that were mixed",
    detail: "\
Independent component analysis by a fixed point. One round finds means and covariances, and the master makes of these what gives
all directions the same variance; each further round turns the components by sums over all rows, until they stay where they are.",
    target: Target::None,
    weighted: false,
    sparse: false,
    dtype: None,
    options: &[
        Opt {
            name: "n_components",
            flag: "components",
            kind: Kind::Integer { min: 1, max: 1 << 32 },
            words: &[("none", "as many as there are directions with variance")],
            default: Preset::Word("none"),
            typed: false,
            help: "How many components",
            detail: "",
        },
        Opt {
            name: "algorithm",
            flag: "algorithm",
            kind: Kind::Word,
            words: &[("parallel", "all components in every round"), ("deflation", "one component after the other")],
            default: Preset::Word("parallel"),
            typed: false,
            help: "Whether components are found together",
            detail: "",
        },
        Opt {
            name: "whiten",
            flag: "whiten",
            kind: Kind::Word,
            words: &[
                ("unit-variance", "sources have variance 1"),
                ("arbitrary-variance", "sources have the sum of squares 1 over all rows"),
                ("none", "rows are white already, and nothing is taken off them"),
            ],
            default: Preset::Word("unit-variance"),
            typed: false,
            help: "What is made of rows beforehand",
            detail: "",
        },
        Opt {
            name: "fun",
            flag: "contrast",
            kind: Kind::Word,
            words: &[
                ("logcosh", "tanh, for most purposes"),
                ("exp", "for sources with many large values"),
                ("cube", "kurtosis; sensitive to outliers"),
            ],
            default: Preset::Word("logcosh"),
            typed: false,
            help: "What measures how far from normal a direction is",
            detail: "",
        },
        Opt {
            name: "fun_args",
            flag: "alpha",
            kind: Kind::Real { min: 1.0, max: 2.0, open: false },
            words: &[("none", "1")],
            default: Preset::Word("none"),
            typed: false,
            help: "Steepness of the contrast `logcosh`",
            detail: "In Python a dictionary with `alpha`.",
        },
        Opt {
            name: "max_iter",
            flag: "iterations",
            kind: Kind::Integer { min: 1, max: 1 << 32 },
            words: &[],
            default: Preset::Integer(200),
            typed: false,
            help: "Most rounds; by deflation, of each component",
            detail: "",
        },
        Opt {
            name: "tol",
            flag: "tolerance",
            kind: Kind::Real { min: 0.0, max: f64::INFINITY, open: true },
            words: &[],
            default: Preset::Real(1e-4),
            typed: false,
            help: "Stop when no component turns further, as one less the cosine of the angle",
            detail: "",
        },
        Opt {
            name: "w_init",
            flag: "start",
            kind: Kind::File,
            words: &[("none", "random directions")],
            default: Preset::Word("none"),
            typed: false,
            help: "Directions to begin from, among white rows",
            detail: "A file (`.npy`; in Python an array) with as many rows and columns as components.",
        },
        Opt {
            name: "random_state",
            flag: "seed",
            kind: Kind::Seed,
            words: &[],
            default: Preset::Integer(0),
            typed: false,
            help: "Seed of the random directions",
            detail: "",
        },
    ],
    examples: &[
        "fit ica signals.npy --components 4 --out signals.model",
        "predict signals.model signals.npy --out sources.npy",
    ],
};

/// What is made of rows beforehand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whiten {
    /// Sources have variance 1.
    UnitVariance,
    /// Sources have the sum of squares 1.
    ArbitraryVariance,
    /// Nothing.
    Never,
}

/// What measures how far from normal a direction is.
#[derive(Clone, Copy, Debug, PartialEq, qjam::Wire)]
pub enum Contrast {
    /// `tanh(αy)`.
    LogCosh(f64),
    /// `y e^(−y²/2)`.
    Exp,
    /// `y³`.
    Cube,
}

/// Values of the options. A value that exists is valid.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Params {
    pub(super) components: Option<usize>,
    pub(super) deflates: bool,
    pub(super) whiten: Whiten,
    pub(super) contrast: Contrast,
    pub(super) max_iter: u64,
    pub(super) tol: f64,
    pub(super) seed: u64,
}

impl Params {
    /// Everything as by default, with so many components; `None` for as many as there are directions with variance.
    pub fn new(components: Option<usize>) -> Params {
        let (whiten, contrast) = (Whiten::UnitVariance, Contrast::LogCosh(1.0));
        Params { components, deflates: false, whiten, contrast, max_iter: 200, tol: 1e-4, seed: 0 }
    }

    /// The same with another contrast.
    pub fn with_contrast(self, contrast: Contrast) -> Params {
        Params { contrast, ..self }
    }

    /// What settings of [`TABLE`] say. Directions to begin from are handed over by the caller.
    pub fn from_settings(settings: &Settings) -> Result<Params, OptionError> {
        let components = match settings.word("n_components")? {
            Some(_) => None,
            None => Some(settings.count("n_components")?),
        };
        let whiten = match settings.word("whiten")? {
            Some("arbitrary-variance") => Whiten::ArbitraryVariance,
            Some("none") => Whiten::Never,
            _ => Whiten::UnitVariance,
        };
        let contrast = match settings.word("fun")? {
            Some("exp") => Contrast::Exp,
            Some("cube") => Contrast::Cube,
            _ if settings.word("fun_args")?.is_some() => Contrast::LogCosh(1.0),
            _ => Contrast::LogCosh(settings.real("fun_args")?),
        };
        Ok(Params {
            components,
            deflates: settings.word("algorithm")? == Some("deflation"),
            whiten,
            contrast,
            max_iter: settings.integer("max_iter")?,
            tol: settings.real("tol")?,
            seed: settings.integer("random_state")?,
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
        assert_eq!(Params::from_settings(&settings), Ok(Params::new(None)));
        settings.set_text("fun", "cube").unwrap();
        settings.set_text("n_components", "3").unwrap();
        let expected = Params::new(Some(3)).with_contrast(Contrast::Cube);
        assert_eq!(Params::from_settings(&settings), Ok(expected));
    }
}
