//! What can be chosen of the linear learners: one table for each, made of options that they share.

use super::solvers::coordinate::params::Params;
use crate::options::{Kind, Opt, Preset, Table, Target};

const POSITIVE: Kind = Kind::Real { min: 0.0, max: f64::INFINITY, open: true };

const ALPHA: Opt = Opt {
    name: "alpha",
    flag: "alpha",
    kind: POSITIVE,
    words: &[],
    default: Preset::Real(1.0),
    typed: false,
    help: "How much coefficients cost",
    detail: "Over 0. What it stands beside is said by `--scaling`.",
};

/// The same where it may be 0.
const ALPHA_OR_NONE: Opt = Opt {
    kind: Kind::Real { min: 0.0, max: f64::INFINITY, open: false },
    detail: "What it stands beside is said by `--scaling`. With 0 it is ordinary least squares; of all optima that dependent columns have, the shortest is found.",
    ..ALPHA
};

const C: Opt = Opt {
    name: "C",
    flag: "c",
    kind: POSITIVE,
    words: &[],
    default: Preset::Real(1.0),
    typed: false,
    help: "How much a loss costs beside coefficients",
    detail: "Over 0, and the inverse of what λ is to others.",
};

const FIT_INTERCEPT: Opt = Opt {
    name: "fit_intercept",
    flag: "intercept",
    kind: Kind::Flag,
    words: &[],
    default: Preset::Flag(true),
    typed: false,
    help: "Whether there is an intercept",
    detail: "",
};

const POSITIVE_ONLY: Opt = Opt {
    name: "positive",
    flag: "positive",
    kind: Kind::Flag,
    words: &[],
    default: Preset::Flag(false),
    typed: false,
    help: "Whether coefficients may not be negative",
    detail: "The solver is `direct` then, which takes up to 8192 columns.",
};

const STANDARDIZE: Opt = Opt {
    name: "standardize",
    flag: "standardize",
    kind: Kind::Flag,
    words: &[],
    default: Preset::Flag(false),
    typed: false,
    help: "Whether columns are divided by their standard deviations before they are learnt from",
    detail: "Coefficients are given back in the units of the data. Means are not taken off, so sparse data stays sparse; beside \
an intercept that costs nothing that makes no difference.",
};

const CLASS_WEIGHT: Opt = Opt {
    name: "class_weight",
    flag: "class-weight",
    kind: Kind::Word,
    words: &[
        ("none", "every row counts as its weight says"),
        ("balanced", "all classes count the same: rows by the inverse of their class's share"),
    ],
    default: Preset::Word("none"),
    typed: false,
    help: "How much the rows of a class count",
    detail: "",
};

const TOL: Opt = Opt {
    name: "tol",
    flag: "tol",
    kind: Kind::Real { min: 0.0, max: f64::INFINITY, open: false },
    words: &[],
    default: Preset::Real(1e-4),
    typed: false,
    help: "Stop when the duality gap is at most this share of the objective",
    detail: "The gap says how far the objective is from the best one at most. With 0 only the rounds end it, or that they gain \
nothing any more.",
};

const MAX_ITER: Opt = Opt {
    name: "max_iter",
    flag: "max-rounds",
    kind: Kind::Integer { min: 1, max: 1_000_000_000 },
    words: &[],
    default: Preset::Integer(10_000),
    typed: false,
    help: "Most rounds",
    detail: "Using them up is no error; the result says so.",
};

const RANDOM_STATE: Opt = Opt {
    name: "random_state",
    flag: "seed",
    kind: Kind::Seed,
    words: &[],
    default: Preset::Integer(0),
    typed: false,
    help: "Seed of the order in which coordinates are visited",
    detail: "",
};

const PARTITIONS: Opt = Opt {
    name: "partitions",
    flag: "partitions",
    kind: Kind::Integer { min: 1, max: 1 << 20 },
    words: &[("auto", "by the size of the data, never by the workers, so that bits do not depend on these")],
    default: Preset::Word("auto"),
    typed: false,
    help: "In how many parts CoCoA deals out the columns, or for a support vector machine the rows",
    detail: "More workers than parts have nothing to do. More parts than columns are as many as columns.",
};

const H: Opt = Opt {
    name: "h",
    flag: "h",
    kind: Kind::Real { min: 0.0, max: Params::WORK_MAX, open: true },
    words: &[("auto", "chosen while it runs, from progress and cost")],
    default: Preset::Word("auto"),
    typed: false,
    help: "How much CoCoA does between two exchanges, in passes over a part",
    detail: "",
};

