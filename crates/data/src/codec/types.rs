//! The standard library's types, other than numbers.

use super::{DecodeError, Decoder, Encoder, Width, Wire};
use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, Hash};
use std::marker::PhantomData;

impl Wire for () {
    fn encode<'a>(&'a self, _: &mut Encoder<'a>) {}

    fn decode(_: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(())
    }

    const WIRE_WIDTH: Width = Width::Exactly(0);

    fn encode_short(&self, _: &mut [u8]) -> usize {
        0
    }

    fn decode_short(_: &[u8]) -> Option<Self> {
        Some(())
    }
}

impl<T: Send + 'static> Wire for PhantomData<T> {
    fn encode<'a>(&'a self, _: &mut Encoder<'a>) {}

    fn decode(_: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(PhantomData)
    }

    const WIRE_WIDTH: Width = Width::Exactly(0);

    fn encode_short(&self, _: &mut [u8]) -> usize {
        0
    }

    fn decode_short(_: &[u8]) -> Option<Self> {
        Some(PhantomData)
    }
}

impl Wire for bool {
    fn encode<'a>(&'a self, out: &mut Encoder<'a>) {
        out.put_u8(u8::from(*self));
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        match input.take_u8()? {
            0 => Ok(false),
            1 => Ok(true),
            tag => Err(DecodeError::Tag { kind: "bool", tag: tag.into() }),
        }
    }

    const WIRE_WIDTH: Width = Width::Exactly(1);

    #[inline]
    fn encode_short(&self, out: &mut [u8]) -> usize {
        out[0] = u8::from(*self);
        1
    }

    #[inline]
    fn decode_short(bytes: &[u8]) -> Option<Self> {
        match bytes {
            [0] => Some(false),
            [1] => Some(true),
            _ => None,
        }
    }
}

impl Wire for char {
    fn encode<'a>(&'a self, out: &mut Encoder<'a>) {
        out.put_varint(u64::from(*self));
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        let point = u32::decode(input)?;
        char::from_u32(point).ok_or(DecodeError::Range { kind: "char" })
    }
}

impl Wire for String {
    fn encode<'a>(&'a self, out: &mut Encoder<'a>) {
        out.put_length(self.len());
        out.put_fixed(self.as_bytes());
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        let text = std::str::from_utf8(input.take_bytes()?)
            .map_err(|error| DecodeError::Text { at: error.valid_up_to() })?;
        Ok(text.to_owned())
    }
}

impl<T: Wire> Wire for Option<T> {
    fn encode<'a>(&'a self, out: &mut Encoder<'a>) {
        out.put_u8(u8::from(self.is_some()));
        if let Some(value) = self {
            value.encode(out);
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        bool::decode(input)?.then(|| T::decode(input)).transpose()
    }
}

impl<T: Wire> Wire for Box<T> {
    fn encode<'a>(&'a self, out: &mut Encoder<'a>) {
        (**self).encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        input.nested(T::decode).map(Box::new)
    }
}

impl<T: Wire> Wire for Vec<T> {
    fn encode<'a>(&'a self, out: &mut Encoder<'a>) {
        T::encode_slice(self, out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        T::decode_vec(input)
    }
}

/// Reads the items of an array until one cannot be read.
#[inline]
fn array<T, E, const N: usize>(mut read: impl FnMut(usize) -> Result<T, E>) -> Result<[T; N], E> {
    let mut failed = None;
    let items: [Option<T>; N] = std::array::from_fn(|n| {
        if failed.is_some() {
            return None;
        }
        read(n).map_err(|error| failed = Some(error)).ok()
    });
    match failed {
        Some(error) => Err(error),
        None => Ok(items.map(|item| item.expect("every item was read"))),
    }
}

impl<T: Wire, const N: usize> Wire for [T; N] {
    fn encode<'a>(&'a self, out: &mut Encoder<'a>) {
        for item in self {
            item.encode(out);
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        array(|_| T::decode(input))
    }

