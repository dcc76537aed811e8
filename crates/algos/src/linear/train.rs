//! Training a linear learner: classes, weights and scales are made ready, a solver is chosen by the shape of the data, and
//! what it finds becomes a model in the units of the data.

use super::affine::Affine;
use super::choice::{Shape, choose};
use super::classes::Classes;
use super::error::LearnError;
use super::model::LinearModel;
use super::params::{Kind, MultiClass, Solver, Spec};
use super::rows::Survey;
use super::scaled::{deviations, surveyed};
use super::scaling::Penalty;
use super::solvers::coordinate::baselines::{Problem, RowLoss, minibatch_sgd};
use super::solvers::coordinate::cocoa::{CocoaRound, Fit, FitError, Outcome};
use super::solvers::coordinate::learners::Margin;
use super::solvers::coordinate::partition::{PrepareError, must_be_targets};
use super::solvers::coordinate::wide::{self, Dealt};
use super::solvers::direct::slopes::Of;
use super::solvers::direct::{self, Narrow};
use super::solvers::softmax;
use qjam::source::kept::Keep;
use qjam::{Master, Rows, with_rows};

/// What was trained, and how it went.
#[derive(Clone, Debug)]
pub struct Trained {
    /// What was learnt.
    pub model: LinearModel,
    /// The objective in the form that was asked for; of several models, the sum.
    pub objective: f64,
    /// How far above the optimum that is at most.
    pub gap: f64,
    /// Rounds, of all models together.
    pub rounds: usize,
    /// Why it ended; of several models, the one that came least far.
    pub outcome: Outcome,
    /// What looked for the optimum: [`Solver::Direct`], [`Solver::Cocoa`], [`Solver::Lbfgs`] or a baseline.
    pub solver: Solver,
    /// Why that one, in words.
    pub why: String,
    /// Partitions of the columns, or for a support vector machine of the rows; 0 where there are none.
    pub partitions: usize,
    /// What else is to be said, in words: fewer partitions than were asked for, and the like.
    pub remarks: Vec<String>,
    /// How CoCoA went, for the last model.
    pub fit: Option<Fit>,
}

/// What an observer of [`train`] sees of every round.
#[derive(Clone, Debug)]
pub struct Progress<'a> {
    /// Which of several models, counted from 0.
    pub model: usize,
    /// How many there are.
    pub models: usize,
    /// Rounds of this model so far.
    pub round: usize,
    /// Its objective, in the form that was asked for.
    pub objective: f64,
    /// How far above the optimum that is at most; infinite before it is known.
    pub gap: f64,
    /// What CoCoA says of the round.
    pub seen: Option<&'a CocoaRound>,
}

