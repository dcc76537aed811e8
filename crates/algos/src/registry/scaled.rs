//! Columns brought to one scale in front of any learner: the scaling is fitted with the model, kept with it, and applied to whatever
//! the model is asked about.
//!
//! ```text
//!   fit:     rows ──▶ one round: columns ──▶ rows, scaled (in memory, or in a file beside it) ──▶ the learner's own fit
//!   answer:  each chunk, scaled where it lies ──▶ the model's own answer
//! ```
//!
//! Rows of weight 0 have no say in the scale, so cross-validation fits it without the rows of a fold. Sparse rows are divided and not
//! centred. A model of kind [`FORMAT`] has the tensors of the model behind the scaling, its attributes, and `of`, its kind.
//!
//! ```
//! use qjam::Master;
//! use qjam_algos::learner::{About, Job, Learner, Question, Training, sample};
//! use qjam_algos::preprocessing::Kind;
//! use qjam_algos::registry::{find, scaled::Scaled};
//!
//! let learner = find("pca").expect("there is one of this name");
//! let (master, data) = (Master::connect("local:1")?, sample::small(learner));
//! let training = Training::new(&data.rows);
//! let (settings, observer) = (&data.settings, &mut |_: &qjam_algos::learner::Progress<'_>| {});
//! let mut job = Job { master: &master, settings, training, memory_limit: None, observer };
//! let fitted = Scaled::new(learner, Kind::Standard).fit(&mut job)?;
//! // The model takes rows as they are.
//! let _coordinates = fitted.model.answer(Question::Transform, &About::all(&master, &data.rows))?;
//! assert_eq!((fitted.model.kind(), fitted.model.parts().kind), ("pca", "scaled"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use super::sent::{AskedChunk, SentModel, numbers};
use crate::answers::{BadNumber, further, not_finite};
use crate::clustering::kmeans::parts;
use crate::input::{InputError, Problem};
use crate::learner::{
    About, Answer, Fitted, Job, Learner, LearnerError, Model, Question, Scope, Training, Weights,
};
use crate::linear::affine::Affine;
use crate::models::{Format, OF, Parts, PartsError, SCALED, Tensor, hash};
use crate::options::{Settings, Table, Value};
use crate::preprocessing::{Kind, Params, ScalerModel, seen};
use crate::registry;
use qjam::source::kept::Keep;
use qjam::{Csr, Ctx, DataSet, Dense, Master, Reduce, Rows, with_rows};
use thiserror::Error;

/// The version of the layout of the model behind the scaling. [`OF`] is its kind.
pub const OF_VERSION: &str = "of_version";
/// How files have these models.
pub const FORMAT: Format = Format { kind: SCALED, version: 1, attributes: &[OF, OF_VERSION] };

const SHIFT: &str = "scaling.shift";
const FACTOR: &str = "scaling.factor";
const OFFSET: &str = "scaling.offset";
/// Numbers of scaled rows that stay in memory; more are written to a file, as readers do.
const MEMORY_BYTES_MAX: u64 = 64 << 20;

/// A learner that gets scaled rows.
#[derive(Debug)]
pub struct Scaled {
    learner: &'static dyn Learner,
    by: Kind,
}

impl Scaled {
    /// This learner, behind this scaling.
    pub const fn new(learner: &'static dyn Learner, by: Kind) -> Scaled {
        Scaled { learner, by }
    }
}

