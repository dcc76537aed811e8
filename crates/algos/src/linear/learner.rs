//! The linear learners as callers see them that take any learner.

use super::classes::{CLASSES_MAX, Classes};
use super::model::FORMAT;
use super::{
    Choice, FitError, Kind, LearnError, LinearModel, ModelError, Outcome, PrepareError, Spec, Trained, train,
};
use crate::learner::{
    self, About, Answer, Fitted, Job, Learner, LearnerError, Progress, Question, Report, Scope, count,
    sort_model_errors,
};
use crate::models::{Format, Parts, PartsError, hash};
use crate::options::{Settings, Table, Value};
use qjam::with_rows;

/// Vectors as long as a row that every solver has at a time: coefficients, gradients, and their history.
const VECTORS: usize = 8;

/// One of the five.
#[derive(Debug)]
pub struct Linear(pub Kind);

impl Learner for Linear {
    fn table(&self) -> &'static Table {
        self.0.table()
    }

    fn format(&self) -> Format {
        FORMAT
    }

    fn questions(&self) -> &'static [Question] {
        match self.0 {
            Kind::Logistic => &[Question::Predict, Question::Probabilities, Question::Decisions],
            Kind::Svm => &[Question::Predict, Question::Decisions],
            Kind::Ridge | Kind::Lasso | Kind::ElasticNet => &[Question::Predict],
        }
    }

    fn check(&self, settings: &Settings) -> Result<(), LearnerError> {
        Spec::from_settings(settings).map(drop).map_err(LearnerError::unusable)
    }

    fn fit(&self, job: &mut Job<'_>) -> Result<Fitted, LearnerError> {
        let mut spec = Spec::from_settings(job.settings).map_err(LearnerError::unusable)?;
        job.must_fit(VECTORS)?;
        if matches!(self.0, Kind::Logistic | Kind::Svm)
            && job.must_fit(VECTORS.saturating_add(CLASSES_MAX)).is_err()
        {
            // A few classes may fit where the most would not.
            let classes =
                Classes::of(job.targets()?, job.row_weights()).map_err(|e| sorted(e, job.settings))?;
            job.must_fit(VECTORS.saturating_add(classes.models()))?;
        }
        if let Some(start) = job.training.start {
            let wrong = |source| LearnerError::Parts { learner: self.0.name(), source };
            spec = spec.with_start(start.tensor::<2>("coefficients").map_err(wrong)?.1);
            if start.get("intercepts").is_some() {
                spec = spec.with_start_intercepts(start.tensor::<1>("intercepts").map_err(wrong)?.1);
            }
        }
        let (rows, targets, weights) = (job.training.rows, job.targets()?, job.row_weights());
        let (observer, settings, master) = (&mut job.observer, job.settings, job.master);
        let rounds_max = settings.integer("max_iter").ok();
        let tell = |seen: &super::Progress<'_>| {
            let which = match seen.models {
                1 => String::new(),
                models => format!("model {} of {models}, ", seen.model + 1),
            };
            let (round, objective, gap) = (seen.round, seen.objective, seen.gap);
            master.record_metric("objective", objective);
            master.record_metric("gap", gap);
            observer(&Progress {
                step: round as u64,
                steps_max: rounds_max.filter(|_| seen.models == 1),
                text: &format_args!("{which}round {round}: objective {objective:.8e}, gap {gap:.2e}"),
                phase_done: None,
            });
        };
        let trained =
            train(job.master, rows, targets, weights, &spec, tell).map_err(|e| sorted(e, settings))?;
        let answer = match job.training.answers {
            true => Some(Answer::Values(trained.model.predict(job.master, rows)?)),
            false => None,
        };
        let report = report(settings, &trained, rows.records());
        Ok(Fitted { model: Box::new(trained.model), report, answer })
    }

    fn assemble(&self, parts: &Parts) -> Result<Box<dyn learner::Model>, PartsError> {
        Ok(Box::new(LinearModel::of_parts(parts)?))
    }
}

