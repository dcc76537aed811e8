//! Arrays: what their chunks are, and that changes are noticed.

use super::*;
use crate::chunk::{Chunk, Dense};

/// Memory that a test can write to although a data set lies in it, as an array of Python's is.
#[derive(Clone)]
struct Shared(Arc<Vec<std::sync::atomic::AtomicU8>>);

impl Shared {
    fn of(bytes: usize) -> Shared {
        Shared(Arc::new((0..bytes).map(|n| (n % 251) as u8).map(Into::into).collect()))
    }

    fn flip(&self, at: usize) {
        self.0[at].fetch_xor(1, std::sync::atomic::Ordering::Relaxed);
    }
}

impl AsRef<[u8]> for Shared {
    #[expect(unsafe_code, reason = "stands for memory of somebody else's")]
    fn as_ref(&self) -> &[u8] {
        // SAFETY: an AtomicU8 has the size and alignment of a u8; nobody writes while a test reads.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().cast(), self.0.len()) }
    }
}

fn layout(dtype: &str, shape: &[u64], item_bytes: u64) -> Layout {
    Layout { kind: "ndarray".into(), dtype: dtype.into(), shape: shape.to_vec(), item_bytes }
}

#[test]
fn matrices_are_dense_chunks_and_all_else_keeps_its_own_type() {
    let check = |dtype: &str, shape: &[u64], item, expected: (&str, &str, &[u64])| {
        let bytes = vec![0; (shape.iter().product::<u64>() * item) as usize];
        let array = Array::new(bytes.into(), layout(dtype, shape, item), Some(2), false).unwrap();
        let header = &array.set().erased().chunks[0].header;
        assert_eq!((&header.kind[..], &header.dtype[..], &header.shape[..]), expected);
    };
    check("<f8", &[3, 4], 8, ("dense", "f64", &[2, 4]));
    check("|u1", &[3, 4], 1, ("dense", "u8", &[2, 4]));
    check("<f8", &[3], 8, ("ndarray", "<f8", &[2]));
    check("<f8", &[3, 4, 5], 8, ("ndarray", "<f8", &[2, 4, 5]));
    check("<f8", &[3, 0], 8, ("ndarray", "<f8", &[2, 0]));
    check("<c16", &[3, 4], 16, ("ndarray", "<c16", &[2, 4]));
    check("|b1", &[3, 4], 1, ("ndarray", "|b1", &[2, 4]));
}

#[test]
fn chunks_have_the_names_that_the_same_matrix_has_elsewhere() {
    let values: Vec<f64> = (0..600).map(f64::from).collect();
    let bytes = Bytes::from(bytemuck::cast_slice(&values).to_vec());
    let array = Array::new(bytes, layout("<f8", &[200, 3], 8), Some(7), false).unwrap();
    let dense = DataSet::dense(values, 3).unwrap().chunk_records(7).unwrap();
    assert_eq!(array.set().id(), dense.id());
}

#[test]
fn a_change_is_noticed_and_only_its_chunk_is_named_again() {
    for bytes in [80_000, COPY_BYTES_MAX + 8000] {
        let memory = Shared::of(bytes);
        let rows = bytes as u64 / 8;
        let shape = layout("<i8", &[rows], 8);
        let mut array =
            Array::new(Bytes::from_owner(memory.clone()), shape, Some(rows.div_ceil(10)), true).unwrap();
        let names = |array: &Array| array.set().erased().chunks.iter().map(|c| c.id).collect::<Vec<_>>();
        let (first, located) = (names(&array), array.set().erased().located);
        assert!(!array.changed() && !array.refresh().unwrap());

        memory.flip(bytes - 1);
        assert!(array.changed());
        assert!(array.refresh().unwrap());
        let second = names(&array);
        assert_eq!(first[..9], second[..9]);
        assert_ne!(first[9], second[9]);
        assert_ne!(located, array.set().erased().located, "workers must look anew");
        assert!(!array.changed() && !array.refresh().unwrap());
        let last = array.set().chunk(9).unwrap();
        assert_eq!(last.bytes.last(), memory.as_ref().last());

        memory.flip(bytes - 1);
        assert!(array.refresh().unwrap());
        assert_eq!(names(&array), first, "the content alone gives the name");
    }
}

#[test]
fn what_cannot_change_is_not_looked_at() {
    let memory = Shared::of(800);
    let bytes = Bytes::from_owner(memory.clone());
    let mut array = Array::new(bytes, layout("<i8", &[100], 8), None, false).unwrap();
    memory.flip(3);
    assert!(!array.changed() && !array.refresh().unwrap());
}

#[test]
fn large_arrays_stay_where_they_are_and_are_shared_on_demand() {
    let memory = Bytes::from(vec![7; COPY_BYTES_MAX + 1]);
    let start = memory.as_ptr();
    let shape = layout("|u1", &[COPY_BYTES_MAX as u64 + 1, 1], 1);
    let array = Array::new(memory, shape, None, false).unwrap();
    let chunk = array.set().chunk(0).unwrap();
    assert_eq!(chunk.bytes.as_ptr(), start);
    let shared = array.set().shared().unwrap();
    assert_eq!((shared.id(), shared.len()), (array.set().id(), array.set().len()));
    let copied = shared.chunk(0).unwrap();
    assert_ne!(copied.bytes.as_ptr(), start);
    assert_eq!(copied.bytes, chunk.bytes);
    Dense::<u8>::open(&copied.header, copied.bytes).unwrap();
}

#[test]
fn shapes_that_do_not_fit_are_refused() {
    let make = |shape: &[u64]| Array::new(vec![0; 80].into(), layout("<f8", shape, 8), None, false).map(drop);
    assert!(make(&[10]).is_ok());
    assert!(matches!(make(&[11]), Err(DataError::Array { found: 80, .. })));
    assert!(matches!(make(&[]), Err(DataError::Array { .. })));
    assert!(matches!(make(&[u64::MAX, u64::MAX]), Err(DataError::Array { .. })));
    assert!(matches!(make(&[0, 3]), Err(DataError::Empty { .. })));
}