impl Learner for Scaled {
    fn table(&self) -> &'static Table {
        self.learner.table()
    }

    fn format(&self) -> Format {
        FORMAT
    }

    fn questions(&self) -> &'static [Question] {
        self.learner.questions()
    }

    fn check(&self, settings: &Settings) -> Result<(), LearnerError> {
        self.learner.check(settings)
    }

    fn fit(&self, job: &mut Job<'_>) -> Result<Fitted, LearnerError> {
        let (name, training) = (self.table().name, job.training);
        if let Some(array) = training.start.and_then(|start| start.tensors.first()) {
            return Err(Problem::Units { array: array.name.clone() }.of(name).into());
        }
        let mut params = Params::new(self.by);
        let mut remarks = vec![];
        if training.rows.is_sparse() {
            if self.by == Kind::MinMax {
                return Err(LearnerError::Sparse { learner: "min-max scaling" });
            }
            params = params.uncentred();
            remarks.push(
                "sparse rows are divided by deviations and not centred, so that zeros stay zeros".into(),
            );
        }
        job.must_fit(4)?;
        let found = with_rows!(training.rows, data => seen(job.master, data, training.weights, name))?;
        let scaler = ScalerModel::new(params, found);
        let by = scaler.affine();
        let most = job.memory_limit.map_or(MEMORY_BYTES_MAX, |limit| MEMORY_BYTES_MAX.min(limit / 16));
        let rows =
            by.rows(training.rows, false, &kept(training.rows, &by, most)).map_err(qjam::Error::from)?;
        let training = Training { rows: &rows, ..training };
        let (master, settings, memory_limit) = (job.master, job.settings, job.memory_limit);
        let observer = &mut *job.observer;
        let mut fitted = self.learner.fit(&mut Job { master, settings, training, memory_limit, observer })?;
        if scaler.constant() > 0 {
            remarks.push(format!(
                "columns that are the same in all rows are not divided: {}",
                scaler.constant()
            ));
        }
        let (word, text) = match self.by {
            Kind::MinMax => ("minmax", "columns to the range from 0 to 1"),
            _ if by.shift.is_empty() => ("standard", "columns to variance 1"),
            _ => ("standard", "columns to mean 0 and variance 1"),
        };
        fitted.report.lines.insert(0, ("scaling", format!("{text}, kept with the model")));
        fitted.report.facts.push(("scaled_by", Value::Text(word.into())));
        fitted.report.remarks.extend(remarks);
        Ok(Fitted { model: Box::new(ScaledModel { by, model: fitted.model }), ..fitted })
    }

    fn leaves_out_weightless(&self) -> bool {
        self.learner.leaves_out_weightless()
    }

    /// The parts say which learner the model behind the scaling is of.
    fn assemble(&self, parts: &Parts) -> Result<Box<dyn Model>, PartsError> {
        Ok(Box::new(ScaledModel::of_parts(parts)?))
    }

    fn array_options(&self) -> Vec<(&'static str, &'static str)> {
        self.learner.array_options()
    }

    fn takes_negative(&self) -> bool {
        self.learner.takes_negative()
    }

    fn sample_options(&self) -> &'static [(&'static str, &'static str)] {
        self.learner.sample_options()
    }
}

/// Where scaled rows are kept. The name follows from the rows and from what is done to them.
fn kept(rows: &Rows, by: &Affine, memory_bytes_max: u64) -> Keep {
    let id: String = rows.id().0.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    let with = hash(&[&by.shift[..], &by.factor, &[by.offset, by.shift.len() as f64]].concat());
    Keep::Cached { name: format!("scaled-{id}-{with}.qjam"), memory_bytes_max }
}

/// A scaling and the model behind it.
#[derive(Debug)]
pub struct ScaledModel {
    by: Affine,
    model: Box<dyn Model>,
}