fn sorted(e: LearnError, settings: &Settings) -> LearnerError {
    let option = |name: &str, value: &str| format!("{} {value}", settings.spelled(name));
    match e {
        LearnError::Fit(FitError::Run(e)) | LearnError::Run(e) => LearnerError::Run(e),
        LearnError::Data(PrepareError::Data(e)) => LearnerError::Run(e.into()),
        LearnError::Data(PrepareError::NotFinite { .. }) => LearnerError::not_finite(e, vec![]),
        LearnError::Model(e) => e.into(),
        LearnError::NotTogether { .. } => {
            LearnerError::remedied(e, [option("solver", "auto"), option("multi_class", "ovr")])
        }
        LearnError::TooManyClasses { .. } => LearnerError::remedied(e, [option("multi_class", "ovr")]),
        LearnError::TooWide { .. }
        | LearnError::NoPenalty { .. }
        | LearnError::NotPositive { .. }
        | LearnError::TooMany { .. }
        | LearnError::NotApart
        | LearnError::Singular => LearnerError::remedied(e, [option("solver", "auto")]),
        e => LearnerError::unusable(e),
    }
}

sort_model_errors!(ModelError as e {
    ModelError::File(e) => LearnerError::File(e),
    ModelError::NoProbabilities { .. } => {
        LearnerError::NoAnswer { question: Question::Probabilities, source: e.into() }
    },
    ModelError::NoDecisions { .. } => {
        LearnerError::NoAnswer { question: Question::Decisions, source: e.into() }
    },
    e => LearnerError::unusable(e),
});

fn report(settings: &Settings, trained: &Trained, rows: u64) -> Report {
    let (model, outcome) = (&trained.model, trained.outcome);
    let nonzero = model.coefficients().iter().filter(|a| **a != 0.0).count();
    let mut facts = vec![
        ("objective", Value::Real(trained.objective)),
        ("gap", Value::Real(trained.gap)),
        ("rounds", Value::Integer(trained.rounds as u64)),
        ("outcome", Value::Text(outcome.name().into())),
        ("converged", Value::Flag(outcome == Outcome::Converged)),
        ("solver", Value::Text(trained.solver.name().into())),
        ("nonzero", Value::Integer(nonzero as u64)),
        ("columns", Value::Integer(model.features() as u64)),
        ("rows", Value::Integer(rows)),
    ];
    if trained.partitions > 0 {
        facts.push(("partitions", Value::Integer(trained.partitions as u64)));
    }
    if !model.classes().is_empty() {
        facts.push(("classes", Value::Integer(model.classes().len() as u64)));
    }
    let choices = || trained.fit.iter().flat_map(|fit| &fit.choices);
    if settings.word("tuning") == Ok(Some("clock")) && trained.fit.is_some() {
        facts.push(("choices", Value::Text(choices().map(noted).collect::<Vec<_>>().join("; "))));
    }
    let solver = format!("solver {}: {}", trained.solver.name(), trained.why);
    let advice = match outcome {
        Outcome::RoundsUsedUp => {
            let (more, less) = (settings.spelled("max_iter"), settings.spelled("tol"));
            Some(format!("not converged; give more with {more}, or accept less with {less}"))
        }
        Outcome::Stalled => {
            let (tol, standardize) = (settings.spelled("tol"), settings.spelled("standardize"));
            Some(format!(
                "the gap is as small as rounding lets it be and over {tol}; columns of very different sizes may be a reason: {standardize}"
            ))
        }
        Outcome::Converged | Outcome::TargetReached => None,
    };
    Report {
        size: count(model.features() as u64, "column"),
        lines: lines(trained),
        facts,
        lists: vec![],
        choices: choices().map(record).collect(),
        explanation: std::iter::once(solver).chain(choices().map(Choice::to_string)).collect(),
        remarks: trained.remarks.clone(),
        advice,
        failure: None,
        phase: "training",
        answers_file: if model.kind().classifies() { "classes.npy" } else { "values.npy" },
    }
}

/// A choice in a model's notes: both numbers in digits that give the same bits again.
fn noted(choice: &Choice) -> String {
    format!("round {}: h {} sigma {}", choice.round, choice.work, choice.sigma)
}

