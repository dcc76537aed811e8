//! What can be chosen of multi-layer perceptrons, and the values that were checked.

use super::network::Activation;
use crate::options::{Kind as Value, Opt, OptionError, Preset, Settings, Table, Target};
use thiserror::Error;

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Tells classes apart.
    Classifier,
    /// Predicts numbers.
    Regressor,
}

impl Kind {
    /// What can be chosen.
    pub fn table(self) -> &'static Table {
        match self {
            Kind::Classifier => &CLASSIFIER,
            Kind::Regressor => &REGRESSOR,
        }
    }

    /// What the command calls it, and its model files.
    pub fn name(self) -> &'static str {
        self.table().name
    }
}

const fn real(name: &'static str, flag: &'static str, max: f64, default: f64, help: &'static str) -> Opt {
    let kind = Value::Real { min: 0.0, max, open: false };
    Opt { name, flag, kind, words: &[], default: Preset::Real(default), typed: false, help, detail: "" }
}

const fn positive(name: &'static str, flag: &'static str, default: f64, help: &'static str) -> Opt {
    let kind = Value::Real { min: 0.0, max: f64::INFINITY, open: true };
    Opt { name, flag, kind, words: &[], default: Preset::Real(default), typed: false, help, detail: "" }
}

const fn whole(name: &'static str, flag: &'static str, default: u64, help: &'static str) -> Opt {
    let kind = Value::Integer { min: 1, max: 1_000_000_000 };
    Opt { name, flag, kind, words: &[], default: Preset::Integer(default), typed: false, help, detail: "" }
}

const fn flag(name: &'static str, flag: &'static str, default: bool, help: &'static str) -> Opt {
    let (kind, default) = (Value::Flag, Preset::Flag(default));
    Opt { name, flag, kind, words: &[], default, typed: false, help, detail: "" }
}

const LAYERS: Opt = Opt {
    name: "hidden_layer_sizes",
    flag: "hidden",
    kind: Value::Integers { min: 1, max: 1 << 20 },
    words: &[],
    default: Preset::Word("100"),
    typed: false,
    help: "Units of each hidden layer, from the rows to the answer",
    detail: "`--hidden 100,50` is a layer of 100 units and then one of 50. None at all (`--hidden \"\"`, in Python `()`) leaves a linear model.",
};
const ACTIVATION: Opt = Opt {
    name: "activation",
    flag: "activation",
    kind: Value::Word,
    words: &[
        ("relu", "the sum, or 0 where that is larger"),
        ("tanh", "the hyperbolic tangent"),
        ("logistic", "1 / (1 + exp(-x))"),
        ("identity", "the sum itself"),
    ],
    default: Preset::Word("relu"),
    typed: false,
    help: "What hidden units make of the sum of their weighted inputs",
    detail: "",
};
const SOLVER: Opt = Opt {
    name: "solver",
    flag: "solver",
    kind: Value::Word,
    words: &[
        ("adam", "steps over a few rows each, with a length for each weight that follows its gradients"),
        ("sgd", "steps over a few rows each, along the gradient, with momentum"),
        ("lbfgs", "quasi-Newton steps over all rows: for small data, and where a minimum is wanted"),
    ],
    default: Preset::Word("adam"),
    typed: false,
    help: "How the weights are found",
    detail: "",
};
const BATCH: Opt = Opt {
    name: "batch_size",
    flag: "batch",
    kind: Value::Integer { min: 1, max: 1 << 30 },
    words: &[("auto", "200, or all rows if there are fewer")],
    default: Preset::Word("auto"),
    typed: false,
    help: "Rows of a step",
    detail: "Not for `lbfgs`. A step is one round; a few rows more or less are taken so that all steps of an epoch are alike.",
};
const RATE: Opt = Opt {
    name: "learning_rate",
    flag: "learning-rate",
    kind: Value::Word,
    words: &[
        ("constant", "the first one to the end"),
        ("invscaling", "the first one over a power (`power_t`) of the rows seen"),
        ("adaptive", "a fifth of what it was whenever epochs stop to improve the loss"),
    ],
    default: Preset::Word("constant"),
    typed: false,
    help: "How the length of steps changes",
    detail: "Only for `sgd`.",
};
const SEED: Opt = Opt {
    name: "random_state",
    flag: "seed",
    kind: Value::Seed,
    words: &[],
    default: Preset::Integer(0),
    typed: false,
    help: "Seed of the first weights and of the order of rows",
    detail: "",
};
const KEPT: Opt = Opt {
    name: "validation_fraction",
    flag: "validation-fraction",
    kind: Value::Real { min: 0.0, max: 1.0, open: true },
    words: &[],
    default: Preset::Real(0.1),
    typed: false,
    help: "Share of the rows that are kept from training to judge epochs by",
    detail: "Only with `early_stopping`. They are drawn in every part of the data alike, and not by class.",
};
const LOSS: Opt = Opt {
    name: "loss",
    flag: "loss",
    kind: Value::Word,
    words: &[
        ("squared_error", "half of the squared error"),
        ("poisson", "half of the Poisson deviance: for counts; the network gives logarithms"),
    ],
    default: Preset::Word("squared_error"),
    typed: false,
    help: "What an error costs",
    detail: "",
};