impl ScaledModel {
    fn of_parts(parts: &Parts) -> Result<ScaledModel, PartsError> {
        let kind =
            parts.word(OF).ok_or_else(|| PartsError::inconsistent("it does not say what is scaled"))?;
        let learner = registry::of_kind(kind).filter(|learner| learner.format().kind != FORMAT.kind);
        let learner = learner.ok_or_else(|| {
            PartsError::inconsistent(format!("what is scaled is of kind {kind}, which is not known"))
        })?;
        let ([_], shift) = parts.tensor(SHIFT)?;
        let ([_], factor) = parts.tensor(FACTOR)?;
        let ([_], offset) = parts.tensor(OFFSET)?;
        let format = learner.format();
        let is_own = |name: &str| [SHIFT, FACTOR, OFFSET].contains(&name);
        let behind = Parts {
            kind: format.kind,
            version: format.version,
            tensors: parts.tensors.iter().filter(|tensor| !is_own(&tensor.name)).cloned().collect(),
            attributes: parts
                .attributes
                .iter()
                .filter(|(name, _)| !FORMAT.attributes.contains(&name.as_str()))
                .cloned()
                .collect(),
        };
        let model = learner.assemble(&behind)?;
        let is_one = offset.len() == 1
            && factor.len() == model.columns()
            && (shift.is_empty() || shift.len() == factor.len());
        match is_one {
            true => Ok(ScaledModel { by: Affine { shift, factor, offset: offset[0], clip: None }, model }),
            false => Err(PartsError::inconsistent("the scaling and what is scaled do not belong together")),
        }
    }

    /// Refuses rows that cannot be scaled so.
    fn must_fit(&self, about: &About<'_>) -> Result<(), LearnerError> {
        let name = self.kind();
        let weight = usize::from(about.weights == Weights::InRows && !about.rows.is_sparse());
        let (found, expected) = (about.rows.cols().map_err(qjam::Error::from)? - weight, self.columns());
        if found != expected {
            return Err(Problem::Columns { found, expected }.of(name).into());
        }
        match about.rows.is_sparse() && !self.by.keeps_zeros() {
            true => Err(Problem::Centre.of(name).into()),
            false => Ok(()),
        }
    }

    /// An answer in the units of the data.
    fn told(&self, question: Question, answer: Answer) -> Answer {
        if question != Question::Reconstruct {
            return answer;
        }
        match answer {
            Answer::Doubles(mut values, columns) => {
                self.by.undo(&mut values);
                Answer::Doubles(values, columns)
            }
            Answer::Singles(values, columns) => {
                let mut values: Vec<f64> = values.into_iter().map(f64::from).collect();
                self.by.undo(&mut values);
                Answer::Singles(values.iter().map(|value| *value as f32).collect(), columns)
            }
            other => other,
        }
    }
}

impl Model for ScaledModel {
    fn columns(&self) -> usize {
        self.by.factor.len()
    }

    fn kind(&self) -> &'static str {
        self.model.kind()
    }

    fn parts(&self) -> Parts {
        let mut parts = self.model.parts();
        let own = [(SHIFT, &self.by.shift[..]), (FACTOR, &self.by.factor), (OFFSET, &[self.by.offset])];
        parts.tensors.extend(own.map(|(name, values)| Tensor::new(name, &[values.len()], values)));
        parts.attributes.push((OF.into(), Value::Text(parts.kind.into())));
        parts.attributes.push((OF_VERSION.into(), Value::Integer(u64::from(parts.version))));
        Parts { kind: FORMAT.kind, version: FORMAT.version, ..parts }
    }

    fn answer(&self, question: Question, about: &About<'_>) -> Result<Answer, LearnerError> {
        self.must_fit(about)?;
        let rows = match about.scope {
            Scope::Chunk(index) => self.by.chunk(about.rows, index),
            // One number for all rows is not made of those of chunks.
            Scope::All(_) if question == Question::Score || about.weights != Weights::None => {
                self.by.rows(about.rows, false, &kept(about.rows, &self.by, MEMORY_BYTES_MAX))
            }
            Scope::All(master) => {
                return with_rows!(about.rows, data => in_chunks(master, self, question, data));
            }
        };
        let rows = rows.map_err(qjam::Error::from)?;
        let scope = match about.scope {
            Scope::Chunk(_) => Scope::Chunk(0),
            all => all,
        };
        let answer = self.model.answer(question, &About { rows: &rows, scope, ..*about })?;
        Ok(self.told(question, answer))
    }

    fn classes(&self) -> Vec<f64> {
        self.model.classes()
    }

    fn score_name(&self) -> &'static str {
        self.model.score_name()
    }

    fn compared(&self, rows: Vec<f64>) -> Vec<f64> {
        let mut rows = rows;
        for row in rows.chunks_exact_mut(self.columns().max(1)) {
            row.iter_mut().enumerate().for_each(|(column, value)| *value = self.by.of(column, *value));
        }
        self.model.compared(rows)
    }
}

