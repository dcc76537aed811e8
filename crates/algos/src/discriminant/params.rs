//! What can be chosen of discriminant analyses, and the values that were checked.

use crate::options::{Kind as Value, Opt, OptionError, Preset, Settings, Table, Target};

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// All classes have the same covariances.
    Linear,
    /// Every class has covariances of its own.
    Quadratic,
}

impl Kind {
    /// What can be chosen.
    pub fn table(self) -> &'static Table {
        match self {
            Kind::Linear => &LINEAR,
            Kind::Quadratic => &QUADRATIC,
        }
    }

    /// What the command calls it, and its model files.
    pub fn name(self) -> &'static str {
        self.table().name
    }
}

const SHRINKAGE: Opt = Opt {
    name: "shrinkage",
    flag: "shrinkage",
    kind: Value::Real { min: 0.0, max: 1.0, open: false },
    words: &[
        ("none", "none at all"),
        ("auto", "as much as the lemma of Ledoit and Wolf says, in one more round"),
    ],
    default: Preset::Word("none"),
    typed: false,
    help: "How far covariances are drawn towards equal variances without correlation",
    detail: "Not for the solver `svd`.",
};
const PRIORS: Opt = Opt {
    name: "priors",
    flag: "priors",
    kind: Value::File,
    words: &[("none", "the share of each class among the rows")],
    default: Preset::Word("none"),
    typed: false,
    help: "Probabilities of the classes before a row is seen",
    detail: "A file (`.npy`; in Python an array) has a number for each class, in the order of the classes. They add up to 1.",
};
const STORE_COVARIANCE: Opt = Opt {
    name: "store_covariance",
    flag: "store-covariance",
    kind: Value::Flag,
    words: &[],
    default: Preset::Flag(false),
    typed: false,
    help: "Keep the covariances in the model",
    detail: "",
};
const TOL: Opt = Opt {
    name: "tol",
    flag: "tol",
    kind: Value::Real { min: 0.0, max: f64::INFINITY, open: false },
    words: &[],
    default: Preset::Real(1e-4),
    typed: false,
    help: "Directions with less spread than this do not count",
    detail: "",
};

const LINEAR: Table = Table {
    name: "lda",
    class: "LinearDiscriminantAnalysis",
    about: "Tell classes apart that are normal with the same covariances, and find the directions that do so best",
    detail: "\
Linear discriminant analysis. One round finds means and covariances of all classes, merged without losing digits; the
master solves for the rule and for the directions in which classes lie furthest apart.",
    target: Target::Classes,
    weighted: false,
    sparse: false,
    dtype: None,
    options: &[
        Opt {
            name: "solver",
            flag: "solver",
            kind: Value::Word,
            words: &[
                ("svd", "directions without spread are left out; no shrinkage"),
                ("lsqr", "least squares: a rule, and no directions"),
                ("eigen", "a rule and directions; covariances must not be singular"),
            ],
            default: Preset::Word("svd"),
            typed: false,
            help: "How the rule is found",
            detail: "",
        },
        SHRINKAGE,
        PRIORS,
        Opt {
            name: "n_components",
            flag: "components",
            kind: Value::Integer { min: 1, max: 1 << 32 },
            words: &[("none", "as many as there are: one fewer than classes, or as many as columns")],
            default: Preset::Word("none"),
            typed: false,
            help: "How many directions to keep",
            detail: "",
        },
        STORE_COVARIANCE,
        TOL,
    ],
    examples: &[
        "fit lda flowers.csv --target kind --out flowers.model",
        "fit lda digits.npy --labels classes.npy --solver eigen --shrinkage auto --out digits.model",
        "predict flowers.model new.csv --transform --out directions.csv",
    ],
};