const SIGMA: Opt = Opt {
    name: "sigma",
    flag: "sigma",
    kind: Kind::Real { min: 1.0, max: 1e9, open: false },
    words: &[(
        "auto",
        "chosen while it runs; but the number of parts where `--combine` is not `searched` and `--h` is given",
    )],
    default: Preset::Word("auto"),
    typed: false,
    help: "By how much CoCoA's parts allow for one another: from 1 to their number, which is always safe",
    detail: "",
};

const TUNING: Opt = Opt {
    name: "tuning",
    flag: "tuning",
    kind: Kind::Word,
    words: &[
        (
            "counted",
            "the work that was done, at fixed prices: the same choices and bits in every run, on any workers",
        ),
        (
            "clock",
            "measured time: for slow networks and busy machines; choices and bits differ between runs, except in one that is resumed or replayed",
        ),
    ],
    default: Preset::Word("counted"),
    typed: false,
    help: "What CoCoA takes as the cost of a round when it chooses `h` and `sigma`",
    detail: "",
};

const COMBINE: Opt = Opt {
    name: "combine",
    flag: "combine",
    kind: Kind::Word,
    words: &[
        ("searched", "added, and then gone as far as pays"),
        ("added", "added as they are (CoCoA+)"),
        ("averaged", "averaged (CoCoA)"),
    ],
    default: Preset::Word("searched"),
    typed: false,
    help: "What CoCoA does with the changes of its parts",
    detail: "",
};

/// The words of `solver`, for learners with an l1 penalty.
const SOLVER: Opt = Opt {
    name: "solver",
    flag: "solver",
    kind: Kind::Word,
    words: &[
        ("auto", "the one that costs least by the shape of the data; the result says which and why"),
        ("direct", "sums of products of columns in rounds, and exact steps from them: for few columns"),
        ("cocoa", "coordinate descent on parts of the columns, with one vector exchanged a round: for many"),
        ("minibatch-scd", "mini-batch coordinate descent, to compare with"),
        ("minibatch-sgd", "mini-batch gradient descent, to compare with; it has no certificate"),
    ],
    default: Preset::Word("auto"),
    typed: false,
    help: "How the optimum is looked for",
    detail: "",
};

const NEWTON_CG: (&str, &str) = (
    "newton-cg",
    "Newton's steps by conjugate gradients, with a vector exchanged a round: for many columns, without l1",
);

/// The same where an objective has second derivatives.
const SMOOTH_SOLVER: Opt = Opt {
    words: &[SOLVER.words[0], SOLVER.words[1], SOLVER.words[2], NEWTON_CG, SOLVER.words[3], SOLVER.words[4]],
    ..SOLVER
};

const DUAL_SOLVER: Opt = Opt {
    words: &[
        (
            "auto",
            "the one that costs least by the shape of the data, and CoCoA for a plain hinge; the result says which and why",
        ),
        (
            "direct",
            "sums of products of columns in rounds, and exact steps from them: for few columns and a squared hinge",
        ),
        ("cocoa", "coordinate descent on parts of the rows, with one vector exchanged a round"),
        NEWTON_CG,
        ("minibatch-scd", "mini-batch coordinate descent, to compare with"),
        ("minibatch-sgd", "mini-batch gradient descent, to compare with; it has no certificate"),
    ],
    ..SOLVER
};

const CLASS_SOLVER: Opt = Opt {
    words: &[
        (
            "auto",
            "for two classes the one that costs least by the shape of the data; for more, direct where there are few coefficients, else lbfgs; the result says which and why",
        ),
        ("direct", "sums of products of columns in rounds, and exact steps from them: for few columns"),
        ("lbfgs", "slopes in rounds, and quasi-Newton steps from them"),
        (
            "cocoa",
            "coordinate descent on parts of the columns, with one vector exchanged a round: for two classes, or each against the rest",
        ),
        (
            NEWTON_CG.0,
            "Newton's steps by conjugate gradients, with a vector exchanged a round: for classes as cocoa, without l1",
        ),
        ("minibatch-scd", "mini-batch coordinate descent, to compare with; for classes as cocoa"),
        (
            "minibatch-sgd",
            "mini-batch gradient descent, to compare with; it has no certificate; for classes as cocoa",
        ),
    ],
    ..SOLVER
};