/// What a round asks.
#[derive(Clone, Debug, qjam::Wire)]
pub(crate) struct Asked {
    model: SentModel,
    question: String,
}

/// The answers of some rows, one chunk behind the other.
#[derive(Clone, Debug, PartialEq, qjam::Wire)]
pub(crate) struct Told {
    rows: u64,
    numbers: Vec<f64>,
    /// Numbers for each row.
    width: u64,
    /// The variant of [`Answer`].
    shape: u8,
    bad: BadNumber,
    wrong: Option<String>,
}

impl Reduce for Told {
    fn merge(&mut self, right: Self) {
        self.bad = self.bad.or(further(right.bad, self.rows));
        self.wrong = self.wrong.take().or(right.wrong);
        self.numbers.extend(right.numbers);
        self.rows += right.rows;
    }
}

/// Why a chunk has no answers.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
struct NoAnswers(String);

/// The answers about the rows of a chunk.
#[qjam::map]
pub(crate) fn ask<C: AskedChunk>(asked: &Asked, x: &C, _: &Ctx) -> Told {
    let question = Question::named(&asked.question).unwrap_or(Question::Predict);
    let answer = asked.model.model().and_then(|model| x.answers(&*model, question));
    let mut told =
        Told { rows: x.count() as u64, numbers: vec![], width: 1, shape: 0, bad: None, wrong: None };
    match answer {
        Ok(answer) => {
            told.shape = shape_of(&answer);
            let (values, width) = numbers(answer);
            (told.numbers, told.width) = (values, width as u64);
        }
        Err(e) => match not_finite(x) {
            Some(bad) => told.bad = Some(bad),
            None => told.wrong = Some(e.to_string()),
        },
    }
    told
}
qjam::register!(ask::<Dense<f32>>, ask::<Dense<f64>>, ask::<Csr<f32>>, ask::<Csr<f64>>);

fn shape_of(answer: &Answer) -> u8 {
    match answer {
        Answer::Labels(_) => 0,
        Answer::Values(_) => 1,
        Answer::Singles(..) => 2,
        Answer::Doubles(..) => 3,
        Answer::Number(_) => 4,
    }
}

/// The answers about all rows, by workers that scale them where they lie.
fn in_chunks<C: AskedChunk>(
    master: &Master,
    model: &ScaledModel,
    question: Question,
    data: &DataSet<C>,
) -> Result<Answer, LearnerError> {
    // What is not answered is told before anybody works on it.
    model.model.answer_here(question, &vec![0.0; model.columns()])?;
    let data = data.partitions(parts(data.records())).map_err(qjam::Error::from)?;
    let asked = Asked { model: SentModel::of(model), question: question.name().into() };
    let told = master.run(ask::<C>, &asked, &data)?;
    if let Some((row, column, value)) = told.bad {
        let problem = Problem::NotFinite { row, column, value };
        return Err(InputError::Unusable { learner: model.kind(), problem }.into());
    }
    if let Some(wrong) = told.wrong {
        return Err(LearnerError::unusable(NoAnswers(wrong)));
    }
    let (numbers, width) = (told.numbers, told.width as usize);
    Ok(match told.shape {
        0 => Answer::Labels(numbers.iter().map(|number| *number as u32).collect()),
        1 => Answer::Values(numbers),
        2 => Answer::Singles(numbers.iter().map(|number| *number as f32).collect(), width),
        _ => Answer::Doubles(numbers, width),
    })
}
