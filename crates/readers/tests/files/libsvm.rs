//! Sparse rows in text.
#![allow(clippy::unwrap_used, reason = "a test says what went wrong by panicking")]

use crate::common::{Folder, Rng};
use qjam::Csr;
use qjam_readers::Libsvm;

fn read(text: &str, how: impl FnOnce(Libsvm) -> Libsvm) -> Result<Csr<f64>, String> {
    let folder = Folder::new();
    let data = how(Libsvm::new(folder.file("t.svm", text))).read::<f64>().map_err(|e| e.to_string())?;
    assert_eq!(data.len(), 1);
    Ok(data.chunk(0).unwrap())
}

fn refused(text: &str, expected: &str) {
    let message = read(text, |l| l).unwrap_err();
    assert!(message.contains(expected), "{text:?} gave {message:?}, expected {expected:?}");
}

#[test]
fn rows_are_read_with_labels_comments_and_query_numbers() {
    let text = "# data\n1 1:0.5 3:2 # first\n\n-1.5 qid:7 2:1e-3\r\n0\n+1 4:1";
    let x = read(text, |l| l).unwrap();
    assert_eq!((x.rows(), x.cols()), (4, 4));
    assert_eq!(x.labels().unwrap(), [1.0, -1.5, 0.0, 1.0]);
    assert_eq!(x.row(0), (&[0, 2][..], &[0.5, 2.0][..]));
    assert_eq!(x.row(1), (&[1][..], &[1e-3][..]));
    assert_eq!(x.row(2), (&[][..], &[][..]));
    assert_eq!(x.row(3), (&[3][..], &[1.0][..]));
    let x = read("1 0:5 2:6\n", |l| l.zero_based().cols(10)).unwrap();
    assert_eq!((x.cols(), x.row(0)), (10, (&[0, 2][..], &[5.0, 6.0][..])));
}

#[test]
fn errors_name_line_and_column() {
    refused("1 1:1\n1 0:1\n", "t.svm, line 2, column 3: the index is 0");
    refused("1 2:1 2:3\n", "line 1, column 7: the index 2 follows 2");
    refused("1 2:1 1:3\n", "the index 1 follows 2");
    refused("one 1:1\n", "line 1, column 1: the line begins with \"one\", but its label must be a number");
    refused("1,2 1:1\n", "begins with \"1,2\", but its label");
    refused("1:1 2:1\n", "begins with \"1:1\" and has no label");
    refused("1 a:1\n", "line 1, column 3: \"a:1\" is not index:value");
    refused("1 1:\n", "\"1:\" is not index:value");
    refused("1 1:2x\n", "\"1:2x\" is not index:value");
    refused("1 1:nan\n", "\"nan\" is not finite");
    refused("inf 1:1\n", "\"inf\" is not finite");
    refused("1 4294967297:1\n", "the index 4294967297 is larger than 4294967296");
    refused("1 99999999999999999999999999:1\n", "is larger than");
    refused("", "has no rows");
    refused("# nothing\n", "has no rows");
    let message = read("1 5:1\n", |l| l.cols(4)).unwrap_err();
    assert!(message.contains("the index 5 is larger than 4"), "{message}");
}

fn long_text(rows: usize) -> String {
    let mut rng = Rng(11);
    let mut text = String::new();
    for _ in 0..rows {
        text += &format!("{}", rng.below(2));
        let mut index = 0;
        for _ in 0..rng.below(20) {
            index += 1 + rng.below(50);
            text += &format!(" {index}:{}", rng.below(1000) as f64 / 100.0);
        }
        text += "\n";
    }
    text
}

#[test]
fn long_files_are_the_same_by_rows_by_columns_kept_and_cut_again() {
    let text = long_text(60_000);
    assert!(text.len() > 3 << 20);
    let folder = Folder::new();
    let path = folder.file("long.svm", &text);
    let kept = folder.path().join("kept");
    let memory = Libsvm::new(&path).threads(3).in_memory().read::<f64>().unwrap();
    let file = Libsvm::new(&path).threads(1).keep_in(&kept).read::<f64>().unwrap();
    assert!(memory.len() > 10);
    assert_eq!(memory.id(), file.id());
    assert_eq!(memory.id(), Libsvm::new(&path).keep_in(&kept).read::<f64>().unwrap().id());
    for k in [1, 5] {
        assert_eq!(memory.partitions(k).unwrap().id(), file.partitions(k).unwrap().id());
        assert_eq!(file.partitions(k).unwrap().len(), k);
    }
    let whole = memory.partitions(1).unwrap().chunk(0).unwrap();
    assert_eq!(whole.rows(), 60_000);
    let again = memory.chunk_records(777).unwrap();
    assert_eq!((0..again.len()).map(|i| again.chunk(i).unwrap().rows()).sum::<usize>(), 60_000);
    assert_eq!(again.partitions(1).unwrap().id(), memory.partitions(1).unwrap().id());

    let columns = Libsvm::new(&path).keep_in(&kept).read_columns::<f64>().unwrap();
    let found = Libsvm::new(&path).keep_in(&kept).read_columns::<f64>().unwrap();
    assert_eq!((columns.data.id(), &columns.labels), (found.data.id(), &found.labels));
    assert_eq!(columns.labels, whole.labels().unwrap());
    assert_eq!(columns.data.records() as usize, whole.cols());
    let turned = columns.data.partitions(1).unwrap().chunk(0).unwrap();
    assert_eq!(turned.values().len(), whole.values().len());
    let mut next = vec![0; whole.cols()];
    for row in 0..whole.rows() {
        let (places, values) = whole.row(row);
        for (place, value) in places.iter().zip(values) {
            let column = turned.col(*place as usize);
            let at = &mut next[*place as usize];
            assert_eq!((column.0[*at], column.1[*at]), (row as u32, *value));
            *at += 1;
        }
    }
}

#[test]
fn random_bytes_and_changed_texts_never_panic() {
    let mut rng = Rng(5);
    let alphabet = b"0123456789: .#\n-eqid";
    let mut accepted = 0;
    for round in 0..20_000 {
        let mut text: Vec<u8> =
            if round % 2 == 0 { b"1 1:2 3:4\n-1 qid:3 2:5 # c\n".to_vec() } else { Vec::new() };
        for _ in 0..rng.below(8) {
            let byte =
                if rng.below(10) == 0 { rng.next() as u8 } else { alphabet[rng.below(alphabet.len())] };
            text.insert(rng.below(text.len() + 1), byte);
        }
        match qjam_readers::libsvm::parse_for_fuzzing(&text, (round % 3 == 0) as u32) {
            Ok(_) => accepted += 1,
            Err(message) => assert!(!message.is_empty()),
        }
    }
    assert!(accepted > 1000, "{accepted}");
}
