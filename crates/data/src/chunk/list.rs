//! Lists of anything serde can write.

use super::{Chunk, ChunkError, Header, expect_kind};
use bytes::Bytes;
use serde::de::DeserializeOwned;
use std::any::type_name;
use std::ops::Deref;

/// Records that take no bytes at all are counted by the header alone; this bounds what it can make us do.
const FREE_RECORDS_MAX: u64 = 1 << 24;

/// Some records of a list, decoded once and used like a slice.
///
/// ```
/// use qjam::List;
///
/// #[qjam::map]
/// fn letters(_: &(), words: &List<String>) -> u64 {
///     words.iter().map(|word| word.len() as u64).sum()
/// }
///
/// assert_eq!(letters(&(), &List::from_vec(vec!["one".into(), "three".into()])), 8);
/// ```
#[derive(Clone, Debug)]
pub struct List<T> {
    records: Vec<T>,
}

impl<T> List<T> {
    /// A list of its own, for tests and serial runs.
    pub fn from_vec(records: Vec<T>) -> Self {
        List { records }
    }
}

impl<T> Deref for List<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.records
    }
}

impl<'a, T> IntoIterator for &'a List<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.records.iter()
    }
}

/// The header of a chunk of records.
pub(crate) fn header<T>(records: u64, bytes: u64) -> Header {
    Header { kind: "list".into(), dtype: type_name::<T>().into(), shape: vec![records], bytes }
}

impl<T: DeserializeOwned + Send + Sync + 'static> Chunk for List<T> {
    fn open(header: &Header, bytes: Bytes) -> Result<Self, ChunkError> {
        let &[expected] = expect_kind(header, &bytes, "list")?;
        let kind = type_name::<T>();
        if header.dtype != kind {
            return Err(ChunkError::Type { expected: kind, found: header.dtype.clone() });
        }
        let most = header.bytes.saturating_add(FREE_RECORDS_MAX);
        if expected > most {
            return Err(ChunkError::Records { expected, found: most });
        }
        // As many as are sure to be there, and the rest as they come.
        let likely = expected.min(header.bytes / size_of::<T>().max(1) as u64);
        let mut records = Vec::with_capacity(usize::try_from(likely).unwrap_or(0));
        let mut rest = &bytes[..];
        for index in 0..expected {
            let (record, left) = postcard::take_from_bytes(rest).map_err(|error| ChunkError::Record {
                index,
                kind,
                reason: error.to_string(),
            })?;
            records.push(record);
            rest = left;
        }
        if !rest.is_empty() {
            let read = (bytes.len() - rest.len()) as u64;
            return Err(ChunkError::Bytes { expected: read, found: header.bytes });
        }
        Ok(List { records })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes_of(records: &[(u32, String)]) -> Vec<u8> {
        records.iter().flat_map(|record| postcard::to_stdvec(record).unwrap()).collect()
    }

    #[test]
    fn records_come_back_in_order() {
        let records: Vec<_> = (0..50).map(|i| (i * 1000, "x".repeat(i as usize))).collect();
        let bytes = bytes_of(&records);
        let list =
            List::<(u32, String)>::open(&header::<(u32, String)>(50, bytes.len() as u64), bytes.into())
                .unwrap();
        assert_eq!(list[..], records);
    }

    #[test]
    fn every_truncation_is_an_error() {
        let bytes = bytes_of(&[(1, "one".into()), (300, "three hundred".into())]);
        for end in 0..bytes.len() {
            let cut = Bytes::copy_from_slice(&bytes[..end]);
            let opened = List::<(u32, String)>::open(&header::<(u32, String)>(2, end as u64), cut);
            assert!(matches!(opened, Err(ChunkError::Record { .. })), "{end}: {opened:?}");
        }
    }

    #[test]
    fn another_type_another_count_and_leftovers_are_errors() {
        let bytes = Bytes::from(bytes_of(&[(1, "one".into()), (2, "two".into())]));
        let open = |header: Header| List::<(u32, String)>::open(&header, bytes.clone()).unwrap_err();
        let good = header::<(u32, String)>(2, bytes.len() as u64);
        assert!(matches!(open(Header { shape: vec![1], ..good.clone() }), ChunkError::Bytes { .. }));
        assert!(matches!(
            open(Header { shape: vec![3], ..good.clone() }),
            ChunkError::Record { index: 2, .. }
        ));
        assert!(matches!(open(Header { shape: vec![u64::MAX], ..good.clone() }), ChunkError::Records { .. }));
        assert!(matches!(open(Header { shape: vec![2, 1], ..good.clone() }), ChunkError::Shape { .. }));
        assert!(matches!(open(Header { dtype: "u8".into(), ..good }), ChunkError::Type { .. }));
    }

    #[test]
    fn records_without_bytes_are_counted() {
        assert_eq!(List::<()>::open(&header::<()>(1000, 0), Bytes::new()).unwrap().len(), 1000);
        assert!(List::<()>::open(&header::<()>(1 << 40, 0), Bytes::new()).is_err());
    }
}
