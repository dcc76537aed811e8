//! What a model consists of: named tensors and a few words.
//!
//! A model file is one way to keep them ([`save`](super::save), [`load`](super::load)), a dictionary of arrays in Python another.

use crate::kernels::nearest::Real;
use crate::options::Value;
use thiserror::Error;

/// How the models of a kind are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    /// What files call the kind.
    pub kind: &'static str,
    /// The newest version of the layout that this program knows.
    pub version: u32,
    /// Names of the [attributes](Parts::attributes) that a model needs.
    pub attributes: &'static [&'static str],
}

/// Numbers of a tensor.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// Of 32 bits.
    F32(Vec<f32>),
    /// Of 64 bits.
    F64(Vec<f64>),
    /// Of a type that no model of ours has. Its name is kept for messages; the numbers are not read.
    Foreign(String),
}

impl Values {
    /// Numbers as they are.
    pub fn of<T: Real>(values: &[T]) -> Values {
        match size_of::<T>() {
            4 => Values::F32(values.iter().map(|v| v.to_f64() as f32).collect()),
            _ => Values::F64(values.iter().map(|v| v.to_f64()).collect()),
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        match self {
            Values::F32(values) => values.len(),
            Values::F64(values) => values.len(),
            Values::Foreign(_) => 0,
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The same as 64-bit numbers; `None` where they were not read.
    pub fn widened(&self) -> Option<Vec<f64>> {
        match self {
            Values::F32(values) => Some(values.iter().map(|v| f64::from(*v)).collect()),
            Values::F64(values) => Some(values.clone()),
            Values::Foreign(_) => None,
        }
    }
}

/// Numbers with a name and a shape, row by row.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// Its name.
    pub name: String,
    /// Its dimensions.
    pub shape: Vec<usize>,
    /// Its numbers: as many as the product of the dimensions.
    pub values: Values,
}

impl Tensor {
    /// A tensor of these numbers.
    pub fn new<T: Real>(name: &str, shape: &[usize], values: &[T]) -> Tensor {
        Tensor { name: name.into(), shape: shape.to_vec(), values: Values::of(values) }
    }
}

/// Why parts make no model.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PartsError {
    /// A tensor is missing.
    #[error("it has no tensor {name}")]
    Missing {
        /// Its name.
        name: String,
    },
    /// A tensor has another number of dimensions.
    #[error("{name} has the shape {shape:?}")]
    Shape {
        /// Its name.
        name: String,
        /// Its dimensions.
        shape: Vec<usize>,
    },
    /// Numbers of another type.
    #[error("{name} is of type {dtype}")]
    Type {
        /// Its name.
        name: String,
        /// The type.
        dtype: String,
    },
    /// Parts that are there and do not belong together.
    #[error("{what}")]
    Inconsistent {
        /// What is wrong.
        what: String,
    },
}

impl PartsError {
    /// Parts that do not belong together.
    pub fn inconsistent(what: impl ToString) -> PartsError {
        PartsError::Inconsistent { what: what.to_string() }
    }
}

/// What a model consists of.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Parts {
    /// What files call the kind of the model.
    pub kind: &'static str,
    /// Version of the layout of these parts.
    pub version: u32,
    /// All that was fitted.
    pub tensors: Vec<Tensor>,
    /// Words and numbers that the model needs besides. In files they are among what came of the fit.
    pub attributes: Vec<(String, Value)>,
}

impl Parts {
    /// Parts of a kind without attributes.
    pub fn new(format: Format, tensors: Vec<Tensor>) -> Parts {
        Parts { kind: format.kind, version: format.version, tensors, attributes: vec![] }
    }

    /// The tensor of this name, if it is there.
    pub fn get(&self, name: &str) -> Option<&Tensor> {
        self.tensors.iter().find(|tensor| tensor.name == name)
    }

    /// A tensor of 32- or 64-bit numbers with so many dimensions: its shape and numbers.
    pub fn tensor<const N: usize>(&self, name: &str) -> Result<([usize; N], Vec<f64>), PartsError> {
        let tensor = self.get(name).ok_or_else(|| PartsError::Missing { name: name.into() })?;
        let Ok(shape) = <[usize; N]>::try_from(&tensor.shape[..]) else {
            return Err(PartsError::Shape { name: name.into(), shape: tensor.shape.clone() });
        };
        match (&tensor.values, tensor.values.widened()) {
            (_, Some(values)) => Ok((shape, values)),
            (Values::Foreign(dtype), _) => Err(PartsError::Type { name: name.into(), dtype: dtype.clone() }),
            (_, None) => unreachable!("numbers of 32 and 64 bits can be widened"),
        }
    }

    /// A word.
    pub fn word(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(known, _)| known == name).and_then(|(_, value)| match value {
            Value::Text(text) => Some(text.as_str()),
            _ => None,
        })
    }

    /// A hash of the bits of all numbers, tensor by tensor.
    pub fn hash(&self) -> String {
        hash(&self.tensors.iter().filter_map(|tensor| tensor.values.widened()).flatten().collect::<Vec<_>>())
    }
}

/// The first half of a cryptographic hash of the bits of numbers, widened to 64 bits.
///
/// ```
/// assert_eq!(qjam_algos::models::hash(&[1.0_f32]), qjam_algos::models::hash(&[1.0_f64]));
/// ```
pub fn hash<T: Real>(values: &[T]) -> String {
    let mut hasher = blake3::Hasher::new();
    values.iter().for_each(|v| {
        hasher.update(&v.to_f64().to_bits().to_le_bytes());
    });
    hasher.finalize().to_hex()[..32].to_string()
}