/// Learns from rows with their targets, and weights if there are any.
///
/// Targets of a classifier are numbers that stand for classes, two or more. Weights are finite and not negative; a row of weight
/// 0 is as good as not there. The bits of the result follow from data and spec, and for CoCoA from its choices; never
/// from the workers. Not coming to the tolerance is no error: see [`Trained::outcome`].
///
/// ```
/// use qjam::{DataSet, Master};
/// use qjam_algos::linear::{Kind, Spec, train};
/// let rows = DataSet::dense(vec![0.0, 1.0, 2.0, 3.0], 1)?;
/// let spec = Spec::new(Kind::Ridge).with_lambda(1e-9)?;
/// let trained = train(&Master::connect("local:1")?, &(&rows).into(), &[1.0, 3.0, 5.0, 7.0], None, &spec, |_| {})?;
/// assert!((trained.model.coefficients()[0] - 2.0).abs() < 1e-8);
/// assert!((trained.model.intercepts()[0] - 1.0).abs() < 1e-8);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn train(
    master: &Master,
    examples: &Rows,
    targets: &[f64],
    weights: Option<&[f64]>,
    spec: &Spec,
    mut observer: impl FnMut(&Progress<'_>),
) -> Result<Trained, LearnError> {
    let (rows, columns) = (examples.records() as usize, examples.cols().map_err(PrepareError::from)?);
    must_be_targets(targets, rows)?;
    let weight = must_be_weights(weights, rows)?;
    let classes = match spec.kind.classifies() {
        true => Some(Classes::of(targets, weights)?),
        false => None,
    };
    let models = classes.as_ref().map_or(1, Classes::models);
    let together = classes.as_ref().filter(|classes| is_together(spec, classes));
    if !spec.start.is_empty() && spec.start.len() != models * columns {
        return Err(LearnError::Start { found: spec.start.len(), expected: models * columns });
    }
    if let Some(value) = spec.start.iter().chain(&spec.start_intercepts).find(|value| !value.is_finite()) {
        return Err(FitError::Start { value: *value }.into());
    }
    let (solver, why) = match together {
        Some(classes) => choose_together(spec, columns, classes.values().len())?,
        None => choose(spec, &Shape::of(examples)?)?,
    };
    let by_rows = matches!(solver, Solver::Direct | Solver::NewtonCg | Solver::Lbfgs);
    let survey = match by_rows || spec.standardize {
        true => Some(surveyed(master, examples)?),
        false => None,
    };
    let deviations = match &survey {
        Some(survey) if spec.standardize => deviations(master, examples, weights, survey)?,
        _ => vec![],
    };
    let mut training = Training {
        master,
        examples,
        spec,
        weight,
        columns,
        survey,
        deviations,
        solver,
        dealt: None,
        trained: Parts { why, ..Parts::default() },
    };
    if let Some(classes) = together {
        let weights = match spec.balanced {
            true => Some(classes.balanced_together(weights)),
            false => weights.map(<[f64]>::to_vec),
        };
        let mut tell = |round: usize, objective: f64, gap: f64| {
            let (objective, gap) = (spec.told(objective, weight), spec.told(gap, weight));
            observer(&Progress { model: 0, models: 1, round, objective, gap, seen: None });
        };
        training.together(classes, weights.as_deref(), &mut tell)?;
        return training.finish(classes.values().to_vec());
    }
    for model in 0..models {
        let (targets, weights) = match &classes {
            Some(classes) => {
                let weights = match spec.balanced {
                    true => Some(classes.balanced(weights, model)),
                    false => weights.map(<[f64]>::to_vec),
                };
                (classes.labels(model), weights)
            }
            None => (targets.to_vec(), weights.map(<[f64]>::to_vec)),
        };
        let mut tell = |round: usize, objective: f64, gap: f64, seen: Option<&CocoaRound>| {
            let (objective, gap) = (spec.told(objective, weight), spec.told(gap, weight));
            observer(&Progress { model, models, round, objective, gap, seen });
        };
        training.one(model, &targets, weights.as_deref(), &mut tell)?;
    }
    let classes = classes.map_or(vec![], |classes| classes.values().to_vec());
    training.finish(classes)
}

pub(super) fn must_be_weights(weights: Option<&[f64]>, rows: usize) -> Result<f64, LearnError> {
    let Some(weights) = weights else {
        return Ok(rows as f64);
    };
    if weights.len() != rows {
        return Err(LearnError::Weights { weights: weights.len(), rows });
    }
    if let Some(row) = weights.iter().position(|weight| !(weight.is_finite() && *weight >= 0.0)) {
        return Err(LearnError::Weight { row, value: weights[row] });
    }
    match weights.iter().sum::<f64>() {
        0.0 => Err(LearnError::NoWeight { rows }),
        sum => Ok(sum),
    }
}

/// Whether all classes are learnt together: more than two of them, or as many as there are where slopes were asked for.
pub(super) fn is_together(spec: &Spec, classes: &Classes) -> bool {
    let several = classes.values().len() > 2 && spec.multi_class == MultiClass::Softmax;
    spec.kind == Kind::Logistic && (several || (spec.solver == Solver::Lbfgs && classes.values().len() == 2))
}

/// Coefficients of all classes up to which products of all pairs are summed up, unless a solver is asked for.
const TOGETHER_MAX: usize = 150;
const TOGETHER_L1_MAX: usize = 300;