/// What the words of `scaling` mean for penalties that are given as λ.
const SCALING: Opt = Opt {
    name: "scaling",
    flag: "scaling",
    kind: Kind::Word,
    words: &[
        ("scikit-learn", "as the class of that name has it"),
        ("half-sum", "`½ Σ (xᵢ·a − bᵢ)² + λ R(a)`"),
        (
            "sum",
            "`Σ (xᵢ·a − bᵢ)² + λ R(a)`, as the paper on Spark and MPI has it: λ is twice that of `half-sum`",
        ),
        ("half-mean", "`1/(2N) Σ (xᵢ·a − bᵢ)² + λ R(a)`: λ is that of `half-sum` divided by N"),
    ],
    default: Preset::Word("scikit-learn"),
    typed: false,
    help: "What λ stands beside, and in which form the objective is told",
    detail: "`R(a) = ½ (1 − l1_ratio) ‖a‖² + l1_ratio ‖a‖₁`. With weights of rows, every square is multiplied by its row's, and \
N is their sum.",
};

/// The same for losses that are priced by C.
const PRICE_SCALING: Opt = Opt {
    words: &[
        ("scikit-learn", "`C Σ loss + R(a)`"),
        ("sum", "`Σ loss + 1/C R(a)`: the same optimum, told in other numbers"),
        ("mean", "`1/N Σ loss + λ R(a)` with λ = 1/C"),
    ],
    help: "What C stands beside, and in which form the objective is told",
    detail: "With weights of rows, every loss is multiplied by its row's, and N is their sum.",
    ..SCALING
};

/// The share of the l1 penalty.
const L1_RATIO: Opt = Opt {
    name: "l1_ratio",
    flag: "l1-ratio",
    kind: Kind::Real { min: 0.0, max: 1.0, open: false },
    words: &[],
    default: Preset::Real(0.5),
    typed: false,
    help: "How much of the price is on the size of coefficients: 1 is lasso, 0 ridge",
    detail: "The paper's η is 1 less this.",
};

/// Options that regressions share, with their price, their solvers and what else one of them has.
macro_rules! regression_options {
    ($price:expr, $solver:expr $(, $more:expr)*) => {
        [
            $price,
            $($more,)*
            FIT_INTERCEPT,
            POSITIVE_ONLY,
            STANDARDIZE,
            TOL,
            MAX_ITER,
            $solver,
            SCALING,
            PARTITIONS,
            H,
            SIGMA,
            TUNING,
            COMBINE,
            RANDOM_STATE,
        ]
    };
}

/// Ridge regression.
pub const RIDGE: Table = Table {
    name: "ridge",
    class: "Ridge",
    about: "Least squares with a price on the squares of coefficients",
    detail: "Minimises `Σ (xᵢ·a + c − bᵢ)² + alpha ‖a‖²`. Carries a certificate: how far the objective is from the best one at most.",
    target: Target::Values,
    weighted: true,
    sparse: true,
    dtype: None,
    options: &regression_options!(ALPHA_OR_NONE, SMOOTH_SOLVER),
    examples: &[
        "fit ridge x.npy --labels y.npy --alpha 0.1 --out x.model",
        "fit ridge x.libsvm --alpha 10 --workers proc:4 --out x.model",
    ],
};

/// Lasso.
pub const LASSO: Table = Table {
    name: "lasso",
    class: "Lasso",
    about: "Least squares with a price on the size of coefficients, which leaves few of them",
    detail: "Minimises `1/(2N) Σ (xᵢ·a + c − bᵢ)² + alpha ‖a‖₁`. What is left out is exactly 0.",
    target: Target::Values,
    weighted: true,
    sparse: true,
    dtype: None,
    options: &regression_options!(ALPHA, SOLVER),
    examples: &["fit lasso x.libsvm --alpha 0.01 --out x.model"],
};

/// Elastic net.
pub const ELASTIC_NET: Table = Table {
    name: "elasticnet",
    class: "ElasticNet",
    about: "Least squares with a price on both the size and the squares of coefficients",
    detail: "Minimises `1/(2N) Σ (xᵢ·a + c − bᵢ)² + alpha (½ (1 − l1_ratio) ‖a‖² + l1_ratio ‖a‖₁)`.",
    target: Target::Values,
    weighted: true,
    sparse: true,
    dtype: None,
    options: &regression_options!(ALPHA, SOLVER, L1_RATIO),
    examples: &["fit elasticnet x.libsvm --alpha 0.01 --l1-ratio 0.9 --out x.model"],
};

