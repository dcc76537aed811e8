//! What a Python function gave for a chunk, and adding up two of them where they are numbers.

use super::code::CodeId;
use super::pickled::{Pickled, put_bytes, take_bytes};
use bytes::Bytes;
use qjam_data::codec::{DecodeError, Decoder, Encoder, Wire};

/// A result of a Python function.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    /// The code it came from, which says how to combine it.
    pub code: CodeId,
    /// The result.
    pub body: Body,
}

/// A result as numbers that can be added here, or as a pickle.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// Only Python knows.
    Pickled(Pickled),
    /// Numbers, arrays, and lists and tuples of them, of a function without its own `reduce`. Two with the same shape
    /// and leaves of the same lengths are added leaf by leaf, with the bits that Python would give.
    Numbers {
        /// How to put it together again; only Python reads it.
        shape: Bytes,
        /// The numbers.
        leaves: Vec<Leaf>,
    },
}

/// Numbers of one type.
#[derive(Clone, Debug, PartialEq)]
pub enum Leaf {
    /// Doubles, or the parts of complex numbers.
    F64(Vec<f64>),
    /// Single precision, likewise.
    F32(Vec<f32>),
    /// Integers of an array. A sum that needs more bits is left to Python, which says where it is and raises.
    I64(Vec<i64>),
    /// An integer of Python's. A sum that needs more bits is left to Python, whose integers have them.
    Int(i64),
}

impl Body {
    /// Adds the right neighbour's numbers to these, if they are of the same shape. If not, nothing has changed.
    pub(crate) fn try_add(&mut self, right: &Body) -> bool {
        let (Body::Numbers { shape, leaves }, Body::Numbers { shape: other, leaves: others }) = (self, right)
        else {
            return false;
        };
        if shape != other || leaves.len() != others.len() {
            return false;
        }
        let fits = leaves.iter().zip(others).all(|(a, b)| match (a, b) {
            (Leaf::F64(a), Leaf::F64(b)) => a.len() == b.len(),
            (Leaf::F32(a), Leaf::F32(b)) => a.len() == b.len(),
            (Leaf::I64(a), Leaf::I64(b)) => a.len() == b.len(),
            (Leaf::Int(a), Leaf::Int(b)) => a.checked_add(*b).is_some(),
            _ => false,
        });
        // Integers first: these additions can be undone.
        if !fits || !add_integers(leaves, others) {
            return false;
        }
        for (a, b) in leaves.iter_mut().zip(others) {
            match (a, b) {
                (Leaf::F64(a), Leaf::F64(b)) => a.iter_mut().zip(b).for_each(|(a, b)| *a += b),
                (Leaf::F32(a), Leaf::F32(b)) => a.iter_mut().zip(b).for_each(|(a, b)| *a += b),
                (Leaf::Int(a), Leaf::Int(b)) => *a += b,
                _ => {}
            }
        }
        true
    }
}

/// Adds the integers of arrays. If a sum overflows, nothing has changed.
fn add_integers(leaves: &mut [Leaf], others: &[Leaf]) -> bool {
    for n in 0..leaves.len() {
        if let (Leaf::I64(a), Leaf::I64(b)) = (&mut leaves[n], &others[n])
            && !add_checked(a, b)
        {
            for (a, b) in leaves[..=n].iter_mut().zip(others) {
                if let (Leaf::I64(a), Leaf::I64(b)) = (a, b) {
                    a.iter_mut().zip(b).for_each(|(a, b)| *a = a.wrapping_sub(*b));
                }
            }
            return false;
        }
    }
    true
}

/// Adds in one pass; says whether all sums fit. Those that do not have wrapped around.
fn add_checked(a: &mut [i64], b: &[i64]) -> bool {
    // The sign bit is set once some sum has another sign than both of its terms. No branch inside, so that it vectorises.
    let mut signs = 0;
    for (a, b) in a.iter_mut().zip(b) {
        let sum = a.wrapping_add(*b);
        signs |= (*a ^ sum) & (*b ^ sum);
        *a = sum;
    }
    signs >= 0
}

impl Wire for Value {
    fn encode<'a>(&'a self, out: &mut Encoder<'a>) {
        out.put_fixed(&self.code.0);
        match &self.body {
            Body::Pickled(pickled) => {
                out.put_u8(0);
                pickled.encode(out);
            }
            Body::Numbers { shape, leaves } => {
                out.put_u8(1);
                put_bytes(shape, out);
                leaves.encode(out);
            }
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        let code = CodeId(input.take_fixed()?);
        let body = match input.take_u8()? {
            0 => Body::Pickled(Pickled::decode(input)?),
            1 => Body::Numbers { shape: take_bytes(input)?, leaves: Vec::decode(input)? },
            _ => return Err(DecodeError::Range { kind: "a Python value" }),
        };
        Ok(Value { code, body })
    }
}

impl Wire for Leaf {
    fn encode<'a>(&'a self, out: &mut Encoder<'a>) {
        match self {
            Leaf::F64(numbers) => {
                out.put_u8(0);
                numbers.encode(out);
            }
            Leaf::F32(numbers) => {
                out.put_u8(1);
                numbers.encode(out);
            }
            Leaf::I64(numbers) => {
                out.put_u8(2);
                numbers.encode(out);
            }
            Leaf::Int(number) => {
                out.put_u8(3);
                number.encode(out);
            }
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match input.take_u8()? {
            0 => Leaf::F64(Vec::decode(input)?),
            1 => Leaf::F32(Vec::decode(input)?),
            2 => Leaf::I64(Vec::decode(input)?),
            3 => Leaf::Int(i64::decode(input)?),
            _ => return Err(DecodeError::Range { kind: "a leaf of a Python value" }),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(leaves: Vec<Leaf>) -> Body {
        Body::Numbers { shape: Bytes::from_static(b"shape"), leaves }
    }

    #[test]
    fn an_integer_sum_that_overflows_is_left_to_python_and_changes_nothing() {
        let before = || {
            let ints = Leaf::I64(vec![5, i64::MIN]);
            body(vec![Leaf::F64(vec![1.5]), Leaf::I64(vec![7]), ints])
        };
        for wrong in [vec![1, -1], vec![i64::MAX, 0]] {
            let mut left = before();
            let right = body(vec![Leaf::F64(vec![1.0]), Leaf::I64(vec![1]), Leaf::I64(wrong)]);
            assert!(!left.try_add(&right));
            assert_eq!(left, before());
        }
        let mut left = before();
        let right = body(vec![Leaf::F64(vec![1.0]), Leaf::I64(vec![1]), Leaf::I64(vec![-6, i64::MAX])]);
        assert!(left.try_add(&right));
        assert_eq!(left, body(vec![Leaf::F64(vec![2.5]), Leaf::I64(vec![8]), Leaf::I64(vec![-1, -1])]));
    }
}
