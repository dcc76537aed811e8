//! What a linear learner is asked for, checked when it is made: its kind, its price, its form, and how to look for it.

use super::scaling::Scaling;
use super::solvers::coordinate::baselines::Batches;
use super::solvers::coordinate::learners::Margin;
use super::solvers::coordinate::params::{Combine, Local, Params, ParamsError, Tuning};
use crate::options::{OptionError, Settings, Table};
use thiserror::Error;

/// Which of the five.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Least squares and squares of coefficients.
    Ridge,
    /// Least squares and sizes of coefficients.
    Lasso,
    /// Both.
    ElasticNet,
    /// Logistic regression.
    Logistic,
    /// Support vector machine.
    Svm,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 5] = [Kind::Ridge, Kind::Lasso, Kind::ElasticNet, Kind::Logistic, Kind::Svm];

    /// Its table.
    pub fn table(self) -> &'static Table {
        use super::tables;
        match self {
            Kind::Ridge => &tables::RIDGE,
            Kind::Lasso => &tables::LASSO,
            Kind::ElasticNet => &tables::ELASTIC_NET,
            Kind::Logistic => &tables::LOGISTIC,
            Kind::Svm => &tables::SVM,
        }
    }

    /// What the command calls it.
    pub fn name(self) -> &'static str {
        self.table().name
    }

    /// The one that the command calls this.
    pub fn named(name: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Whether targets are classes.
    pub fn classifies(self) -> bool {
        matches!(self, Kind::Logistic | Kind::Svm)
    }
}

/// The form in which a price is given and an objective is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Form {
    /// As scikit-learn's class has it: `Ridge` twice the ½-sum, `Lasso` and `ElasticNet` the ½-mean, the others `C Σ loss + R`.
    #[default]
    ScikitLearn,
    /// As a [`Scaling`] says, where λ of a classifier is `1/C`.
    Of(Scaling),
}

/// How the optimum is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Solver {
    /// By the shape of the data.
    #[default]
    Auto,
    /// Sums of products of columns, and exact steps from them.
    Direct,
    /// Coordinate descent on partitions.
    Cocoa,
    /// Products of second derivatives with vectors in rounds, and Newton's steps by conjugate gradients from them.
    NewtonCg,
    /// Slopes in rounds, and quasi-Newton steps from them.
    Lbfgs,
    /// Mini-batch coordinate descent, a baseline.
    MinibatchScd,
    /// Mini-batch gradient descent, a baseline.
    MinibatchSgd,
}

impl Solver {
    /// What the command calls it.
    pub fn name(self) -> &'static str {
        match self {
            Solver::Auto => "auto",
            Solver::Direct => "direct",
            Solver::Cocoa => "cocoa",
            Solver::NewtonCg => "newton-cg",
            Solver::Lbfgs => "lbfgs",
            Solver::MinibatchScd => "minibatch-scd",
            Solver::MinibatchSgd => "minibatch-sgd",
        }
    }
}

/// How more than two classes are told apart by logistic regression.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum MultiClass {
    /// By one model of all of them.
    #[default]
    Softmax,
    /// By one model for each against the rest.
    OneVsRest,
}

/// What is to be learnt. A value that exists is valid.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    pub(in crate::linear) kind: Kind,
    /// λ, or for classifiers `1/C`.
    pub(in crate::linear) lambda: f64,
    /// 1 is ridge and 0 is lasso.
    pub(in crate::linear) eta: f64,
    pub(in crate::linear) form: Form,
    pub(in crate::linear) positive: bool,
    pub(in crate::linear) intercept: bool,
    pub(in crate::linear) intercept_scaling: f64,
    pub(in crate::linear) standardize: bool,
    pub(in crate::linear) margin: Margin,
    pub(in crate::linear) balanced: bool,
    pub(in crate::linear) multi_class: MultiClass,
    pub(in crate::linear) solver: Solver,
    pub(in crate::linear) partitions: Option<usize>,
    pub(in crate::linear) work: Option<f64>,
    pub(in crate::linear) sigma: Option<f64>,
    pub(in crate::linear) params: Params,
    pub(in crate::linear) start: Vec<f64>,
    pub(in crate::linear) start_intercepts: Vec<f64>,
}

