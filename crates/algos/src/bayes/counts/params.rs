//! What can be chosen of the naive Bayes learners of counts, and the values that were checked.

use crate::options::{Kind as Value, Opt, OptionError, Preset, Settings, Table, Target};

/// Which of the three.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Counts of things, such as words, drawn from one distribution for each class.
    Multinomial,
    /// Things that are there or not.
    Bernoulli,
    /// Multinomial with each class described by all others, for classes of very different sizes.
    Complement,
}

impl Kind {
    /// What can be chosen.
    pub fn table(self) -> &'static Table {
        match self {
            Kind::Multinomial => &MULTINOMIAL,
            Kind::Bernoulli => &BERNOULLI,
            Kind::Complement => &COMPLEMENT,
        }
    }

    /// What the command calls it, and its model files.
    pub fn name(self) -> &'static str {
        self.table().name
    }

    /// Whether negative numbers make no sense.
    pub fn is_of_counts(self) -> bool {
        self != Kind::Bernoulli
    }
}

const ALPHA: Opt = Opt {
    name: "alpha",
    flag: "alpha",
    kind: Value::Real { min: 0.0, max: f64::INFINITY, open: false },
    words: &[],
    default: Preset::Real(1.0),
    typed: false,
    help: "What is added to every count, so that nothing is impossible that was not seen (1 is Laplace, less is Lidstone smoothing)",
    detail: "In Python also an array with a number for each column.",
};
const FORCE_ALPHA: Opt = Opt {
    name: "force_alpha",
    flag: "force-alpha",
    kind: Value::Flag,
    words: &[],
    default: Preset::Flag(true),
    typed: false,
    help: "Take alpha as it is; otherwise it is at least 1e-10",
    detail: "",
};
const FIT_PRIOR: Opt = Opt {
    name: "fit_prior",
    flag: "fit-prior",
    kind: Value::Flag,
    words: &[],
    default: Preset::Flag(true),
    typed: false,
    help: "Take the share of each class among the rows as its probability; otherwise all are equally likely",
    detail: "",
};
const CLASS_PRIOR: Opt = Opt {
    name: "class_prior",
    flag: "class-prior",
    kind: Value::File,
    words: &[("none", "what `fit_prior` says")],
    default: Preset::Word("none"),
    typed: false,
    help: "Probabilities of the classes before a row is seen",
    detail: "A file (`.npy`; in Python an array) has a number for each class, in the order of the classes.",
};
const BINARIZE: Opt = Opt {
    name: "binarize",
    flag: "binarize",
    kind: Value::Real { min: f64::NEG_INFINITY, max: f64::INFINITY, open: false },
    words: &[("none", "the rows are zeros and ones already")],
    default: Preset::Real(0.0),
    typed: false,
    help: "Numbers above this count as one, all others as zero",
    detail: "",
};
const NORM: Opt = Opt {
    name: "norm",
    flag: "norm",
    kind: Value::Flag,
    words: &[],
    default: Preset::Flag(false),
    typed: false,
    help: "Scale the weights of each class to add up to 1",
    detail: "",
};

const MULTINOMIAL: Table = Table {
    name: "multinomial-nb",
    class: "MultinomialNB",
    about: "Tell classes apart by how often each thing is counted in them, such as the words of texts",
    detail: "\
Multinomial naive Bayes: the counts of a row are drawn from a distribution of its class. One round over the rows, dense or
sparse, adds up the counts of each class; numbers need not be whole (tf-idf works), but not negative.",
    target: Target::Classes,
    weighted: true,
    sparse: true,
    dtype: None,
    options: &[ALPHA, FORCE_ALPHA, FIT_PRIOR, CLASS_PRIOR],
    examples: &[
        "fit multinomial-nb words.libsvm --out words.model",
        "fit multinomial-nb counts.npy --labels classes.npy --alpha 0.1 --out counts.model",
        "predict words.model new.libsvm --out classes.npy",
    ],
};

const BERNOULLI: Table = Table {
    name: "bernoulli-nb",
    class: "BernoulliNB",
    about: "Tell classes apart by which things are there at all, such as the words of short texts",
    detail: "\
Bernoulli naive Bayes: in each class every column is there with a probability of its own, and what is missing counts as
well. One round over the rows, dense or sparse, adds up in how many rows of each class a column is above the threshold.",
    target: Target::Classes,
    weighted: true,
    sparse: true,
    dtype: None,
    options: &[ALPHA, FORCE_ALPHA, BINARIZE, FIT_PRIOR, CLASS_PRIOR],
    examples: &[
        "fit bernoulli-nb words.libsvm --out words.model",
        "fit bernoulli-nb digits.npy --labels classes.npy --binarize 8 --out digits.model",
        "predict digits.model new.npy --probabilities --out probabilities.csv",
    ],
};