fn record(choice: &Choice) -> Vec<(&'static str, Value)> {
    vec![
        ("round", Value::Integer(choice.round as u64)),
        ("work", Value::Real(choice.work)),
        ("sigma", Value::Real(choice.sigma)),
        ("reason", Value::Text(choice.reason.to_string())),
    ]
}

fn lines(trained: &Trained) -> Vec<(&'static str, String)> {
    let rounds = count(trained.rounds as u64, "round");
    let result = match trained.outcome {
        Outcome::Converged => format!("converged after {rounds}"),
        Outcome::TargetReached => format!("target reached after {rounds}"),
        Outcome::Stalled => format!("stopped after {rounds}: they gain nothing any more"),
        Outcome::RoundsUsedUp => format!("stopped after {rounds}, before convergence"),
    };
    let certificate = match trained.gap.is_finite() {
        true => format!(
            "{:.9e}, above the best one by at most {:.2e} ({:.1e} of it)",
            trained.objective,
            trained.gap,
            trained.gap / trained.objective.abs().max(f64::MIN_POSITIVE)
        ),
        false => format!("{:.9e}, without a certificate", trained.objective),
    };
    let name = trained.solver.name();
    let solver = match trained.partitions {
        0 => format!("{name}: {}", trained.why),
        n => format!("{name}, {}: {}", count(n as u64, "partition"), trained.why),
    };
    let found = described(&trained.model);
    vec![("result", result), ("objective", certificate), ("solver", solver), ("found", found)]
}

/// What a model has, for people.
fn described(model: &LinearModel) -> String {
    let nonzero = model.coefficients().iter().filter(|a| **a != 0.0).count();
    let mut text = format!("{nonzero} of {} coefficients are not 0", model.coefficients().len());
    match (model.intercepts(), model.classes()) {
        ([intercept], []) => text.push_str(&format!(", intercept {intercept:.6}")),
        ([intercept], [no, yes]) => {
            text.push_str(&format!(", intercept {intercept:.6}; for class {yes} and against {no}"));
        }
        (_, classes) => {
            let how = if model.is_softmax() { "together" } else { "each against the rest" };
            text.push_str(&format!(", for {} classes {how}", classes.len()));
        }
    }
    text
}

impl learner::Model for LinearModel {
    fn columns(&self) -> usize {
        self.features()
    }

    fn parts(&self) -> Parts {
        LinearModel::parts(self)
    }

    /// Classes come from the data: they are left out.
    fn hash(&self) -> String {
        hash(&[self.coefficients(), self.intercepts()].concat())
    }

    fn answer(&self, question: Question, about: &About<'_>) -> Result<Answer, LearnerError> {
        let probabilities = |values| Answer::Doubles(values, self.classes().len());
        let decisions = |values| match self.outputs() {
            1 => Answer::Values(values),
            outputs => Answer::Doubles(values, outputs),
        };
        if question == Question::Decisions && !self.kind().classifies() {
            return Err(ModelError::NoDecisions { learner: self.kind().name() }.into());
        }
        let rows = about.rows;
        Ok(match (question, about.scope) {
            (Question::Predict, Scope::All(master)) => Answer::Values(self.predict(master, rows)?),
            (Question::Probabilities, Scope::All(master)) => {
                probabilities(LinearModel::probabilities(self, master, rows)?)
            }
            (Question::Decisions, Scope::All(master)) => decisions(self.decision(master, rows)?),
            (_, Scope::Chunk(index)) => with_rows!(rows, data => {
                let chunk = data.chunk(index).map_err(qjam::Error::from)?;
                match question {
                    Question::Predict => Answer::Values(self.predict_of(&chunk)?),
                    Question::Probabilities => probabilities(self.probabilities_of(&chunk)?),
                    Question::Decisions => decisions(self.decision_of(&chunk)?),
                    other => return Err(LearnerError::unanswered("linear", other)),
                }
            }),
            (other, _) => return Err(LearnerError::unanswered("linear", other)),
        })
    }
}