/// The same for one model of all classes.
fn choose_together(spec: &Spec, columns: usize, classes: usize) -> Result<(Solver, String), LearnError> {
    let coefficients = (columns + 1) * classes;
    if classes > softmax::CLASSES_MAX {
        return Err(LearnError::TooManyClasses { classes, most: softmax::CLASSES_MAX });
    }
    match spec.solver {
        Solver::Auto => {}
        Solver::Direct if coefficients > direct::COLUMNS_MAX => {
            return Err(LearnError::TooMany { coefficients, most: direct::COLUMNS_MAX });
        }
        Solver::Direct | Solver::Lbfgs => return Ok((spec.solver, "it was asked for".into())),
        other => return Err(LearnError::NotTogether { solver: other.name(), classes }),
    }
    let most = if spec.eta < 1.0 { TOGETHER_L1_MAX } else { TOGETHER_MAX };
    Ok(match coefficients <= most {
        true => {
            (Solver::Direct, format!("{coefficients} coefficients of {classes} classes together are few"))
        }
        false => {
            (Solver::Lbfgs, format!("{coefficients} coefficients of {classes} classes together are many"))
        }
    })
}

/// What has been learnt so far.
#[derive(Default)]
struct Parts {
    coefficients: Vec<f64>,
    intercepts: Vec<f64>,
    softmax: bool,
    objective: f64,
    gap: f64,
    rounds: usize,
    outcome: Option<Outcome>,
    why: String,
    partitions: usize,
    remarks: Vec<String>,
    fit: Option<Fit>,
}

/// What all models of one training share.
struct Training<'a> {
    master: &'a Master,
    examples: &'a Rows,
    spec: &'a Spec,
    /// The sum of the rows' weights.
    weight: f64,
    columns: usize,
    survey: Option<Survey>,
    /// What columns are divided by; none for ones.
    deviations: Vec<f64>,
    solver: Solver,
    dealt: Option<Dealt>,
    trained: Parts,
}

type Tell<'a> = &'a mut dyn FnMut(usize, f64, f64, Option<&CocoaRound>);

