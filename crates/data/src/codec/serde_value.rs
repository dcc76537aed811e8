//! Values that have serde's traits instead of ours.

use super::{DecodeError, Decoder, Encoder, Wire};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::ops::{Deref, DerefMut};

/// Lets any serde type travel, as postcard in the body. Its vectors are written element by element, so prefer
/// `#[derive(qjam::Wire)]` where many numbers are involved.
///
/// ```
/// use qjam::{Serde, Wire};
/// let names = Serde(std::collections::HashMap::from([("a".to_string(), 1)]));
/// let mut out = qjam::Encoder::new();
/// names.encode(&mut out);
/// let back = Serde::decode(&mut qjam::Decoder::new(out.to_bytes()).unwrap()).unwrap();
/// assert_eq!(names, back);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Serde<T>(pub T);

const WRITTEN: u8 = 0;
const FAILED: u8 = 1;

impl<T: Serialize + DeserializeOwned + Send + 'static> Wire for Serde<T> {
    fn encode<'a>(&'a self, out: &mut Encoder<'a>) {
        // Writing can fail for types that don't know their length. Encoding cannot, so the reason travels instead and
        // whoever reads the value gets the error.
        let at_start = |mut body: Vec<u8>| {
            body.push(WRITTEN);
            postcard::to_extend(&self.0, body)
        };
        if let Err(error) = out.append(at_start) {
            let reason = error.to_string();
            out.put_u8(FAILED);
            out.put_length(reason.len());
            out.put_fixed(reason.as_bytes());
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        let kind = std::any::type_name::<T>();
        match input.take_u8()? {
            WRITTEN => input
                .take_with(|bytes| {
                    postcard::take_from_bytes(bytes).map(|(value, left)| (Serde(value), left.len()))
                })
                .map_err(|error| DecodeError::Serde { kind, step: "read", reason: error.to_string() }),
            FAILED => Err(DecodeError::Serde { kind, step: "written", reason: String::decode(input)? }),
            tag => Err(DecodeError::Tag { kind, tag: tag.into() }),
        }
    }
}

impl<T> Deref for Serde<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Serde<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}
