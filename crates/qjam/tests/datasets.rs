//! Data sets: every source, every cut, and files that change behind one's back.

use qjam::{ChunkError, DataError, DataSet, Dense, Lines, List, Records, Rng};
use std::fs::{self, File};
use std::io;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

/// A file of this test's own.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str, bytes: impl AsRef<[u8]>) -> Self {
        let path = std::env::temp_dir().join(format!("qjam-data-{}-{name}", std::process::id()));
        fs::write(&path, bytes).expect("a scratch file");
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn numbers(n: usize) -> Vec<f64> {
    (0..n).map(|i| i as f64).collect()
}

fn raw(values: &[f64]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

fn all_rows(data: &DataSet<Dense<f64>>) -> Vec<f64> {
    (0..data.len()).flat_map(|i| data.chunk(i).expect("a chunk").as_slice().to_vec()).collect()
}

#[test]
fn a_matrix_in_memory_is_cut_by_the_rule_and_not_copied_again() {
    let values = numbers(30_000);
    let data = DataSet::dense(values.clone(), 3).unwrap();
    // 64 KiB hold 2730 rows of 24 bytes; 2728 of them end on a cache line.
    let rows: Vec<usize> = (0..data.len()).map(|i| data.chunk(i).unwrap().rows()).collect();
    assert_eq!(rows, [2728, 2728, 2728, 1816]);
    assert_eq!(all_rows(&data), values);
    assert_eq!((data.records(), data.bytes()), (10_000, 240_000));
    for i in 0..data.len() {
        let chunk = data.chunk(i).unwrap();
        assert!(chunk.is_shared());
        assert!((chunk.as_slice().as_ptr() as usize).is_multiple_of(64), "chunk {i}");
        assert_eq!(chunk.as_slice().as_ptr(), data.chunk(i).unwrap().as_slice().as_ptr(), "the same memory");
    }
}

#[test]
fn the_same_records_have_the_same_name_wherever_they_are() {
    let values = numbers(50_000);
    let file = Scratch::new("same", raw(&values));
    let memory = DataSet::dense(values.clone(), 5).unwrap();
    let on_disk = DataSet::<Dense<f64>>::raw(&file.0, 5).unwrap();
    assert_eq!(memory.id(), on_disk.id());
    assert_eq!(all_rows(&on_disk), values);
    assert_ne!(memory.id(), DataSet::dense(values.clone(), 10).unwrap().id(), "other rows");
    assert_ne!(memory.id(), memory.partitions(2).unwrap().id(), "another cut");
    assert_eq!(memory.partitions(2).unwrap().id(), on_disk.partitions(2).unwrap().id());
    let mut other = values;
    other[777] += 1.0;
    assert_ne!(memory.id(), DataSet::dense(other, 5).unwrap().id());
}

#[test]
fn large_data_named_by_several_threads_has_the_same_name_as_in_pieces() {
    let values = numbers(1 << 21);
    let file = Scratch::new("large", raw(&values));
    let on_disk = DataSet::<Dense<f64>>::raw(&file.0, 8).unwrap();
    let memory = DataSet::dense(values, 8).unwrap();
    assert_eq!(memory.len(), 256);
    assert_eq!(memory.id(), on_disk.id());
    assert_eq!(on_disk.chunk(255).unwrap().row(1023)[7], (1 << 21) as f64 - 1.0);
}

#[test]
fn other_cuts_have_the_same_records() {
    let values = numbers(101 * 3);
    let data = DataSet::dense(values.clone(), 3).unwrap();
    for (k, expected) in [(1, vec![101]), (2, vec![51, 50]), (4, vec![26, 25, 25, 25]), (1000, vec![1; 101])]
    {
        let parts = data.partitions(k).unwrap();
        let rows: Vec<usize> = (0..parts.len()).map(|i| parts.chunk(i).unwrap().rows()).collect();
        assert_eq!(rows, expected);
        assert_eq!(all_rows(&parts), values);
        assert_eq!(parts.partitions(1).unwrap().id(), data.id(), "a cut of a cut is a cut of the records");
    }
    let tens = data.chunk_records(10).unwrap();
    assert_eq!((tens.len(), tens.chunk(10).unwrap().rows()), (11, 1));
    assert!(matches!(data.partitions(0), Err(DataError::ZeroCut { .. })));
    assert!(matches!(data.chunk_records(0), Err(DataError::ZeroCut { .. })));
    assert!(matches!(data.chunk(1), Err(DataError::NoSuchChunk { index: 1, chunks: 1 })));
}

#[test]
fn matrices_that_are_none_are_refused() {
    assert!(matches!(DataSet::dense(vec![1.0; 7], 3), Err(DataError::Ragged { values: 7, cols: 3 })));
    assert!(matches!(DataSet::dense(vec![1.0; 7], 0), Err(DataError::NoColumns)));
    assert!(matches!(DataSet::<Dense<f64>>::dense(vec![], 3), Err(DataError::Empty { what: "rows" })));
    let file = Scratch::new("ragged", [0; 100]);
    let error = DataSet::<Dense<f64>>::raw(&file.0, 3).unwrap_err();
    assert!(matches!(error, DataError::RawSize { bytes: 100, row_bytes: 24, .. }), "{error}");
    assert!(matches!(DataSet::<Dense<u8>>::raw(&file.0, 0), Err(DataError::NoColumns)));
    assert!(matches!(DataSet::<Dense<u8>>::raw(&file.0, usize::MAX), Err(DataError::RawSize { .. })));
    let file = Scratch::new("empty", []);
    assert!(matches!(DataSet::<Dense<u8>>::raw(&file.0, 3), Err(DataError::Empty { .. })));
    assert!(matches!(DataSet::<Dense<u8>>::raw("/dev/null", 3), Err(DataError::NotAFile { .. })));
    assert!(matches!(DataSet::<Dense<u8>>::raw(std::env::temp_dir(), 3), Err(DataError::NotAFile { .. })));
    assert!(matches!(DataSet::<Dense<u8>>::raw("/does/not/exist", 3), Err(DataError::Io { .. })));
}

#[test]
fn a_file_that_changes_is_found_out() {
    let values = numbers(1000);
    let file = Scratch::new("changing", raw(&values));
    let open = || DataSet::<Dense<f64>>::raw(&file.0, 10).unwrap();
    let what = |data: &DataSet<Dense<f64>>| match data.chunk(0) {
        Err(DataError::Changed { what, .. }) => what,
        other => panic!("{other:?}"),
    };

    let data = open();
    File::options().append(true).open(&file.0).unwrap().set_len(4000).unwrap();
    assert_eq!(what(&data), "its length differs");

    fs::write(&file.0, raw(&values)).unwrap();
    let data = open();
    let later = SystemTime::now() + Duration::from_secs(5);
    File::options().append(true).open(&file.0).unwrap().set_modified(later).unwrap();
    assert_eq!(what(&data), "it was written to");

    // The same length and time, and one other byte.
    let data = open();
    let time = fs::metadata(&file.0).unwrap().modified().unwrap();
    let mut other = raw(&values);
    other[0] ^= 1;
    fs::write(&file.0, other).unwrap();
    File::options().append(true).open(&file.0).unwrap().set_modified(time).unwrap();
    assert_eq!(what(&data), "its content differs");

    let data = open();
    let beside = Scratch::new("beside", raw(&values));
    fs::rename(&beside.0, &file.0).unwrap();
    assert_eq!(what(&data), "another file has taken its place");

    let data = open();
    fs::remove_file(&file.0).unwrap();
    assert!(matches!(data.chunk(0), Err(DataError::Io { .. })));
}

#[test]
fn lists_keep_their_order_and_fill_chunks() {
    let records: Vec<(u32, String)> = (0..5_000).map(|i| (i, "x".repeat(i as usize % 100))).collect();
    let data = DataSet::list(records.clone()).unwrap();
    let back = |data: &DataSet<List<(u32, String)>>| -> Vec<(u32, String)> {
        (0..data.len()).flat_map(|i| data.chunk(i).unwrap().to_vec()).collect()
    };
    assert_eq!(data.records(), 5_000);
    assert_eq!(data.len(), 5, "{} bytes", data.bytes());
    assert_eq!(back(&data), records);
    assert_eq!(back(&data.partitions(7).unwrap()), records);
    assert_eq!(data.partitions(7).unwrap().len(), 7);
    assert_eq!(data.chunk_records(1).unwrap().len(), 5_000);
    assert_eq!(data.id(), DataSet::list(records).unwrap().id());
    assert!(matches!(DataSet::<List<u8>>::list([]), Err(DataError::Empty { what: "records" })));
    assert_eq!(DataSet::list(vec![(); 10]).unwrap().partitions(3).unwrap().chunk(0).unwrap().len(), 4);
}

#[test]
fn a_record_larger_than_any_chunk_has_one_of_its_own() {
    let sizes = [10, 100_000, 10, 10];
    let data = DataSet::list(sizes.map(|n| vec![1_u8; n])).unwrap();
    let counts: Vec<usize> = (0..data.len()).map(|i| data.chunk(i).unwrap().len()).collect();
    assert_eq!(counts, [1, 1, 2]);
}

#[test]
fn records_that_cannot_be_written_are_named() {
    #[derive(Clone, serde::Deserialize)]
    struct Odd(u8);
    impl serde::Serialize for Odd {
        fn serialize<S: serde::Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
            if self.0 == 2 { Err(serde::ser::Error::custom("two")) } else { out.serialize_u8(self.0) }
        }
    }
    let error = DataSet::list([Odd(1), Odd(2)]).unwrap_err();
    assert!(matches!(error, DataError::Record { index: 1, .. }), "{error}");
}