const COMPLEMENT: Table = Table {
    name: "complement-nb",
    class: "ComplementNB",
    about: "Tell classes of very different sizes apart by how often each thing is counted outside of them",
    detail: "\
Complement naive Bayes (Rennie and others, 2003): each class is described by the counts of all other classes, of which
there are more, so that rare classes are not told by a few rows. One round over the rows, dense or sparse.",
    target: Target::Classes,
    weighted: true,
    sparse: true,
    dtype: None,
    options: &[ALPHA, FORCE_ALPHA, FIT_PRIOR, CLASS_PRIOR, NORM],
    examples: &[
        "fit complement-nb words.libsvm --out words.model",
        "fit complement-nb words.libsvm --alpha 0.3 --norm --out words.model",
        "predict words.model new.libsvm --out classes.npy",
    ],
};

/// The smallest alpha unless it is forced.
pub const ALPHA_MIN: f64 = 1e-10;

/// Values of the options. A value that exists is valid; what the kind has no option for keeps its default.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Params {
    kind: Kind,
    alpha: f64,
    force_alpha: bool,
    fit_prior: bool,
    binarize: Option<f64>,
    norm: bool,
}

impl Params {
    /// The defaults of a kind.
    pub fn new(kind: Kind) -> Params {
        let binarize = (kind == Kind::Bernoulli).then_some(0.0);
        Params { kind, alpha: 1.0, force_alpha: true, fit_prior: true, binarize, norm: false }
    }

    /// What settings of a kind's table say. Priors and smoothing by column are handed over by the caller.
    pub fn from_settings(kind: Kind, settings: &Settings) -> Result<Params, OptionError> {
        let mut params = Params {
            alpha: settings.real("alpha")?,
            force_alpha: settings.flag("force_alpha")?,
            fit_prior: settings.flag("fit_prior")?,
            ..Params::new(kind)
        };
        match kind {
            Kind::Multinomial => {}
            Kind::Complement => params.norm = settings.flag("norm")?,
            Kind::Bernoulli => {
                params.binarize = match settings.word("binarize")? {
                    Some(_) => None,
                    None => Some(settings.real("binarize")?),
                }
            }
        }
        Ok(params)
    }

    /// The same with another number for smoothing, which is taken as 0 if it is negative.
    pub fn with_alpha(self, alpha: f64) -> Params {
        Params { alpha: alpha.max(0.0), ..self }
    }

    /// The same with another threshold, or none, for [`Kind::Bernoulli`].
    pub fn with_binarize(self, binarize: Option<f64>) -> Params {
        Params { binarize: binarize.filter(|_| self.kind == Kind::Bernoulli), ..self }
    }

    /// Which learner.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// What is added to every count.
    pub fn alpha(&self) -> f64 {
        self.smoothed(self.alpha)
    }

    /// A number for smoothing, or the least that is allowed.
    pub fn smoothed(&self, alpha: f64) -> f64 {
        if self.force_alpha { alpha } else { alpha.max(ALPHA_MIN) }
    }

    /// Whether the shares of the classes are their probabilities.
    pub fn fit_prior(&self) -> bool {
        self.fit_prior
    }

    /// Above which number something is there; `None` if the rows say that themselves.
    pub fn binarize(&self) -> Option<f64> {
        self.binarize
    }

    /// Whether weights are scaled to add up to 1.
    pub fn norm(&self) -> bool {
        self.norm
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Spelling;

    #[test]
    fn defaults_of_the_tables_and_of_the_params_agree() {
        for kind in [Kind::Multinomial, Kind::Bernoulli, Kind::Complement] {
            let mut settings = Settings::new(kind.table(), Spelling::Python);
            assert_eq!(Params::from_settings(kind, &settings).unwrap(), Params::new(kind));
            settings.set_text("alpha", "0").unwrap();
            settings.set_text("force_alpha", "false").unwrap();
            assert_eq!(Params::from_settings(kind, &settings).unwrap().alpha(), ALPHA_MIN);
        }
    }
}
