//! Sizes and weights of the objective, checked when they are made.
//!
//! A [`Params`] that exists is valid, so nothing after it checks again. The defaults are those of the report this
//! learner comes from: 64 visible and 30 hidden units, weight decay 0.002, sparsity weight 4 and target 0.002.

use crate::optimize::lbfgs::Options;
use crate::options::{Kind, Opt, OptionError, Preset, Settings, Table, Target};
use qjam::Dtype;
use thiserror::Error;

/// What can be chosen of the sparse autoencoder.
pub const TABLE: Table = Table {
    name: "autoencoder",
    class: "SparseAutoencoder",
    about: "Learn features: a network that reproduces its rows through few, rarely active hidden units",
    detail: "\
Two layers of tanh units, trained on all rows by L-BFGS: the squared error of the reproduction, plus weight decay, plus a
penalty on hidden units that are active more or less often than the target. Values of rows should lie within -1 and 1.",
    target: Target::None,
    weighted: false,
    sparse: false,
    dtype: Some(Dtype::F64),
    options: &[
        Opt {
            name: "n_hidden",
            flag: "hidden",
            kind: Kind::Integer { min: 1, max: 1 << 20 },
            words: &[],
            default: Preset::Integer(30),
            typed: false,
            help: "How many hidden units, which is how many features",
            detail: "",
        },
        Opt {
            name: "weight_decay",
            flag: "decay",
            kind: Kind::Real { min: 0.0, max: f64::INFINITY, open: false },
            words: &[],
            default: Preset::Real(0.002),
            typed: false,
            help: "Weight decay: half of it times the squared weights is added to the cost",
            detail: "",
        },
        Opt {
            name: "sparsity_weight",
            flag: "sparsity",
            kind: Kind::Real { min: 0.0, max: f64::INFINITY, open: false },
            words: &[],
            default: Preset::Real(4.0),
            typed: false,
            help: "Weight of the sparsity penalty",
            detail: "",
        },
        Opt {
            name: "sparsity_target",
            flag: "sparsity-target",
            kind: Kind::Real { min: 0.0, max: 1.0, open: true },
            words: &[],
            default: Preset::Real(0.002),
            typed: false,
            help: "Mean activation that the penalty pulls hidden units to, on the scale from 0 to 1",
            detail: "",
        },
        Opt {
            name: "max_evaluations",
            flag: "evaluations",
            kind: Kind::Integer { min: 1, max: 1_000_000_000 },
            words: &[],
            default: Preset::Integer(500),
            typed: false,
            help: "Most evaluations of cost and gradient, one round each",
            detail: "",
        },
        Opt {
            name: "tol",
            flag: "tolerance",
            kind: Kind::Real { min: 0.0, max: f64::INFINITY, open: false },
            words: &[],
            default: Preset::Real(1e-4),
            typed: false,
            help: "Stop when no element of the gradient is larger",
            detail: "",
        },
        Opt {
            name: "random_state",
            flag: "seed",
            kind: Kind::Seed,
            words: &[],
            default: Preset::Integer(0),
            typed: false,
            help: "Seed of the first weights",
            detail: "",
        },
    ],
    examples: &[
        "fit autoencoder patches.npy --hidden 30 --evaluations 150 --out patches.model",
        "predict patches.model patches.npy --out activations.npy",
    ],
};

/// Number of visible units (columns of the data) and of hidden ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    visible: usize,
    hidden: usize,
}

/// What is wrong with a setting of the autoencoder.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum ParamsError {
    /// A layer without units, or so many that the weights cannot be counted.
    #[error(
        "autoencoder: {visible} visible and {hidden} hidden units make no network; \
         each layer needs at least one unit and their product must fit in memory"
    )]
    Shape {
        /// Visible units asked for.
        visible: usize,
        /// Hidden units asked for.
        hidden: usize,
    },
    /// A weight that is negative or not finite.
    #[error("autoencoder: {name} is {value}; give a finite number that is not negative")]
    Weight {
        /// Which one.
        name: &'static str,
        /// What was given.
        value: f64,
    },
    /// A target for the mean activation outside the open interval from 0 to 1.
    #[error("autoencoder: sparsity target is {value}; the mean activation lies strictly between 0 and 1")]
    Target {
        /// What was given.
        value: f64,
    },
    /// A value that the learner's table does not allow.
    #[error(transparent)]
    Option(#[from] OptionError),
}

impl Shape {
    /// A network with these layers.
    pub fn new(visible: usize, hidden: usize) -> Result<Shape, ParamsError> {
        let fits = visible.checked_mul(hidden).is_some_and(|n| n <= 1 << 40);
        if visible == 0 || hidden == 0 || !fits {
            return Err(ParamsError::Shape { visible, hidden });
        }
        Ok(Shape { visible, hidden })
    }

    /// The network whose parameter vector has this length, for rows of this many columns.
    pub fn of_theta(len: usize, visible: usize) -> Option<Shape> {
        let rest = len.checked_sub(visible).filter(|_| visible > 0)?;
        let per_hidden = visible.checked_mul(2)?.checked_add(1)?;
        (rest % per_hidden == 0).then(|| Shape::new(visible, rest / per_hidden).ok()).flatten()
    }

    /// Visible units.
    pub fn visible(&self) -> usize {
        self.visible
    }

    /// Hidden units.
    pub fn hidden(&self) -> usize {
        self.hidden
    }

    /// Elements of one weight matrix.
    pub fn weights(&self) -> usize {
        self.visible * self.hidden
    }

