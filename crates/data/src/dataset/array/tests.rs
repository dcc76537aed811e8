//! Arrays: what their chunks are, and that changes are noticed.

use super::*;
use crate::chunk::{Chunk, Dense};
use crate::source::array::COPY_BYTES_MAX;
use crate::store::Region;

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

/// How many chunks of a set lie in the user's memory.
fn in_place(set: &DataSet<Raw>) -> usize {
    set.erased().chunks.iter().filter(|chunk| matches!(chunk.place, ChunkLocation::Memory { .. })).count()
}

#[test]
fn a_large_array_that_was_left_alone_is_copied_once_for_interpreters() {
    let bytes = COPY_BYTES_MAX + 8000;
    let memory = Shared::of(bytes);
    let rows = bytes as u64 / 8;
    let shape = layout("<i8", &[rows], 8);
    let mut array =
        Array::new(Bytes::from_owner(memory.clone()), shape, Some(rows.div_ceil(10)), true).unwrap();
    let mut round = |written: Option<usize>| {
        if let Some(at) = written {
            memory.flip(at);
        }
        assert_eq!(array.refresh().unwrap(), written.is_some());
        let set = array.for_interpreters(false);
        // Whatever lies where, its bytes are the array's, under the name that they have anywhere.
        let again = Array::new(
            Bytes::copy_from_slice(memory.as_ref()),
            layout("<i8", &[rows], 8),
            Some(rows.div_ceil(10)),
            false,
        );
        assert_eq!(set.id(), again.unwrap().set().id());
        for index in [0, 9] {
            let chunk = set.chunk(index).unwrap();
            let from = index * rows.div_ceil(10) as usize * 8;
            assert!(chunk.bytes == memory.as_ref()[from..from + chunk.bytes.len()]);
        }
        (in_place(&set), set.erased().located)
    };
    assert_eq!(round(None).0, 10, "nobody knows yet whether it will be used again");
    let (places, second) = round(None);
    assert_eq!(places, 0);
    assert_eq!(round(None), (0, second), "once");
    assert_eq!(round(Some(3)).0, 1, "what was written to is read where it is");
    assert_eq!([round(None).0, round(None).0], [1, 0]);
    assert_eq!(round(Some(bytes - 1)).0, 1);
    assert_eq!([round(None).0, round(None).0, round(None).0], [1, 1, 0], "it is trusted less");
    memory.flip(0);
    assert!(array.refresh().unwrap());
    assert_eq!(in_place(&array.for_interpreters(true)), 0, "a hold is for many rounds");
}

#[test]
fn shared_memory_that_nobody_can_write_to_stays_where_it_is() {
    let values: Vec<i64> = (0..1000).collect();
    let region = Region::copy_of(bytemuck::cast_slice(&values)).unwrap();
    let part = region.bytes(80..8000);
    // `true`: whoever asks does not know better.
    let mut array = Array::new(part, layout("<i8", &[990], 8), Some(100), true).unwrap();
    let copied = Array::new(
        Bytes::copy_from_slice(bytemuck::cast_slice(&values[10..])),
        layout("<i8", &[990], 8),
        Some(100),
        false,
    );
    assert_eq!(array.set().id(), copied.unwrap().set().id());
    let ChunkLocation::Shared { region: found, offset } = &array.set().erased().chunks[1].place else {
        panic!("{:?}", array.set().erased().chunks[1].place)
    };
    assert_eq!((*offset, found.bytes(880..888)), (880, region.bytes(880..888)));
    assert!(!array.changed() && !array.refresh().unwrap());
    assert_eq!(array.for_interpreters(false).erased().located, array.shared().unwrap().erased().located);
    let recut = array.recut(Some(990)).unwrap();
    assert_eq!(recut.set().chunk(0).unwrap().bytes, region.bytes(80..8000));
}

#[test]
fn a_file_that_the_user_has_mapped_is_shown_by_its_mapping() {
    let path = std::env::temp_dir().join(format!("qjam-mapped-{}", std::process::id()));
    let bytes: Vec<u8> = (0..2000_u32).map(|n| (n % 251) as u8).collect();
    std::fs::write(&path, &bytes).unwrap();
    let set = DataSet::array_file(&path, 100, layout("|u1", &[1900], 1), Some(500)).unwrap();
    // Stands for a mapping of the file from its hundredth byte on.
    let memory = Bytes::from(bytes[100..].to_vec());
    let mapped = set.mapped(memory.clone(), 100).unwrap();
    assert_eq!((mapped.id(), mapped.len()), (set.id(), 4));
    let chunk = mapped.chunk(1).unwrap();
    assert_eq!((chunk.bytes.as_ptr(), chunk.bytes.len()), (memory[500..].as_ptr(), 500));
    let (_, offset) = crate::store::mapped::find(&chunk.bytes).unwrap();
    assert_eq!(offset, 600);
    std::fs::write(&path, &bytes[1..]).unwrap();
    assert!(matches!(set.mapped(memory, 100), Err(DataError::Changed { .. })));
    std::fs::remove_file(path).unwrap();
}