/// What is wrong with a specification.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum SpecError {
    /// A price that is not a positive, finite number.
    #[error("linear: {name} is {value}; give a positive, finite number")]
    Price {
        /// What it is called.
        name: &'static str,
        /// What was given.
        value: f64,
    },
    /// A share that is not between 0 and 1.
    #[error("linear: the share of the l1 penalty is {value}; give a number from 0 (ridge) to 1 (lasso)")]
    Share {
        /// What was given.
        value: f64,
    },
    /// The direct solver does not take a plain hinge.
    #[error(
        "linear: a plain hinge has no direct solver; give the solver auto or cocoa, or the loss squared_hinge"
    )]
    NoDirectSolver,
    /// Coefficients of one sign are for regressions alone.
    #[error("linear: {learner} takes coefficients of any sign; positive is for ridge, lasso and elasticnet")]
    NotPositive {
        /// Which learner.
        learner: &'static str,
    },
    /// Conjugate gradients need an objective with second derivatives.
    #[error(
        "linear: newton-cg takes no l1 penalty and no plain hinge; give the solver auto, or another penalty or loss"
    )]
    NotSmooth,
    /// L-BFGS is for logistic regression alone.
    #[error("linear: {learner} is not looked for by lbfgs; give the solver auto, direct or cocoa")]
    NoGradientSolver {
        /// Which learner.
        learner: &'static str,
    },
    /// Two options that say different things.
    #[error(
        "the penalty is {penalty} and l1_ratio is {l1_ratio}; leave one of them out, or give the penalty elasticnet"
    )]
    Penalties {
        /// One.
        penalty: &'static str,
        /// The other.
        l1_ratio: f64,
    },
    /// A setting of the fit.
    #[error(transparent)]
    Params(#[from] ParamsError),
    /// A value that the learner's table does not allow.
    #[error(transparent)]
    Option(#[from] OptionError),
}

impl Spec {
    /// This learner with the defaults of its table: λ or C of 1, an intercept, scikit-learn's form.
    pub fn new(kind: Kind) -> Spec {
        let eta = match kind {
            Kind::Lasso => 0.0,
            Kind::ElasticNet => 0.5,
            _ => 1.0,
        };
        Spec {
            kind,
            lambda: 1.0,
            eta,
            form: Form::ScikitLearn,
            positive: false,
            intercept: true,
            intercept_scaling: 1.0,
            standardize: false,
            margin: Margin::SquaredHinge,
            balanced: false,
            multi_class: MultiClass::Softmax,
            solver: Solver::Auto,
            partitions: None,
            work: None,
            sigma: None,
            params: Params::default(),
            start: vec![],
            start_intercepts: vec![],
        }
    }

    /// What settings of one of the five tables say.
    ///
    /// # Panics
    ///
    /// If they are those of another learner.
    pub fn from_settings(settings: &Settings) -> Result<Spec, SpecError> {
        let name = settings.table().name;
        let kind = Kind::named(name).unwrap_or_else(|| panic!("{name} is no linear learner"));
        let mut spec = Spec::new(kind).with_form(form(settings.word("scaling")?));
        spec = match kind.classifies() {
            true => spec.with_c(settings.real("C")?)?,
            false => spec.with_lambda(settings.real("alpha")?)?.with_positive(settings.flag("positive")?)?,
        };
        if kind == Kind::ElasticNet {
            spec = spec.with_l1_ratio(settings.real("l1_ratio")?)?;
        }
        if kind == Kind::Logistic {
            let l1_ratio = settings.real("l1_ratio")?;
            let meant = match settings.word("penalty")? {
                Some("l2") if l1_ratio != 0.0 => {
                    return Err(SpecError::Penalties { penalty: "l2", l1_ratio });
                }
                Some("l1") if l1_ratio != 0.0 && l1_ratio != 1.0 => {
                    return Err(SpecError::Penalties { penalty: "l1", l1_ratio });
                }
                Some("l2") => 0.0,
                Some("l1") => 1.0,
                _ => l1_ratio,
            };
            spec = spec.with_l1_ratio(meant)?;
            let ovr = settings.word("multi_class")? == Some("ovr");
            spec = spec.with_multi_class(if ovr { MultiClass::OneVsRest } else { MultiClass::Softmax });
        }
        if kind == Kind::Svm {
            let hinge = settings.word("loss")? == Some("hinge");
            spec = spec.with_margin(if hinge { Margin::Hinge } else { Margin::SquaredHinge });
            spec = spec.with_intercept_scaling(settings.real("intercept_scaling")?)?;
        }
        if kind.classifies() {
            spec = spec.with_balanced(settings.word("class_weight")? == Some("balanced"));
        }
        let solver = match settings.word("solver")? {
            Some("direct") => Solver::Direct,
            Some("cocoa") => Solver::Cocoa,
            Some("newton-cg") => Solver::NewtonCg,
            Some("lbfgs") => Solver::Lbfgs,
            Some("minibatch-scd") => Solver::MinibatchScd,
            Some("minibatch-sgd") => Solver::MinibatchSgd,
            _ => Solver::Auto,
        };
        let combine = match settings.word("combine")? {
            Some("added") => Combine::Added,
            Some("averaged") => Combine::Averaged,
            _ => Combine::Searched,
        };
        let tuning = match settings.word("tuning")? {
            Some("clock") => Tuning::Clock,
            _ => Tuning::Counted,
        };
        let params = Params::default()
            .with_tuning(tuning)
            .with_tolerance(settings.real("tol")?)?
            .with_rounds_max(settings.count("max_iter")?)?
            .with_combine(combine)
            .with_seed(settings.integer("random_state")?);
        let number = |name: &str| match settings.word(name)? {
            Some(_) => Ok::<_, OptionError>(None),
            None => Ok(Some(settings.real(name)?)),
        };
        let partitions = match settings.word("partitions")? {
            Some(_) => None,
            None => Some(settings.count("partitions")?),
        };
        Ok(Spec { partitions, work: number("h")?, sigma: number("sigma")?, ..spec }
            .with_solver(solver)?
            .with_params(params)
            .with_intercept(settings.flag("fit_intercept")?)
            .with_standardize(settings.flag("standardize")?))
    }

    /// Which of the five.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// λ, in the scaling of the form; for classifiers it is `1/C`.
    pub fn lambda(&self) -> f64 {
        self.lambda
    }

    /// Another λ. That of ridge may be 0: then coefficients cost nothing, which is ordinary least squares.
    pub fn with_lambda(self, lambda: f64) -> Result<Spec, SpecError> {
        let least_squares = self.kind == Kind::Ridge && lambda == 0.0;
        match least_squares || (lambda > 0.0 && lambda.is_finite()) {
            true => Ok(Spec { lambda, ..self }),
            false => Err(SpecError::Price { name: "λ", value: lambda }),
        }
    }

    /// The price of a loss, `1/λ`.
    pub fn with_c(self, c: f64) -> Result<Spec, SpecError> {
        match c > 0.0 && c.is_finite() && (1.0 / c).is_finite() {
            true => Ok(Spec { lambda: 1.0 / c, ..self }),
            false => Err(SpecError::Price { name: "C", value: c }),
        }
    }

    /// The share of the l1 penalty, as scikit-learn has it: 1 is lasso, 0 ridge.
    pub fn with_l1_ratio(self, l1_ratio: f64) -> Result<Spec, SpecError> {
        match (0.0..=1.0).contains(&l1_ratio) {
            true => Ok(Spec { eta: 1.0 - l1_ratio, ..self }),
            false => Err(SpecError::Share { value: l1_ratio }),
        }
    }

    /// What λ stands beside.
    pub fn with_form(self, form: Form) -> Spec {
        Spec { form, ..self }
    }

    /// Whether coefficients may not be negative; for regressions alone.
    pub fn with_positive(self, positive: bool) -> Result<Spec, SpecError> {
        match positive && self.kind.classifies() {
            true => Err(SpecError::NotPositive { learner: self.kind.name() }),
            false => Ok(Spec { positive, ..self }),
        }
    }

    /// Whether there is an intercept.
    pub fn with_intercept(self, intercept: bool) -> Spec {
        Spec { intercept, ..self }
    }

    /// The constant feature whose weight is a support vector machine's intercept.
    pub fn with_intercept_scaling(self, intercept_scaling: f64) -> Result<Spec, SpecError> {
        match intercept_scaling > 0.0 && intercept_scaling.is_finite() {
            true => Ok(Spec { intercept_scaling, ..self }),
            false => Err(SpecError::Price { name: "intercept_scaling", value: intercept_scaling }),
        }
    }

    /// Whether columns are divided by their standard deviations.
    pub fn with_standardize(self, standardize: bool) -> Spec {
        Spec { standardize, ..self }
    }

    /// What a support vector machine charges.
    pub fn with_margin(self, margin: Margin) -> Spec {
        Spec { margin, ..self }
    }

    /// Whether all classes count the same.
    pub fn with_balanced(self, balanced: bool) -> Spec {
        Spec { balanced, ..self }
    }

    /// How more than two classes are told apart by logistic regression; others have one model for each in any case.
    pub fn with_multi_class(self, multi_class: MultiClass) -> Spec {
        Spec { multi_class, ..self }
    }

    /// How the optimum is looked for.
    pub fn with_solver(self, solver: Solver) -> Result<Spec, SpecError> {
        if solver == Solver::Lbfgs && self.kind != Kind::Logistic {
            return Err(SpecError::NoGradientSolver { learner: self.kind.name() });
        }
        if solver == Solver::NewtonCg && !self.is_smooth() {
            return Err(SpecError::NotSmooth);
        }
        match solver == Solver::Direct && self.kind == Kind::Svm && self.margin == Margin::Hinge {
            true => Err(SpecError::NoDirectSolver),
            false => Ok(Spec { solver, ..self }),
        }
    }

    /// Whether the objective has second derivatives almost everywhere, as Newton's method needs them.
    pub(in crate::linear) fn is_smooth(&self) -> bool {
        self.eta >= 1.0 && !self.positive && (self.kind != Kind::Svm || self.margin != Margin::Hinge)
    }

    /// The name that [`Spec::with_solver`] had.
    #[deprecated(note = "it is called with_solver")]
    pub fn with_way(self, solver: Solver) -> Result<Spec, SpecError> {
        self.with_solver(solver)
    }

    /// In how many parts CoCoA deals out the columns; `None`: by the size of the data.
    pub fn with_partitions(self, partitions: Option<usize>) -> Spec {
        Spec { partitions, ..self }
    }

    /// How the fit is run: tolerance, rounds, seed, and for CoCoA the rest.
    pub fn with_params(self, params: Params) -> Spec {
        Spec { params, ..self }
    }

    /// How the fit is run.
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// Coefficients to begin with, one row for each class that has any; none for zeros. Where they are within the tolerance already,
    /// rounds do nothing but find that out. A support vector machine that is looked for by its dual begins at zeros in any case.
    pub fn with_start(self, coefficients: Vec<f64>) -> Spec {
        Spec { start: coefficients, ..self }
    }

    /// Intercepts that go with the coefficients to begin with, one for each row of them; none for zeros.
    pub fn with_start_intercepts(self, intercepts: Vec<f64>) -> Spec {
        Spec { start_intercepts: intercepts, ..self }
    }

    /// Params for so many partitions, where work and σ' may have been given.
    pub(in crate::linear) fn params_for(&self, partitions: usize) -> Result<Params, ParamsError> {
        if self.work.is_none() && self.sigma.is_none() {
            return Ok(self.params.clone());
        }
        let sigma = self.sigma.map(|sigma| sigma.min(partitions as f64));
        self.params.clone().with_local(Local::given(self.work, sigma, self.params.combine(), partitions))
    }

    /// Mini-batches, for the baselines.
    pub(in crate::linear) fn batches(&self) -> Batches {
        let rounds = self.params.rounds_max();
        let share = self.work.unwrap_or(Batches::default().share).min(1.0);
        Batches { share, rounds, seed: self.params.seed(), ..Batches::default() }
    }

    /// The scaling that λ is meant in.
    pub(in crate::linear) fn scaling(&self) -> Scaling {
        match (self.form, self.kind) {
            // The loss of a classifier has no half to leave out.
            (Form::Of(Scaling::Sum), kind) if kind.classifies() => Scaling::HalfSum,
            (Form::Of(scaling), _) => scaling,
            (Form::ScikitLearn, Kind::Lasso | Kind::ElasticNet) => Scaling::HalfMean,
            (Form::ScikitLearn, _) => Scaling::HalfSum,
        }
    }

    /// An objective in the ½-sum form, told in the form that was asked for. `rows` is the sum of the rows' weights.
    pub(in crate::linear) fn told(&self, half_sum: f64, rows: f64) -> f64 {
        match (self.form, self.kind) {
            (Form::ScikitLearn, Kind::Ridge) => 2.0 * half_sum,
            (Form::ScikitLearn, Kind::Logistic | Kind::Svm) => half_sum / self.lambda,
            _ => half_sum / self.scaling().factor_of(rows),
        }
    }
}

fn form(word: Option<&str>) -> Form {
    match word {
        Some("half-sum") => Form::Of(Scaling::HalfSum),
        Some("sum") => Form::Of(Scaling::Sum),
        Some("half-mean" | "mean") => Form::Of(Scaling::HalfMean),
        _ => Form::ScikitLearn,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Spelling;

    fn settings(kind: Kind, values: &[(&str, &str)]) -> Settings {
        let mut settings = Settings::new(kind.table(), Spelling::Command);
        values.iter().for_each(|(name, text)| settings.set_text(name, text).unwrap());
        settings
    }

    #[test]
    fn defaults_of_the_tables_are_those_of_the_builder() {
        for kind in Kind::ALL {
            assert_eq!(Spec::from_settings(&settings(kind, &[])), Ok(Spec::new(kind)), "{kind:?}");
        }
    }

    #[test]
    fn settings_say_what_the_builder_says() {
        let given =
            settings(Kind::Logistic, &[("c", "4"), ("penalty", "l1"), ("intercept", "false"), ("tol", "0")]);
        let params = Params::default().with_tolerance(0.0).unwrap();
        let spec = Spec::new(Kind::Logistic).with_c(4.0).unwrap().with_l1_ratio(1.0).unwrap();
        assert_eq!(Spec::from_settings(&given), Ok(spec.with_intercept(false).with_params(params)));
        let given = settings(Kind::Svm, &[("loss", "hinge"), ("class-weight", "balanced"), ("h", "0.5")]);
        let spec = Spec::from_settings(&given).unwrap();
        assert_eq!((spec.margin, spec.balanced, spec.work), (Margin::Hinge, true, Some(0.5)));
        assert_eq!(spec.params_for(4).unwrap().local(), &Local::Partly { work: Some(0.5), sigma: None });
        let added = Params::default().with_combine(Combine::Added);
        let added = spec.with_params(added).params_for(4).unwrap();
        assert_eq!(added.local(), &Local::Fixed { work: 0.5, sigma: 4.0 });
        let given = settings(Kind::Lasso, &[("sigma", "9")]);
        let spec = Spec::from_settings(&given).unwrap();
        assert_eq!(spec.params_for(4).unwrap().local(), &Local::Partly { work: None, sigma: Some(4.0) });
    }

    #[test]
    fn what_makes_no_sense_is_refused_in_words() {
        let refused = Spec::new(Kind::Lasso).with_lambda(0.0).unwrap_err().to_string();
        assert_eq!(refused, "linear: λ is 0; give a positive, finite number");
        assert!(Spec::new(Kind::Ridge).with_lambda(0.0).is_ok());
        let refused = Spec::new(Kind::ElasticNet).with_l1_ratio(1.5).unwrap_err().to_string();
        assert!(refused.contains("1.5; give a number from 0 (ridge) to 1 (lasso)"), "{refused}");
        let mut settings = settings(Kind::Logistic, &[("penalty", "l2"), ("l1-ratio", "0.3")]);
        let refused = Spec::from_settings(&settings).unwrap_err().to_string();
        assert!(refused.contains("penalty is l2 and l1_ratio is 0.3"), "{refused}");
        let refused = settings.set_text("c", "-1").unwrap_err().to_string();
        assert_eq!(refused, "--c is \"-1\"; give a finite number over 0");
        let hinge = Spec::new(Kind::Svm).with_margin(Margin::Hinge);
        let refused = hinge.with_solver(Solver::Direct).unwrap_err().to_string();
        assert!(refused.contains("a plain hinge has no direct solver"), "{refused}");
        assert!(Spec::new(Kind::Svm).with_solver(Solver::Direct).is_ok());
    }

    #[test]
    fn every_form_tells_the_same_objective_in_its_own_numbers() {
        // A residual of 3 in one row of weight 1 among 7, one coefficient of 2.
        let (loss, a, rows) = (9.0_f64, 2.0_f64, 7.0);
        let cases: [(Kind, Form, f64, f64); 5] = [
            (Kind::Ridge, Form::ScikitLearn, 5.0, loss + 5.0 * a * a),
            (Kind::Ridge, Form::Of(Scaling::Sum), 5.0, loss + 5.0 * 0.5 * a * a),
            (Kind::Ridge, Form::Of(Scaling::HalfSum), 5.0, 0.5 * loss + 5.0 * 0.5 * a * a),
            (Kind::Lasso, Form::ScikitLearn, 5.0, loss / 14.0 + 5.0 * a),
            (Kind::ElasticNet, Form::ScikitLearn, 5.0, loss / 14.0 + 5.0 * (0.25 * a * a + 0.5 * a)),
        ];
        for (kind, form, lambda, own) in cases {
            let spec = Spec::new(kind).with_form(form).with_lambda(lambda).unwrap();
            let scaled = lambda * spec.scaling().factor_of(rows);
            let half_sum = 0.5 * loss + scaled * (spec.eta * 0.5 * a * a + (1.0 - spec.eta) * a.abs());
            assert!((spec.told(half_sum, rows) - own).abs() < 1e-12, "{kind:?} {form:?}");
        }
    }
}
