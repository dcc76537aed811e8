//! What can be chosen of principal component analysis, and the values that were checked.

use crate::options::{Kind, Opt, OptionError, Preset, Settings, Table, Target};

/// What can be chosen.
pub const TABLE: Table = Table {
    name: "pca",
    class: "PCA",
    about: "Find the directions in which rows vary most, and their coordinates along these",
    detail: "\
Principal component analysis. One round over the rows finds means and covariances, merged without losing digits, and the
master their eigenvectors; so many columns that the covariances would be too many take a few rounds of a randomised method
instead, which never forms them. Signs are scikit-learn's: the largest entry of each component is positive.",
    target: Target::None,
    weighted: false,
    sparse: true,
    dtype: None,
    options: &[
        Opt {
            name: "n_components",
            flag: "components",
            kind: Kind::Real { min: 0.0, max: f64::INFINITY, open: true },
            words: &[("none", "as many as there are rows or columns, whichever is less")],
            default: Preset::Word("none"),
            typed: false,
            help: "How many components to keep, or which share of the variance they are to have",
            detail: "A whole number counts components; a number under 1 is the share of the variance that is to be kept at least.",
        },
        Opt {
            name: "whiten",
            flag: "whiten",
            kind: Kind::Flag,
            words: &[],
            default: Preset::Flag(false),
            typed: false,
            help: "Divide coordinates by their standard deviations",
            detail: "",
        },
        Opt {
            name: "svd_solver",
            flag: "solver",
            kind: Kind::Word,
            words: &[
                ("auto", "`randomized` for few components of more than 2000 columns, else `covariance_eigh`"),
                ("full", "the same as `covariance_eigh`"),
                ("covariance_eigh", "all eigenvectors of the covariances"),
                ("arpack", "the same as `covariance_eigh`"),
                ("randomized", "a few random directions, turned by rounds over the rows into the first components"),
            ],
            default: Preset::Word("auto"),
            typed: false,
            help: "How components are found",
            detail: "",
        },
        Opt {
            name: "iterated_power",
            flag: "power-rounds",
            kind: Kind::Integer { min: 0, max: 10_000 },
            words: &[("auto", "7 for components under a tenth of the smaller side, else 4")],
            default: Preset::Word("auto"),
            typed: false,
            help: "Rounds of the randomised method, besides its first and its last",
            detail: "",
        },
        Opt {
            name: "n_oversamples",
            flag: "oversamples",
            kind: Kind::Integer { min: 1, max: 1 << 20 },
            words: &[],
            default: Preset::Integer(10),
            typed: false,
            help: "Random directions of the randomised method beyond the components that are asked for",
            detail: "",
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
        "fit pca digits.npy --components 10 --out digits.model",
        "fit pca table.csv --components 0.95 --whiten --out table.model",
        "predict digits.model new.npy --out coordinates.npy",
    ],
};

/// How many components are kept.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Components {
    /// As many as there are rows or columns.
    All,
    /// So many.
    Count(u64),
    /// As few as have this share of the variance.
    Share(f64),
}

/// How components are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Solver {
    /// By the shape of the data.
    Auto,
    /// All eigenvectors of the covariances.
    Covariance,
    /// A few directions, turned by rounds.
    Randomized,
}

/// Values of the options. A value that exists is valid.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Params {
    components: Components,
    whiten: bool,
    solver: Solver,
    power_rounds: Option<u64>,
    oversamples: u64,
    seed: u64,
}

impl Params {
    /// Everything as by default, with so many components.
    pub fn new(components: Components) -> Params {
        Params {
            components,
            whiten: false,
            solver: Solver::Auto,
            power_rounds: None,
            oversamples: 10,
            seed: 0,
        }
    }

    /// The same with another solver.
    pub fn with_solver(self, solver: Solver) -> Params {
        Params { solver, ..self }
    }

    /// What settings of [`TABLE`] say. The error has a number of components that is neither whole nor a share.
    pub fn from_settings(settings: &Settings) -> Result<Result<Params, f64>, OptionError> {
        let components = match settings.word("n_components")? {
            Some(_) => Components::All,
            None => match settings.real("n_components")? {
                share if share < 1.0 => Components::Share(share),
                count if count.fract() == 0.0 => Components::Count(count as u64),
                other => return Ok(Err(other)),
            },
        };
        let power_rounds = match settings.word("iterated_power")? {
            Some(_) => None,
            None => Some(settings.integer("iterated_power")?),
        };
        let solver = match settings.word("svd_solver")? {
            Some("randomized") => Solver::Randomized,
            Some("auto") => Solver::Auto,
            _ => Solver::Covariance,
        };
        Ok(Ok(Params {
            components,
            whiten: settings.flag("whiten")?,
            solver,
            power_rounds,
            oversamples: settings.integer("n_oversamples")?,
            seed: settings.integer("random_state")?,
        }))
    }

    /// How many components are kept.
    pub fn components(&self) -> Components {
        self.components
    }

    /// Whether coordinates are divided by their standard deviations.
    pub fn whiten(&self) -> bool {
        self.whiten
    }

    /// How components are found.
    pub fn solver(&self) -> Solver {
        self.solver
    }

    /// Rounds of the randomised method, if that was said.
    pub fn power_rounds(&self) -> Option<u64> {
        self.power_rounds
    }

    /// Directions beyond those asked for.
    pub fn oversamples(&self) -> u64 {
        self.oversamples
    }

    /// How many directions the randomised method keeps at a time, of so many that there are.
    pub(super) fn directions(&self, max: u64) -> usize {
        let asked = match self.components {
            Components::Count(count) => count.saturating_add(self.oversamples),
            Components::All | Components::Share(_) => max,
        };
        asked.min(max) as usize
    }

    /// Seed of the random directions.
    pub fn seed(&self) -> u64 {
        self.seed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Spelling;

    #[test]
    fn numbers_of_components_are_counts_or_shares() {
        let mut settings = Settings::new(&TABLE, Spelling::Python);
        assert_eq!(Params::from_settings(&settings).unwrap(), Ok(Params::new(Components::All)));
        let mut said = |text: &str| {
            settings.set_text("n_components", text).unwrap();
            Params::from_settings(&settings).unwrap().map(|params| params.components())
        };
        assert_eq!(said("3"), Ok(Components::Count(3)));
        assert_eq!(said("0.9"), Ok(Components::Share(0.9)));
        assert_eq!(said("2.5"), Err(2.5));
        assert!(settings.set_text("n_components", "0").is_err());
    }
}