const ALPHA: Opt = real(
    "alpha",
    "alpha",
    f64::INFINITY,
    1e-4,
    "Weight of the penalty: half of it times the squared weights",
);
const RATE_INIT: Opt =
    positive("learning_rate_init", "learning-rate-init", 1e-3, "Length of the first steps");
const POWER: Opt = real("power_t", "power-t", f64::INFINITY, 0.5, "The power of `invscaling`");
const ITERATIONS: Opt = whole("max_iter", "max-iter", 200, "Most epochs; of `lbfgs`, most steps");
const SHUFFLE: Opt =
    flag("shuffle", "shuffle", true, "Draw the rows of steps by chance, anew in every epoch");
const TOL: Opt = real(
    "tol",
    "tol",
    f64::INFINITY,
    1e-4,
    "By how much an epoch must improve the loss or the score; of `lbfgs`, the largest element of the gradient at the end",
);
const MOMENTUM: Opt =
    real("momentum", "momentum", 1.0, 0.9, "Share of a step of `sgd` that goes into the next");
const NESTEROV: Opt = flag("nesterovs_momentum", "nesterov", true, "Have momentum look a step ahead");
const EARLY: Opt = flag(
    "early_stopping",
    "early-stopping",
    false,
    "Keep some rows from training, and stop when the score for them no longer improves",
);
const BETA_1: Opt =
    real("beta_1", "beta-1", 1.0, 0.9, "Share that the mean of gradients keeps in a step of `adam`");
const BETA_2: Opt = real("beta_2", "beta-2", 1.0, 0.999, "The same for the mean of squared gradients");
const EPSILON: Opt = positive("epsilon", "epsilon", 1e-8, "What `adam` adds to what it divides by");
const PATIENCE: Opt = whole("n_iter_no_change", "patience", 10, "Epochs without improvement that are borne");
const EVALUATIONS: Opt = whole("max_fun", "evaluations", 15_000, "Most evaluations of the loss, of `lbfgs`");

const DETAIL: &str = "\
A network of fully connected layers, trained by gradients: on a few rows at a time (`adam`, `sgd`), where each step is one round over
shares of a few chunks, or on all rows (`lbfgs`), where each evaluation of the loss is one round. Columns should have similar sizes: scale
them first. A loss that is not finite any more ends the training and is told.";

const CLASSIFIER: Table = Table {
    name: "mlp-classifier",
    class: "MLPClassifier",
    about: "Tell classes apart by a neural network of a few layers",
    detail: DETAIL,
    target: Target::Classes,
    weighted: true,
    sparse: true,
    dtype: None,
    options: &[
        LAYERS,
        ACTIVATION,
        SOLVER,
        ALPHA,
        BATCH,
        RATE,
        RATE_INIT,
        POWER,
        ITERATIONS,
        SHUFFLE,
        SEED,
        TOL,
        MOMENTUM,
        NESTEROV,
        EARLY,
        KEPT,
        BETA_1,
        BETA_2,
        EPSILON,
        PATIENCE,
        EVALUATIONS,
    ],
    examples: &[
        "fit mlp-classifier digits.npy --labels classes.npy --hidden 100,50 --out digits.model",
        "fit mlp-classifier flowers.csv --target kind --solver lbfgs --out flowers.model",
        "predict digits.model new.npy --probabilities --out probabilities.csv",
    ],
};

const REGRESSOR: Table = Table {
    name: "mlp-regressor",
    class: "MLPRegressor",
    about: "Predict numbers by a neural network of a few layers",
    detail: DETAIL,
    target: Target::Values,
    weighted: true,
    sparse: true,
    dtype: None,
    options: &[
        LOSS,
        LAYERS,
        ACTIVATION,
        SOLVER,
        ALPHA,
        BATCH,
        RATE,
        RATE_INIT,
        POWER,
        ITERATIONS,
        SHUFFLE,
        SEED,
        TOL,
        MOMENTUM,
        NESTEROV,
        EARLY,
        KEPT,
        BETA_1,
        BETA_2,
        EPSILON,
        PATIENCE,
        EVALUATIONS,
    ],
    examples: &[
        "fit mlp-regressor houses.csv --target price --hidden 64,64 --out houses.model",
        "predict houses.model new.csv --out prices.csv",
    ],
};

/// What is wrong with values of the options.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum ParamsError {
    /// A value that the table does not allow.
    #[error(transparent)]
    Option(#[from] OptionError),
    /// A mean that keeps all of what it was never learns anything.
    #[error("{option} is 1; give a number from 0 to below 1")]
    Beta {
        /// What the user calls the option.
        option: String,
    },
}