impl Training<'_> {
    fn one(
        &mut self,
        model: usize,
        targets: &[f64],
        weights: Option<&[f64]>,
        tell: Tell<'_>,
    ) -> Result<(), LearnError> {
        if matches!(self.solver, Solver::Direct | Solver::NewtonCg) {
            if self.directly(model, targets, weights, tell)? {
                return Ok(());
            }
            if self.spec.solver == Solver::Direct {
                return Err(LearnError::Singular);
            }
            self.trained.why =
                "the columns depend on each other so much that products of them cannot tell them apart"
                    .into();
            self.solver = if self.spec.is_smooth() { Solver::NewtonCg } else { Solver::Cocoa };
            if self.solver == Solver::NewtonCg && self.directly(model, targets, weights, tell)? {
                return Ok(());
            }
        }
        match (self.solver, self.spec.kind) {
            (Solver::MinibatchSgd, _) => self.by_gradients(targets, weights, tell),
            (_, Kind::Svm) => self.dually(targets, weights, tell),
            _ => self.by_columns(model, targets, weights, tell),
        }
    }

    /// Mini-batch gradient descent, on rows whose columns are divided by their deviations.
    fn by_gradients(
        &mut self,
        targets: &[f64],
        weights: Option<&[f64]>,
        tell: Tell<'_>,
    ) -> Result<(), LearnError> {
        let penalty = self.penalty()?;
        let scaled = self.scaled()?;
        let examples = scaled.as_ref().unwrap_or(self.examples);
        let counts = surveyed(self.master, examples)?.counts;
        let loss = match self.spec.kind {
            Kind::Logistic => RowLoss::Logistic,
            Kind::Svm => self.spec.margin.into(),
            _ => RowLoss::Squares,
        };
        let (l1, l2) = (penalty.l1() / self.weight, penalty.l2() / self.weight);
        let weights = weights.unwrap_or_default();
        let problem = Problem { loss, targets, weights, l1, l2, intercept: self.spec.intercept };
        let (rows, batches) = (self.weight, self.spec.batches());
        let seen = |round: usize, mean: f64| tell(round, mean * rows, f64::INFINITY, None);
        let found = with_rows!(examples, data => minibatch_sgd(self.master, data, &counts, &problem, &batches, seen))?;
        let coefficients =
            found.coefficients.iter().enumerate().map(|(j, b)| b / self.deviation(j)).collect();
        let value = (found.objective * rows, f64::NEG_INFINITY);
        self.add(coefficients, found.intercept, value, found.rounds, Outcome::RoundsUsedUp);
        Ok(())
    }

    /// The penalty in the ½-sum form.
    fn penalty(&self) -> Result<Penalty, LearnError> {
        let spec = self.spec;
        if spec.lambda == 0.0 {
            return Ok(Penalty::NONE.with_positive(spec.positive));
        }
        let penalty = Penalty::beside(spec.lambda, spec.eta, spec.scaling(), self.weight)?;
        Ok(penalty.with_positive(spec.positive))
    }

    /// Coefficients to begin with, in the data's units.
    fn start(&self, model: usize) -> &[f64] {
        match self.spec.start.is_empty() {
            true => &[],
            false => &self.spec.start[model * self.columns..][..self.columns],
        }
    }

    fn directly(
        &mut self,
        model: usize,
        targets: &[f64],
        weights: Option<&[f64]>,
        tell: Tell<'_>,
    ) -> Result<bool, LearnError> {
        if self.survey.is_none() {
            self.survey = Some(surveyed(self.master, self.examples)?);
        }
        let Some(survey) = &self.survey else { return Ok(false) };
        let penalty = self.penalty()?;
        let (of, intercept_price) = match self.spec.kind {
            Kind::Logistic => (Of::Logistic, 0.0),
            Kind::Svm => (Of::SquaredHinge, penalty.l2() / self.spec.intercept_scaling.powi(2)),
            _ => (Of::Squares, 0.0),
        };
        let narrow = Narrow {
            master: self.master,
            examples: self.examples,
            survey,
            deviations: &self.deviations,
            intercept: self.spec.intercept,
            intercept_price,
            by_conjugate_gradients: self.solver == Solver::NewtonCg,
            params: self.spec.params(),
        };
        let task = direct::Task {
            of,
            targets,
            weights,
            penalty,
            start: self.start(model),
            start_intercept: self.spec.start_intercepts.get(model).copied().unwrap_or(0.0),
        };
        let solved = narrow.solve(&task, &mut |round, objective, gap| tell(round, objective, gap, None))?;
        let Some(solved) = solved else { return Ok(false) };
        let rounds = solved.rounds + usize::from(model == 0);
        self.add(
            solved.coefficients,
            solved.intercept,
            (solved.objective, solved.bound),
            rounds,
            solved.outcome,
        );
        Ok(true)
    }

    /// All classes at once. Two of them have one model: half the difference of two, whose l2 penalty counts twice.
    fn together(
        &mut self,
        classes: &Classes,
        weights: Option<&[f64]>,
        tell: &mut dyn FnMut(usize, f64, f64),
    ) -> Result<(), LearnError> {
        let Some(survey) = &self.survey else { return Ok(()) };
        let (k, columns) = (classes.values().len(), self.columns);
        let penalty = self.penalty()?;
        let of_two =
            |of: &[f64]| [-0.5, 0.5].iter().flat_map(|half| of.iter().map(move |a| half * a)).collect();
        let of_classes = |of: &[f64]| -> Vec<f64> { if k == 2 { of_two(of) } else { of.to_vec() } };
        let start = [of_classes(&self.spec.start), of_classes(&self.spec.start_intercepts)].concat();
        let task = softmax::Task {
            master: self.master,
            examples: self.examples,
            survey,
            deviations: &self.deviations,
            intercept: self.spec.intercept,
            penalty: if k == 2 { penalty.with_l2(2.0 * penalty.l2()) } else { penalty },
            params: self.spec.params(),
            of_rows: classes.of_rows(),
            classes: k,
            weights,
            start: &start,
        };
        let mut rounds = 1;
        let mut solved = None;
        if self.solver == Solver::Direct {
            solved = task.by_newton(tell)?;
            if solved.is_none() {
                if self.spec.solver == Solver::Direct {
                    return Err(LearnError::Singular);
                }
                self.solver = Solver::Lbfgs;
                self.trained.why =
                    "the columns depend on each other so much that products of them cannot tell them apart"
                        .into();
                rounds += 1;
            }
        }
        let solved = match solved {
            Some(solved) => solved,
            None => task.by_lbfgs(tell)?,
        };
        let value = (solved.objective, solved.bound);
        rounds += solved.rounds;
        if k == 2 {
            let of_two = |all: &[f64]| all[all.len() / 2..].iter().zip(all).map(|(a, b)| a - b).collect();
            let (coefficients, intercepts): (Vec<f64>, Vec<f64>) =
                (of_two(&solved.coefficients), of_two(&solved.intercepts));
            self.add(coefficients, intercepts[0], value, rounds, solved.outcome);
            return Ok(());
        }
        self.trained.intercepts = solved.intercepts;
        let intercept = self.trained.intercepts.pop().unwrap_or(0.0);
        self.add(solved.coefficients, intercept, value, rounds, solved.outcome);
        self.trained.softmax = true;
        debug_assert_eq!(self.trained.coefficients.len(), k * columns);
        Ok(())
    }

    fn by_columns(
        &mut self,
        model: usize,
        targets: &[f64],
        weights: Option<&[f64]>,
        tell: Tell<'_>,
    ) -> Result<(), LearnError> {
        if self.dealt.is_none() {
            let scaled = self.scaled()?;
            let examples = scaled.as_ref().unwrap_or(self.examples);
            let dealt = Dealt::columns_of(examples, self.asked(examples.entries()))?;
            self.remark(dealt.partitions(), "columns");
            self.dealt = Some(dealt);
        }
        let Some(dealt) = &self.dealt else { return Ok(()) };
        let start: Vec<f64> =
            self.start(model).iter().enumerate().map(|(j, a)| a * self.deviation(j)).collect();
        let task = wide::Task { targets, weights, penalty: self.penalty()?, start: &start };
        let found = match self.spec.kind {
            Kind::Logistic => wide::logistic(self.master, dealt, &task, self.spec, tell)?,
            _ => wide::regress(self.master, dealt, &task, self.spec, tell)?,
        };
        let coefficients =
            found.coefficients.iter().enumerate().map(|(j, b)| b / self.deviation(j)).collect();
        self.add(coefficients, found.intercept, (found.objective, found.bound), found.rounds, found.outcome);
        self.trained.fit = found.fit;
        Ok(())
    }

    fn dually(&mut self, labels: &[f64], weights: Option<&[f64]>, tell: Tell<'_>) -> Result<(), LearnError> {
        let scaled = self.scaled()?;
        let examples = scaled.as_ref().unwrap_or(self.examples);
        let constant = if self.spec.intercept { self.spec.intercept_scaling } else { 0.0 };
        let asked = self.spec.partitions.unwrap_or_else(|| wide::row_partitions_for(examples.entries()));
        let dealt = Dealt::rows_of(examples, labels, constant, asked)?;
        let dealt = dealt.with_prices(weights)?;
        self.remark(dealt.partitions(), "rows");
        let price = 1.0 / self.penalty()?.l2();
        let found = wide::svm(self.master, &dealt, price, constant, self.spec, tell)?;
        let weight = |j: usize, w: &f64| w / self.deviation(j);
        let coefficients: Vec<f64> =
            found.coefficients.iter().enumerate().map(|(j, w)| weight(j, w)).collect();
        let objective = self.primal(&found, &coefficients, labels, weights, price, constant)?;
        self.add(coefficients, found.intercept, (objective, found.bound), found.rounds, found.outcome);
        self.trained.fit = found.fit;
        Ok(())
    }

    /// The objective that the weights of a support vector machine have, divided by C: one more round.
    fn primal(
        &self,
        found: &wide::Solution,
        coefficients: &[f64],
        labels: &[f64],
        weights: Option<&[f64]>,
        price: f64,
        constant: f64,
    ) -> Result<f64, LearnError> {
        let model = LinearModel::new(Kind::Ridge, coefficients.to_vec(), vec![found.intercept], vec![])?;
        let decisions = model.decision(self.master, self.examples)?;
        let loss = |(row, decision): (usize, &f64)| {
            let short = (1.0 - labels[row] * decision).max(0.0);
            let weight = weights.map_or(1.0, |weights| weights[row]);
            weight * if self.spec.margin == Margin::Hinge { short } else { short * short }
        };
        let losses: f64 = decisions.iter().enumerate().map(loss).sum();
        let own = if constant == 0.0 { 0.0 } else { found.intercept / constant };
        let square: f64 = found.coefficients.iter().map(|w| w * w).sum::<f64>() + own * own;
        Ok(0.5 * square / price + losses)
    }

    /// A copy of the rows with columns divided by their deviations, if that is asked for: in 64 bits, since 32 would round what
    /// was scaled. That all numbers are finite was found out with the deviations.
    fn scaled(&self) -> Result<Option<Rows>, LearnError> {
        if self.deviations.is_empty() {
            return Ok(None);
        }
        let inverse: Vec<f64> = self.deviations.iter().map(|deviation| 1.0 / deviation).collect();
        let rows = Affine::scale(inverse).rows(self.examples, true, &Keep::Memory);
        Ok(Some(rows.map_err(PrepareError::from)?))
    }

    fn deviation(&self, column: usize) -> f64 {
        self.deviations.get(column).copied().unwrap_or(1.0)
    }

    fn asked(&self, entries: u64) -> usize {
        self.spec.partitions.unwrap_or_else(|| wide::partitions_for(entries))
    }

    fn remark(&mut self, partitions: usize, of: &str) {
        self.trained.partitions = partitions;
        if let Some(asked) = self.spec.partitions.filter(|asked| *asked > partitions) {
            let remark = format!("{partitions} partitions, not {asked}: there are no more {of}");
            if !self.trained.remarks.contains(&remark) {
                self.trained.remarks.push(remark);
            }
        }
    }

    /// Adds what one model came to, in the ½-sum form.
    fn add(
        &mut self,
        coefficients: Vec<f64>,
        intercept: f64,
        (objective, bound): (f64, f64),
        rounds: usize,
        outcome: Outcome,
    ) {
        // CoCoA's last certificate may close the gap when its rounds are used up. Baselines always make all of theirs.
        let closed = self.spec.params().tolerance() * objective.abs();
        let outcome = match outcome {
            Outcome::RoundsUsedUp
                if self.solver == Solver::Cocoa && closed > 0.0 && objective - bound <= closed =>
            {
                Outcome::Converged
            }
            other => other,
        };
        let parts = &mut self.trained;
        parts.coefficients.extend(coefficients);
        parts.intercepts.push(intercept);
        parts.objective += objective;
        parts.gap += objective - bound;
        parts.rounds += rounds;
        let worse = |a: Outcome, b: Outcome| if rank(a) >= rank(b) { a } else { b };
        parts.outcome = Some(parts.outcome.map_or(outcome, |before| worse(before, outcome)));
    }

    fn finish(self, classes: Vec<f64>) -> Result<Trained, LearnError> {
        let parts = self.trained;
        let model = LinearModel::new(self.spec.kind, parts.coefficients, parts.intercepts, classes)?;
        Ok(Trained {
            model: if parts.softmax { model.with_softmax() } else { model },
            objective: self.spec.told(parts.objective, self.weight),
            gap: self.spec.told(parts.gap, self.weight).max(0.0),
            rounds: parts.rounds,
            outcome: parts.outcome.unwrap_or(Outcome::Converged),
            solver: self.solver,
            why: parts.why,
            partitions: parts.partitions,
            remarks: parts.remarks,
            fit: parts.fit,
        })
    }
}

/// How little an outcome says of the optimum.
fn rank(outcome: Outcome) -> u8 {
    match outcome {
        Outcome::Converged => 0,
        Outcome::TargetReached => 1,
        Outcome::Stalled => 2,
        Outcome::RoundsUsedUp => 3,
    }
}