    /// Length of the parameter vector: W1, W2 (both row-major), b1, b2.
    pub fn theta_len(&self) -> usize {
        2 * self.weights() + self.hidden + self.visible
    }

    /// W1 (hidden × visible), W2 (visible × hidden), b1 and b2 as parts of a parameter vector.
    ///
    /// Panics if the vector has another length than [`Shape::theta_len`].
    pub fn parts<'a>(&self, theta: &'a [f64]) -> [&'a [f64]; 4] {
        assert_eq!(theta.len(), self.theta_len(), "length of the parameter vector for {self:?}");
        let (w1, rest) = theta.split_at(self.weights());
        let (w2, rest) = rest.split_at(self.weights());
        let (b1, b2) = rest.split_at(self.hidden);
        [w1, w2, b1, b2]
    }
}

impl Default for Shape {
    fn default() -> Self {
        Shape { visible: 64, hidden: 30 }
    }
}

/// The objective (shape of the network, weight decay, sparsity) and when to stop minimising it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Params {
    shape: Shape,
    stopping: Options,
    decay: f64,
    sparsity: f64,
    target: f64,
}

impl Params {
    /// The report's objective for a network of this shape.
    pub fn new(shape: Shape) -> Params {
        Params { shape, stopping: Options::default(), decay: 0.002, sparsity: 4.0, target: 0.002 }
    }

    /// An objective under which 100 to 200 evaluations give features worth looking at: activity is asked to be less
    /// rare, and larger weight decay smooths the features sooner.
    pub fn for_pictures(shape: Shape) -> Params {
        let stopping = Options { evaluations_max: 150, ..Options::default() };
        Params { stopping, decay: 0.004, target: 0.01, ..Params::new(shape) }
    }

    /// What settings of [`TABLE`] say, for rows of this many columns. The seed is for [`initial`](super::initial).
    pub fn from_settings(settings: &Settings, visible: usize) -> Result<Params, ParamsError> {
        let stopping = Options {
            evaluations_max: settings.count("max_evaluations")?,
            pgtol: settings.real("tol")?,
            ..Options::default()
        };
        Params::new(Shape::new(visible, settings.count("n_hidden")?)?)
            .with_stopping(stopping)
            .with_decay(settings.real("weight_decay")?)?
            .with_sparsity(settings.real("sparsity_weight")?)?
            .with_target(settings.real("sparsity_target")?)
    }

    /// When to stop.
    pub fn with_stopping(self, stopping: Options) -> Params {
        Params { stopping, ..self }
    }

    /// Weight decay: half of it times the squared weights is added to the cost.
    pub fn with_decay(self, decay: f64) -> Result<Params, ParamsError> {
        Ok(Params { decay: weight("weight decay", decay)?, ..self })
    }

    /// Weight of the sparsity penalty.
    pub fn with_sparsity(self, sparsity: f64) -> Result<Params, ParamsError> {
        Ok(Params { sparsity: weight("sparsity weight", sparsity)?, ..self })
    }

    /// Mean activation, on the scale from 0 to 1, that the penalty pulls each hidden unit to.
    pub fn with_target(self, target: f64) -> Result<Params, ParamsError> {
        if target > 0.0 && target < 1.0 {
            Ok(Params { target, ..self })
        } else {
            Err(ParamsError::Target { value: target })
        }
    }

    /// Shape of the network.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// When to stop.
    pub fn stopping(&self) -> Options {
        self.stopping
    }

    /// Weight decay.
    pub fn decay(&self) -> f64 {
        self.decay
    }

    /// Weight of the sparsity penalty.
    pub fn sparsity(&self) -> f64 {
        self.sparsity
    }

    /// Target of the mean activation.
    pub fn target(&self) -> f64 {
        self.target
    }
}

impl Default for Params {
    fn default() -> Self {
        Params::new(Shape::default())
    }
}

fn weight(name: &'static str, value: f64) -> Result<f64, ParamsError> {
    if value.is_finite() && value >= 0.0 { Ok(value) } else { Err(ParamsError::Weight { name, value }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_network_has_the_reports_number_of_parameters() {
        assert_eq!(Shape::default().theta_len(), 3934);
        assert_eq!(Shape::of_theta(3934, 64), Some(Shape::default()));
    }

    #[test]
    fn defaults_of_the_table_are_those_of_the_report() {
        let settings = Settings::new(&TABLE, crate::options::Spelling::Python);
        assert_eq!(Params::from_settings(&settings, 64), Ok(Params::default()));
        assert!(matches!(Params::from_settings(&settings, 0), Err(ParamsError::Shape { visible: 0, .. })));
    }

    #[test]
    fn a_length_that_no_network_has_is_no_shape() {
        assert_eq!(Shape::of_theta(3933, 64), None);
        assert_eq!(Shape::of_theta(64, 64), None);
        assert_eq!(Shape::of_theta(10, 64), None);
        assert_eq!(Shape::of_theta(10, 0), None);
        assert_eq!(Shape::of_theta(usize::MAX, usize::MAX), None);
    }

    #[test]
    fn settings_out_of_range_are_refused_with_their_value() {
        let base = Params::default();
        assert_eq!(base.with_target(1.0), Err(ParamsError::Target { value: 1.0 }));
        assert!(base.with_target(f64::NAN).is_err());
        assert!(base.with_decay(-1.0).is_err());
        assert!(base.with_sparsity(f64::INFINITY).is_err());
        assert!(Shape::new(0, 3).is_err());
        assert!(Shape::new(usize::MAX, 3).is_err());
        assert!(base.with_decay(0.0).is_ok());
    }
}