/// Which steps are taken.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Solver {
    /// Adam: shares of both means, and what is added.
    Adam {
        /// Share that the mean of gradients keeps.
        beta_1: f64,
        /// Share that the mean of squares keeps.
        beta_2: f64,
        /// What is added to roots.
        epsilon: f64,
    },
    /// SGD.
    Sgd {
        /// Share of a step that goes into the next.
        momentum: f64,
        /// Whether it looks ahead.
        nesterov: bool,
        /// How the rate changes.
        rate: Rate,
    },
    /// Quasi-Newton steps on all rows, with so many evaluations at most.
    Lbfgs {
        /// Most evaluations.
        evaluations_max: usize,
    },
}

/// How the length of steps of SGD changes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rate {
    /// Not at all.
    Constant,
    /// The first one over this power of the rows seen.
    Scaled(f64),
    /// A fifth whenever there is no improvement.
    Adaptive,
}

/// Values of the options. A value that exists is valid.
#[derive(Clone, Debug, PartialEq)]
pub struct Params {
    pub(super) hidden: Vec<usize>,
    pub(super) activation: Activation,
    pub(super) poisson: bool,
    pub(super) solver: Solver,
    pub(super) alpha: f64,
    pub(super) batch: usize,
    pub(super) rate: f64,
    pub(super) iterations_max: usize,
    pub(super) shuffle: bool,
    pub(super) seed: u64,
    pub(super) tol: f64,
    /// Share of the rows that epochs are judged by, if they are.
    pub(super) kept: Option<f64>,
    pub(super) patience: u64,
}

impl Params {
    /// What settings of one of the two tables say.
    pub fn from_settings(kind: Kind, settings: &Settings) -> Result<Params, ParamsError> {
        const BATCH: usize = 200;
        let beta = |name: &str| match settings.real(name)? {
            1.0 => Err(ParamsError::Beta { option: settings.spelled(name) }),
            beta => Ok(beta),
        };
        let solver = match settings.word("solver")? {
            Some("lbfgs") => Solver::Lbfgs { evaluations_max: settings.count("max_fun")? },
            Some("sgd") => Solver::Sgd {
                momentum: settings.real("momentum")?,
                nesterov: settings.flag("nesterovs_momentum")?,
                rate: match settings.word("learning_rate")? {
                    Some("invscaling") => Rate::Scaled(settings.real("power_t")?),
                    Some("adaptive") => Rate::Adaptive,
                    _ => Rate::Constant,
                },
            },
            _ => Solver::Adam {
                beta_1: beta("beta_1")?,
                beta_2: beta("beta_2")?,
                epsilon: settings.real("epsilon")?,
            },
        };
        let activation = settings.word("activation")?.and_then(Activation::named);
        let batch = match settings.word("batch_size")? {
            Some(_) => BATCH,
            None => settings.count("batch_size")?,
        };
        let kept = match settings.flag("early_stopping")? {
            true => Some(settings.real("validation_fraction")?),
            false => None,
        };
        Ok(Params {
            hidden: settings.counts("hidden_layer_sizes")?,
            activation: activation.unwrap_or(Activation::Relu),
            poisson: kind == Kind::Regressor && settings.word("loss")? == Some("poisson"),
            solver,
            alpha: settings.real("alpha")?,
            batch,
            rate: settings.real("learning_rate_init")?,
            iterations_max: settings.count("max_iter")?,
            shuffle: settings.flag("shuffle")?,
            seed: settings.integer("random_state")?,
            tol: settings.real("tol")?,
            kept,
            patience: settings.integer("n_iter_no_change")?,
        })
    }

    /// Units of the hidden layers.
    pub fn hidden(&self) -> &[usize] {
        &self.hidden
    }

    /// Weight of the penalty.
    pub fn alpha(&self) -> f64 {
        self.alpha
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Spelling;

    #[test]
    fn options_that_do_nothing_good_are_refused_by_name() {
        let mut settings = Settings::new(Kind::Classifier.table(), Spelling::Command);
        settings.set_text("hidden", "20,10").unwrap();
        settings.set_text("beta-2", "1").unwrap();
        let error = Params::from_settings(Kind::Classifier, &settings).unwrap_err();
        assert_eq!(error.to_string(), "--beta-2 is 1; give a number from 0 to below 1");
        settings.set_text("solver", "sgd").unwrap();
        let params = Params::from_settings(Kind::Classifier, &settings).unwrap();
        assert_eq!((params.hidden(), params.batch), (&[20, 10][..], 200));
        let error = settings.set_text("hidden", "20,0").unwrap_err();
        assert_eq!(
            error.to_string(),
            "--hidden is \"20,0\"; give whole numbers from 1 to 1048576 with commas between them"
        );
    }
}