#[test]
fn custom_records_are_asked_for_one_by_one() {
    struct Pages(usize);
    impl Records for Pages {
        type Record = Vec<u64>;
        fn chunks(&self) -> usize {
            self.0
        }
        fn slice(&self, i: usize) -> io::Result<Vec<u64>> {
            if i == 7 { Err(io::Error::other("page 7 is torn out")) } else { Ok(vec![i as u64; 3]) }
        }
    }
    let data = DataSet::custom(Pages(6)).unwrap().partitions(6).unwrap();
    assert_eq!(data.chunk(5).unwrap()[0], [5, 5, 5]);
    let error = DataSet::custom(Pages(9)).unwrap_err();
    assert!(matches!(error, DataError::Slice { index: 7, .. }), "{error}");
    assert!(error.to_string().contains("torn out"));
    assert!(matches!(DataSet::custom(Pages(0)), Err(DataError::Empty { .. })));
}

fn all_lines(data: &DataSet<Lines>) -> Vec<String> {
    (0..data.len())
        .flat_map(|i| data.chunk(i).expect("a chunk").iter().map(str::to_owned).collect::<Vec<_>>())
        .collect()
}

#[test]
fn lines_come_whole_in_every_cut() {
    for seed in 0..20 {
        let rng = &mut Rng::keyed(seed, 0, 0);
        let mut text = String::new();
        for _ in 0..1 + rng.below(3_000) {
            (0..rng.below(60)).for_each(|_| text.push(['a', 'ö', ' ', '\r'][rng.below(4) as usize]));
            text.push_str(["\n", "\r\n"][rng.below(2) as usize]);
        }
        if rng.below(2) == 1 {
            text.push_str("no end");
        }
        let expected: Vec<String> = text.lines().map(str::to_owned).collect();
        let file = Scratch::new(&format!("lines-{seed}"), &text);
        let memory = DataSet::text(text.clone()).unwrap();
        let on_disk = DataSet::lines(&file.0).unwrap();
        assert_eq!((memory.records(), memory.bytes()), (expected.len() as u64, text.len() as u64));
        assert_eq!(memory.id(), on_disk.id());
        for data in [&memory, &on_disk, &memory.partitions(7).unwrap(), &on_disk.chunk_records(13).unwrap()] {
            assert_eq!(all_lines(data), expected);
        }
        let k = 1 + rng.below(expected.len() as u64 + 3) as usize;
        let parts = on_disk.partitions(k).unwrap();
        let counts: Vec<usize> = (0..parts.len()).map(|i| parts.chunk(i).unwrap().len()).collect();
        assert_eq!(counts.len(), k.min(expected.len()));
        assert!(counts.iter().max().unwrap() - counts.iter().min().unwrap() <= 1);
    }
}

