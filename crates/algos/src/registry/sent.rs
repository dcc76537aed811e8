//! A model on its way to workers, and what it answers there about the rows of a chunk.
//!
//! Comes in: the [`Parts`] of any model. Goes out: the model again, assembled by the learner that the registry has for its kind, so
//! that rounds need to know nothing of the model. A process keeps the last model, since a round asks it for every chunk.

use crate::learner::{About, Answer, LearnerError, Model, Question};
use crate::linear::rows::RowChunk;
use crate::models::{Parts, Tensor, Values};
use crate::options::Value;
use crate::registry;
use qjam::{Csr, DataError, DataSet, Dense, Rows};
use std::sync::{Arc, Mutex, PoisonError};

/// The parts of a model as rounds take them.
#[derive(Clone, Debug, qjam::Wire)]
pub(crate) struct SentModel {
    kind: String,
    version: u32,
    /// What tells it from others.
    name: String,
    tensors: Vec<SentTensor>,
    words: Vec<(String, String)>,
}

#[derive(Clone, Debug, qjam::Wire)]
struct SentTensor {
    name: String,
    shape: Vec<u64>,
    is_single: bool,
    values: Vec<f64>,
}

impl SentModel {
    /// What is sent of a model.
    pub(crate) fn of(model: &dyn Model) -> SentModel {
        let parts = model.parts();
        let words: Vec<(String, String)> = parts.attributes.iter().filter_map(word).collect();
        let tensors: Vec<SentTensor> = parts
            .tensors
            .iter()
            .filter_map(|tensor| {
                Some(SentTensor {
                    name: tensor.name.clone(),
                    shape: tensor.shape.iter().map(|length| *length as u64).collect(),
                    is_single: matches!(tensor.values, Values::F32(_)),
                    values: tensor.values.widened()?,
                })
            })
            .collect();
        // Numbers alone would be the same for two rows of three and three rows of two.
        let shapes: Vec<_> = tensors.iter().map(|sent| (&sent.name, &sent.shape, sent.is_single)).collect();
        let name = format!("{} {words:?} {shapes:?} {}", parts.kind, parts.hash());
        SentModel { kind: parts.kind.into(), version: parts.version, name, tensors, words }
    }

    /// The model, which this process may have assembled before.
    pub(crate) fn model(&self) -> Result<Arc<dyn Model>, LearnerError> {
        static LAST: Mutex<Option<(String, Arc<dyn Model>)>> = Mutex::new(None);
        if let Some((name, model)) = &*LAST.lock().unwrap_or_else(PoisonError::into_inner)
            && *name == self.name
        {
            return Ok(model.clone());
        }
        let model: Arc<dyn Model> = self.assembled()?.into();
        let last = Some((self.name.clone(), model.clone()));
        *LAST.lock().unwrap_or_else(PoisonError::into_inner) = last;
        Ok(model)
    }

    fn assembled(&self) -> Result<Box<dyn Model>, LearnerError> {
        let learner = registry::of_kind(&self.kind).expect("models come from learners of the registry");
        let tensor = |sent: &SentTensor| Tensor {
            name: sent.name.clone(),
            shape: sent.shape.iter().map(|length| *length as usize).collect(),
            values: match sent.is_single {
                true => Values::F32(sent.values.iter().map(|value| *value as f32).collect()),
                false => Values::F64(sent.values.clone()),
            },
        };
        let parts = Parts {
            kind: learner.format().kind,
            version: self.version,
            tensors: self.tensors.iter().map(tensor).collect(),
            attributes: self.words.iter().map(|(name, text)| (name.clone(), attribute(text))).collect(),
        };
        registry::assemble(learner, &parts)
    }
}

/// An attribute as a text whose first letter says what it is. All bits of a number are in it.
fn word((name, value): &(String, Value)) -> Option<(String, String)> {
    let text = match value {
        Value::Integer(n) => format!("i{n}"),
        Value::Real(x) => format!("r{}", x.to_bits()),
        Value::Flag(yes) => format!("f{}", u8::from(*yes)),
        Value::Text(text) => format!("t{text}"),
    };
    Some((name.clone(), text))
}

fn attribute(text: &str) -> Value {
    let (kind, rest) = text.split_at(1);
    let number = || rest.parse().unwrap_or_default();
    match kind {
        "i" => Value::Integer(number()),
        "r" => Value::Real(f64::from_bits(number())),
        "f" => Value::Flag(rest == "1"),
        _ => Value::Text(rest.into()),
    }
}

/// Chunks that can be asked about on their own.
pub(crate) trait AskedChunk: RowChunk {
    /// A data set of this chunk alone.
    fn alone(&self) -> Result<Rows, DataError>;

    /// The answers of a model about these rows.
    fn answers(&self, model: &dyn Model, question: Question) -> Result<Answer, LearnerError> {
        let rows = self.alone().map_err(qjam::Error::from)?;
        model.answer(question, &About::chunk(&rows, 0))
    }
}

macro_rules! asked {
    ($($value:ty),*) => {$(
        impl AskedChunk for Dense<$value> {
            fn alone(&self) -> Result<Rows, DataError> {
                Ok(DataSet::dense(self.as_slice().to_vec(), self.cols())?.partitions(1)?.into())
            }
        }
        impl AskedChunk for Csr<$value> {
            fn alone(&self) -> Result<Rows, DataError> {
                Ok(DataSet::csr(self)?.partitions(1)?.into())
            }
        }
    )*};
}
asked!(f32, f64);

/// The numbers of an answer, so many for each row.
pub(crate) fn numbers(answer: Answer) -> (Vec<f64>, usize) {
    match answer {
        Answer::Labels(labels) => (labels.into_iter().map(f64::from).collect(), 1),
        Answer::Values(values) => (values, 1),
        Answer::Singles(values, columns) => (values.into_iter().map(f64::from).collect(), columns),
        Answer::Doubles(values, columns) => (values, columns),
        Answer::Number(number) => (vec![number], 1),
    }
}