/// Logistic regression.
pub const LOGISTIC: Table = Table {
    name: "logistic",
    class: "LogisticRegression",
    about: "Probabilities of classes, by logistic regression",
    detail: "\
Two classes: minimises `C Σ ln(1 + exp(−yᵢ (xᵢ·a + c))) + R(a)`, where yᵢ is 1 for the larger class and −1 for the other. More
classes: one model of all of them, which minimises `C Σ (ln Σₖ exp(vᵢₖ) − vᵢᵧ) + R(A)`, where vᵢₖ is xᵢ·aₖ + cₖ and y the class
of row i; or, by `--multi-class ovr`, one model for each against the rest.",
    target: Target::Classes,
    weighted: true,
    sparse: true,
    dtype: None,
    options: &[
        C,
        Opt {
            name: "penalty",
            flag: "penalty",
            kind: Kind::Word,
            words: &[
                ("auto", "as l1_ratio says"),
                ("l2", "`R(a) = ½ ‖a‖²`"),
                ("l1", "`R(a) = ‖a‖₁`"),
                ("elasticnet", "`R(a) = ½ (1 − l1_ratio) ‖a‖² + l1_ratio ‖a‖₁`"),
            ],
            default: Preset::Word("auto"),
            typed: false,
            help: "What coefficients cost",
            detail: "",
        },
        Opt {
            name: "l1_ratio",
            flag: "l1-ratio",
            kind: Kind::Real { min: 0.0, max: 1.0, open: false },
            words: &[],
            default: Preset::Real(0.0),
            typed: false,
            help: "How much of the price is on the size of coefficients: 1 is l1, 0 is l2",
            detail: "Looked at where the penalty is `auto` or `elasticnet`.",
        },
        Opt {
            name: "multi_class",
            flag: "multi-class",
            kind: Kind::Word,
            words: &[
                ("softmax", "by one model of all of them, as scikit-learn has it"),
                (
                    "ovr",
                    "by one model for each against the rest; probabilities are scaled to add up to 1",
                ),
            ],
            default: Preset::Word("softmax"),
            typed: false,
            help: "How more than two classes are told apart",
            detail: "For two classes both are the same.",
        },
        FIT_INTERCEPT,
        CLASS_WEIGHT,
        STANDARDIZE,
        TOL,
        MAX_ITER,
        CLASS_SOLVER,
        PRICE_SCALING,
        PARTITIONS,
        H,
        SIGMA,
        TUNING,
        COMBINE,
        RANDOM_STATE,
    ],
    examples: &[
        "fit logistic x.libsvm --c 0.1 --out x.model",
        "fit logistic x.libsvm --penalty l1 --out x.model",
        "predict x.model new.libsvm --out classes.npy",
    ],
};

/// Linear support vector machines.
pub const SVM: Table = Table {
    name: "svm",
    class: "LinearSVC",
    about: "Classes that a plane parts with a margin: a linear support vector machine",
    detail: "\
Two classes: minimises `½ ‖w‖² + C Σ margin(yᵢ xᵢ·w)`, where yᵢ is 1 for the larger class and −1 for the other. More
classes: one such model for each against the rest; the one that is surest wins.",
    target: Target::Classes,
    weighted: true,
    sparse: true,
    dtype: None,
    options: &[
        C,
        Opt {
            name: "loss",
            flag: "loss",
            kind: Kind::Word,
            words: &[("squared_hinge", "`max(0, 1 − m)²`"), ("hinge", "`max(0, 1 − m)`")],
            default: Preset::Word("squared_hinge"),
            typed: false,
            help: "What a row with margin m costs",
            detail: "",
        },
        FIT_INTERCEPT,
        Opt {
            name: "intercept_scaling",
            flag: "intercept-scaling",
            kind: POSITIVE,
            words: &[],
            default: Preset::Real(1.0),
            typed: false,
            help: "The constant feature whose weight is the intercept",
            detail: "That weight costs what any other does, as liblinear has it; with a larger constant the intercept costs less.",
        },
        CLASS_WEIGHT,
        STANDARDIZE,
        TOL,
        MAX_ITER,
        DUAL_SOLVER,
        PRICE_SCALING,
        PARTITIONS,
        H,
        SIGMA,
        TUNING,
        COMBINE,
        RANDOM_STATE,
    ],
    examples: &[
        "fit svm x.libsvm --c 0.1 --out x.model",
        "predict x.model new.libsvm --out classes.npy",
    ],
};