#[test]
fn lines_across_reads_of_a_file_stay_whole() {
    // Longer than what is read at once, with lines that end just before, at and after the border.
    let mut text = "x".repeat((1 << 20) - 3) + "\ny\nz\n";
    text += &"0123456789\n".repeat(200_000);
    let file = Scratch::new("border", &text);
    let data = DataSet::lines(&file.0).unwrap();
    assert_eq!(data.records(), 200_003);
    assert_eq!(all_lines(&data), text.lines().collect::<Vec<_>>());
    assert_eq!(data.chunk(0).unwrap().len(), 1, "a line longer than a chunk has one of its own");
}

#[test]
fn text_without_lines_and_lines_without_text_are_told_apart() {
    assert!(matches!(DataSet::text(String::new()), Err(DataError::Empty { what: "lines" })));
    assert_eq!(all_lines(&DataSet::text("\n\n".into()).unwrap()), ["", ""]);
}

#[test]
fn a_file_that_is_not_text_is_named_by_chunk_and_line() {
    let file = Scratch::new("latin", b"fine\nstra\xdfe\n");
    let data = DataSet::lines(&file.0).unwrap().chunk_records(1).unwrap();
    assert!(data.chunk(0).is_ok());
    let error = data.chunk(1).unwrap_err();
    assert!(
        matches!(error, DataError::Chunk { index: 1, source: ChunkError::Text { line: 1, column: 5 } }),
        "{error}"
    );
}

#[test]
fn tasks_without_data_are_counted() {
    let data = DataSet::nothing(5).unwrap();
    assert_eq!((data.len(), data.records(), data.bytes()), (5, 5, 0));
    assert!(data.chunk(4).is_ok());
    assert!(matches!(DataSet::nothing(0), Err(DataError::Empty { .. })));
}
