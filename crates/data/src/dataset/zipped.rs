//! Data sets of pairs of chunks.

use super::DataSet;
use crate::chunk::{Chunk, Pair};
use crate::source::DataError;
use crate::source::zipped::Zipped;

impl<A: Chunk> DataSet<A> {
    /// The chunks of this data set and of another of the same cut, side by side: a function gets the same records of both.
    /// Cut both with [`chunk_records`](Self::chunk_records) or [`partitions`](Self::partitions) first; where a chunk has not as
    /// many records in one as in the other it is an error. Both are copied, once, to shared memory.
    ///
    /// ```
    /// use qjam::{DataSet, Dense, List, Master, Pair};
    ///
    /// #[qjam::map]
    /// fn of_class(class: &str, rows: &Pair<Dense<f64>, List<String>>) -> f64 {
    ///     let labelled = rows.left.rows_iter().zip(&rows.right);
    ///     labelled.filter(|(_, label)| *label == class).map(|(row, _)| row[0]).sum()
    /// }
    ///
    /// let x = DataSet::dense(vec![1.0, 9.0, 2.0, 9.0, 4.0, 9.0], 2)?;
    /// let labels = DataSet::list(["a", "b", "a"].map(String::from))?;
    /// let both = x.partitions(2)?.zip(&labels.partitions(2)?)?;
    /// assert_eq!(Master::connect("local:2")?.run(of_class, "a", &both)?, 5.0);
    /// assert!(x.partitions(3)?.zip(&labels.partitions(2)?).is_err());
    /// # Ok::<(), qjam::Error>(())
    /// ```
    pub fn zip<B: Chunk>(&self, other: &DataSet<B>) -> Result<DataSet<Pair<A, B>>, DataError> {
        DataSet::from_source(Zipped::write(&self.inner.chunks, &other.inner.chunks)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Dense, List};
    use bytes::Bytes;

    fn numbers(n: u32, each: usize) -> DataSet<List<u32>> {
        DataSet::list(0..n).unwrap().chunk_records(each).unwrap()
    }

    #[test]
    fn pairs_have_the_records_of_both_and_equal_ones_have_equal_names() {
        let rows = DataSet::dense((0..21).map(f64::from).collect(), 3).unwrap().chunk_records(3).unwrap();
        let zipped = rows.zip(&numbers(7, 3)).unwrap();
        assert_eq!((zipped.len(), zipped.records()), (3, 7));
        for index in 0..3 {
            let Pair { left, right } = zipped.chunk(index).unwrap();
            assert_eq!(left.as_slice(), rows.chunk(index).unwrap().as_slice());
            assert!(left.is_shared(), "rows stay where they are");
            assert_eq!(right[..], numbers(7, 3).chunk(index).unwrap()[..]);
        }
        assert_eq!(zipped.id(), rows.zip(&numbers(7, 3)).unwrap().id());
        assert_ne!(
            zipped.id(),
            rows.zip(&DataSet::list(1..8_u32).unwrap().chunk_records(3).unwrap()).unwrap().id()
        );
        assert!(matches!(zipped.partitions(2), Err(DataError::CutAgain)));
    }

    #[test]
    fn what_is_cut_in_another_way_is_refused_with_the_chunk() {
        let error = numbers(7, 3).zip(&numbers(7, 2)).unwrap_err();
        assert!(matches!(error, DataError::ZipChunks { left: 3, right: 4 }), "{error}");
        let error = numbers(7, 3).zip(&numbers(8, 3)).unwrap_err();
        assert!(matches!(error, DataError::ZipRecords { chunk: 2, left: 1, right: 2 }), "{error}");
    }

    #[test]
    fn damaged_pairs_and_pairs_of_other_kinds_are_errors() {
        let zipped = numbers(9, 4).zip(&numbers(9, 4)).unwrap();
        let entry = &zipped.erased().chunks[0];
        let (header, good) = (entry.header.clone(), entry.load().unwrap());
        assert!(Pair::<List<u32>, Dense<f64>>::open(&header, good.clone()).is_err());
        for at in 0..good.len() {
            let mut bytes = good.to_vec();
            bytes[at] ^= 0xff;
            let _ = Pair::<List<u32>, List<u32>>::open(&header, bytes.into());
            let cut = Bytes::copy_from_slice(&good[..at]);
            let shorter = crate::chunk::Header { bytes: at as u64, ..header.clone() };
            assert!(Pair::<List<u32>, List<u32>>::open(&shorter, cut).is_err());
        }
    }
}