    const WIRE_WIDTH: Width = T::WIRE_WIDTH.times(N);

    #[inline]
    fn encode_short(&self, out: &mut [u8]) -> usize {
        self.iter().fold(0, |at, item| at + item.encode_short(&mut out[at..]))
    }

    #[inline]
    fn decode_short(bytes: &[u8]) -> Option<Self> {
        let width = T::WIRE_WIDTH.bytes_max();
        array(|n| T::decode_short(&bytes[n * width..(n + 1) * width]).ok_or(())).ok()
    }

    // Rows of fixed width lie one after the other in memory, so they travel like the flat vector they are.
    fn encode_slice<'a>(items: &'a [Self], out: &mut Encoder<'a>) {
        out.put_length(items.len());
        T::encode_slice(items.as_flattened(), out);
    }

    fn decode_vec(input: &mut Decoder) -> Result<Vec<Self>, DecodeError> {
        let claimed = input.take_varint()?;
        let flat = T::decode_vec(input)?;
        let rows = usize::try_from(claimed).ok().filter(|rows| rows.checked_mul(N) == Some(flat.len()));
        let Some(rows) = rows else {
            return Err(DecodeError::Count { claimed, left: input.left() });
        };
        if N == 0 {
            input.spend_free(claimed)?;
        }
        let mut items = flat.into_iter();
        let mut row = || std::array::from_fn(|_| items.next().expect("there are rows times N items"));
        Ok((0..rows).map(|_| row()).collect())
    }
}

impl<K: Wire + Ord, V: Wire> Wire for BTreeMap<K, V> {
    fn encode<'a>(&'a self, out: &mut Encoder<'a>) {
        out.put_length(self.len());
        for (key, value) in self {
            key.encode(out);
            value.encode(out);
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        let claimed = input.take_count()?;
        input.nested(|input| {
            let mut map = BTreeMap::new();
            for entry in 0..claimed {
                let key = K::decode(input)?;
                // Also what ends a claim of many entries that take no bytes: there is only one such key.
                if map.last_key_value().is_some_and(|(last, _)| *last >= key) {
                    return Err(DecodeError::Order { entry });
                }
                map.insert(key, V::decode(input)?);
            }
            Ok(map)
        })
    }
}

/// Written in the order of the keys, so that equal maps have equal bytes.
impl<K: Wire + Ord + Hash, V: Wire, S: BuildHasher + Default + Send + 'static> Wire for HashMap<K, V, S> {
    fn encode<'a>(&'a self, out: &mut Encoder<'a>) {
        let mut entries: Vec<(&K, &V)> = self.iter().collect();
        entries.sort_unstable_by_key(|(key, _)| *key);
        out.put_length(entries.len());
        for (key, value) in entries {
            key.encode(out);
            value.encode(out);
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        BTreeMap::decode(input).map(|map: BTreeMap<K, V>| map.into_iter().collect())
    }
}

macro_rules! tuple {
    ($($name:ident $field:tt),+) => {
        impl<$($name: Wire),+> Wire for ($($name,)+) {
            fn encode<'a>(&'a self, out: &mut Encoder<'a>) {
                $(self.$field.encode(out);)+
            }

            fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
                Ok(($($name::decode(input)?,)+))
            }

            const WIRE_WIDTH: Width = Width::sum(&[$($name::WIRE_WIDTH),+]);

            #[inline]
            fn encode_short(&self, out: &mut [u8]) -> usize {
                let mut at = 0;
                $(at += self.$field.encode_short(&mut out[at..]);)+
                at
            }

            #[inline]
            fn decode_short(bytes: &[u8]) -> Option<Self> {
                let mut rest = bytes;
                Some(($($name::decode_short($name::WIRE_WIDTH.take(&mut rest))?,)+))
            }
        }
    };
}

tuple!(A 0);
tuple!(A 0, B 1);
tuple!(A 0, B 1, C 2);
tuple!(A 0, B 1, C 2, D 3);
tuple!(A 0, B 1, C 2, D 3, E 4);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7);