const QUADRATIC: Table = Table {
    name: "qda",
    class: "QuadraticDiscriminantAnalysis",
    about: "Tell classes apart that are normal, each with covariances of its own",
    detail: "\
Quadratic discriminant analysis. One round finds means and covariances of all classes, merged without losing digits. Every
class needs more rows than there are columns, or regularisation.",
    target: Target::Classes,
    weighted: false,
    sparse: false,
    dtype: None,
    options: &[
        Opt {
            name: "solver",
            flag: "solver",
            kind: Value::Word,
            words: &[("svd", "regularised by `reg_param`; no shrinkage"), ("eigen", "regularised by `shrinkage`")],
            default: Preset::Word("svd"),
            typed: false,
            help: "How covariances are regularised",
            detail: "",
        },
        SHRINKAGE,
        PRIORS,
        Opt {
            name: "reg_param",
            flag: "regularization",
            kind: Value::Real { min: 0.0, max: 1.0, open: false },
            words: &[],
            default: Preset::Real(0.0),
            typed: false,
            help: "How far variances along the axes of a class are drawn towards 1",
            detail: "",
        },
        STORE_COVARIANCE,
        TOL,
    ],
    examples: &[
        "fit qda flowers.csv --target kind --out flowers.model",
        "fit qda digits.npy --labels classes.npy --regularization 0.1 --out digits.model",
        "predict flowers.model new.csv --probabilities --out probabilities.csv",
    ],
};

/// How the rule is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Solver {
    /// Directions without spread are left out.
    Svd,
    /// Least squares.
    Lsqr,
    /// Eigenvectors of the covariances.
    Eigen,
}

/// How far covariances are drawn towards a multiple of the unit matrix.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shrinkage {
    /// Not at all.
    None,
    /// By the lemma of Ledoit and Wolf.
    Auto,
    /// So far, from 0 to 1.
    By(f64),
}

/// Values of the options. A value that exists is valid; what the kind has no option for keeps its default.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Params {
    pub(super) kind: Kind,
    pub(super) solver: Solver,
    pub(super) shrinkage: Shrinkage,
    pub(super) components: Option<u64>,
    pub(super) reg_param: f64,
    pub(super) store_covariance: bool,
    pub(super) tol: f64,
}

impl Params {
    /// The defaults of a kind.
    pub fn new(kind: Kind) -> Params {
        Params {
            kind,
            solver: Solver::Svd,
            shrinkage: Shrinkage::None,
            components: None,
            reg_param: 0.0,
            store_covariance: false,
            tol: 1e-4,
        }
    }

    /// What settings of a kind's table say. Priors are handed over by the caller.
    pub fn from_settings(kind: Kind, settings: &Settings) -> Result<Params, OptionError> {
        let solver = match settings.word("solver")? {
            Some("lsqr") => Solver::Lsqr,
            Some("eigen") => Solver::Eigen,
            _ => Solver::Svd,
        };
        let shrinkage = match settings.word("shrinkage")? {
            Some("auto") => Shrinkage::Auto,
            Some(_) => Shrinkage::None,
            None => Shrinkage::By(settings.real("shrinkage")?),
        };
        let mut params = Params {
            solver,
            shrinkage,
            store_covariance: settings.flag("store_covariance")?,
            tol: settings.real("tol")?,
            ..Params::new(kind)
        };
        match kind {
            Kind::Quadratic => params.reg_param = settings.real("reg_param")?,
            Kind::Linear => {
                if settings.word("n_components")?.is_none() {
                    params.components = Some(settings.integer("n_components")?);
                }
            }
        }
        Ok(params)
    }

    /// Whether shrinkage is asked of the solver that has none.
    pub fn is_contradictory(&self) -> bool {
        self.solver == Solver::Svd && self.shrinkage != Shrinkage::None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Spelling;

    #[test]
    fn defaults_of_the_tables_and_of_the_params_agree() {
        for kind in [Kind::Linear, Kind::Quadratic] {
            let mut settings = Settings::new(kind.table(), Spelling::Python);
            assert_eq!(Params::from_settings(kind, &settings).unwrap(), Params::new(kind));
            settings.set_text("shrinkage", "0.5").unwrap();
            let params = Params::from_settings(kind, &settings).unwrap();
            assert!(params.shrinkage == Shrinkage::By(0.5) && params.is_contradictory());
        }
    }
}
