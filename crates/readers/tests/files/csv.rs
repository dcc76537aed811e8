//! Tables in text: what is read, and what is said about what cannot be.
#![allow(clippy::unwrap_used, reason = "a test says what went wrong by panicking")]

use crate::common::{Folder, Rng};
use qjam_readers::{Csv, Header, Missing, ReadError};
use std::cell::RefCell;
use std::io::Write;
use std::rc::Rc;

fn values(text: &str, how: impl FnOnce(Csv) -> Csv) -> Result<(Vec<String>, Vec<f64>), ReadError> {
    let folder = Folder::new();
    let table = how(Csv::new(folder.file("t.csv", text))).read::<f64>()?;
    let values = (0..table.data.len()).flat_map(|i| table.data.chunk(i).unwrap().as_slice().to_vec());
    let values = values.collect();
    Ok((table.columns, values))
}

fn check(text: &str, how: impl FnOnce(Csv) -> Csv, names: &[&str], expected: &[f64]) {
    let (columns, found) = values(text, how).unwrap();
    assert_eq!(
        (columns.iter().map(String::as_str).collect::<Vec<_>>(), &found[..]),
        (names.to_vec(), expected),
        "{text:?}"
    );
}

fn refused(text: &str, how: impl FnOnce(Csv) -> Csv, expected: &str) {
    let message = values(text, how).unwrap_err().to_string();
    assert!(message.contains(expected), "{text:?} gave {message:?}, expected {expected:?}");
}

#[test]
fn tables_are_read_as_they_are_meant() {
    check("a,b\n1,2\n3,4\n", |c| c, &["a", "b"], &[1.0, 2.0, 3.0, 4.0]);
    check("1,2\n3,4", |c| c, &["1", "2"], &[1.0, 2.0, 3.0, 4.0]);
    check("\u{feff}a,b\r\n\r\n1, 2 \r\n\"3\",\"4\"\r\n", |c| c, &["a", "b"], &[1.0, 2.0, 3.0, 4.0]);
    check("1,2\n3,4\n", |c| c.header(Header::Yes), &["1", "2"], &[3.0, 4.0]);
    check("a;b\n1;2\n", |c| c.delimiter(b';'), &["a", "b"], &[1.0, 2.0]);
    check("# hello\na,b\n# x\n1,2\n", |c| c.comment(b'#'), &["a", "b"], &[1.0, 2.0]);
    check("a,b,c\n1,x,3\n", |c| c.columns(["c", "a"]), &["c", "a"], &[3.0, 1.0]);
    check("a,b,c\n1,x,3\n", |c| c.without(["b"]), &["a", "c"], &[1.0, 3.0]);
    check("a,y,c\n1,2,3\n", |c| c.target("y"), &["a", "c", "y"], &[1.0, 3.0, 2.0]);
    check("a,b\n\"x\ny, \"\"z\"\"\",2\nq,3\n", |c| c.columns(["b"]), &["b"], &[2.0, 3.0]);
    check("x\n+1\n-2e3\ntrue\nFALSE\n.5\n", |c| c, &["x"], &[1.0, -2000.0, 1.0, 0.0, 0.5]);
}

#[test]
fn missing_values_are_treated_as_asked() {
    let text = "a,b\n1,\nNA,4\n3,6\n";
    refused(text, |c| c, "line 2, column 3: the value of column \"b\" is missing");
    check(text, |c| c.missing(Missing::Value(9.0)), &["a", "b"], &[1.0, 9.0, 9.0, 4.0, 3.0, 6.0]);
    check(text, |c| c.missing(Missing::Mean), &["a", "b"], &[1.0, 5.0, 2.0, 4.0, 3.0, 6.0]);
    check(text, |c| c.missing(Missing::DropRow), &["a", "b"], &[3.0, 6.0]);
    check("a\n1\ninf\n2\n", |c| c.missing(Missing::DropRow), &["a"], &[1.0, 2.0]);
    refused("a,b\n1,\n2,NA\n", |c| c.missing(Missing::Mean), "column \"b\" has no value at all");
    refused("a\nNA\n", |c| c.missing(Missing::DropRow), "no row without a missing value");
}

#[test]
fn errors_name_line_and_column() {
    refused(
        "a,b\n1,2\n3\n",
        |c| c,
        "t.csv, line 3, column 1: the line has 1 fields and the first line has 2",
    );
    refused("a,b\n1,2,3\n", |c| c, "line 2, column 1: the line has 3 fields");
    refused("a,b\n1,2\n\n3,four\n", |c| c, "line 4, column 3: \"four\" in column \"b\" is not a number");
    refused("a,b\n1,-inf\n", |c| c, "line 2, column 3: \"-inf\" is not finite");
    refused("a,b\n1,1e999\n", |c| c, "is not finite");
    refused("a,b\n1,\"2\n", |c| c, "the quote that opens here is not closed");
    refused("a,b\n1,2\n", |c| c.columns(["c"]), "has no column \"c\"; it has \"a\", \"b\"");
    refused("a,a\n1,2\n", |c| c.columns(["a"]), "several columns are called \"a\"");
    refused("a,b\n1,2\n", |c| c.columns(["a", "a"]), "requested twice");
    refused("a,b\n1,2\n", |c| c.without(["a", "b"]), "no column is left");
    refused("", |c| c, "has no lines");
    refused("a,b\n", |c| c, "has no rows");
    assert!(matches!(Csv::new("/nowhere/x.csv").read::<f64>(), Err(ReadError::Io { .. })));
    assert!(matches!(Csv::new("/").read::<f64>(), Err(ReadError::NotAFile { .. })));
}

/// A text long enough for several blocks, and its values.
fn long_text(rows: usize) -> (String, Vec<f64>) {
    let mut rng = Rng(7);
    let (mut text, mut values) = (String::from("a,b,c\n"), Vec::new());
    for _ in 0..rows {
        for column in 0..3 {
            let value = match rng.below(4) {
                0 => rng.below(1000) as f64,
                1 => -(rng.below(100_000) as f64) / 1000.0,
                _ => f64::from_bits(rng.next() >> 12 | 0x3ff0_0000_0000_0000) - 1.0,
            };
            let quoted = rng.below(50) == 0;
            let mark = if quoted { "\"" } else { "" };
            text += &format!("{mark}{value}{mark}{}", if column == 2 { "\n" } else { "," });
            values.push(value);
        }
    }
    (text, values)
}

#[test]
fn long_files_are_the_same_on_any_threads_plain_or_packed_in_memory_or_kept() {
    let (text, expected) = long_text(120_000);
    assert!(text.len() > 3 << 20);
    let folder = Folder::new();
    let plain = folder.file("plain.csv", &text);
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(text.as_bytes()).unwrap();
    let gz = folder.file("packed.csv.gz", gz.finish().unwrap());
    let zst = folder.file("packed.csv.zst", zstd::encode_all(text.as_bytes(), 1).unwrap());
    let mut ids = Vec::new();
    for path in [&plain, &gz, &zst] {
        for threads in [1, 3] {
            ids.push(Csv::new(path).threads(threads).in_memory().read::<f64>().unwrap().data.id());
        }
        let kept = || Csv::new(path).keep_in(folder.path().join("kept")).read::<f64>().unwrap();
        let table = kept();
        ids.extend([table.data.id(), kept().data.id()]);
        let all: Vec<f64> =
            (0..table.data.len()).flat_map(|i| table.data.chunk(i).unwrap().as_slice().to_vec()).collect();
        assert_eq!(all, expected);
        let memory = Csv::new(path).in_memory().read::<f64>().unwrap();
        assert_eq!(table.data.partitions(7).unwrap().id(), memory.data.partitions(7).unwrap().id());
    }
    assert!(ids.iter().all(|id| *id == ids[0]));
    assert_eq!(std::fs::read_dir(folder.path().join("kept")).unwrap().count(), 3);
}

#[test]
fn the_second_reading_takes_what_was_kept_and_a_changed_file_is_read_anew() {
    let folder = Folder::new();
    let kept = folder.path().join("kept");
    let path = folder.file("t.csv", "a\n1\n2\n");
    let told = Rc::new(RefCell::new(Vec::new()));
    let read = || {
        let told = told.clone();
        let csv = Csv::new(&path).keep_in(&kept).progress(move |p| told.borrow_mut().push((p.done, p.total)));
        csv.read::<f64>().unwrap()
    };
    assert_eq!(read().data.records(), 2);
    assert_eq!(*told.borrow(), [(6, 6)]);
    assert_eq!(read().columns, ["a"]);
    assert_eq!(told.borrow().len(), 1);
    folder.file("t.csv", "a\n1\n2\n3\n");
    assert_eq!(read().data.records(), 3);
    // What was kept and is damaged is made again.
    for file in std::fs::read_dir(&kept).unwrap() {
        let file = file.unwrap().path();
        let whole = std::fs::read(&file).unwrap();
        std::fs::write(&file, &whole[..whole.len() / 2]).unwrap();
    }
    assert_eq!(read().data.records(), 3);
}

#[test]
fn errors_behind_the_first_block_name_their_line() {
    let (mut text, _) = long_text(120_000);
    text += "1,2,x\n";
    refused(&text, |c| c.threads(3), "line 120002, column 5: \"x\"");
    // The first of several is named, whoever finds it.
    let middle = text[..text.len() / 2].rfind('\n').unwrap() + 1;
    let line = text[..middle].matches('\n').count() + 1;
    text.insert_str(middle, "oops\n");
    refused(&text, |c| c.threads(3), &format!("line {line}, column 1: \"oops\""));
}

#[test]
fn packed_files_that_are_cut_short_are_refused() {
    let folder = Folder::new();
    let (text, _) = long_text(2000);
    let zst = zstd::encode_all(text.as_bytes(), 1).unwrap();
    let path = folder.file("t.csv.zst", &zst[..zst.len() - 10]);
    let message = Csv::new(path).read::<f64>().unwrap_err().to_string();
    assert!(message.contains("cannot be decompressed"), "{message}");
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(text.as_bytes()).unwrap();
    let gz = gz.finish().unwrap();
    let path = folder.file("t.csv.gz", &gz[..gz.len() - 10]);
    let message = Csv::new(path).read::<f64>().unwrap_err().to_string();
    assert!(message.contains("cannot be decompressed"), "{message}");
}

#[test]
fn random_bytes_and_changed_texts_never_panic() {
    let folder = Folder::new();
    let mut rng = Rng(3);
    let alphabet = b"0123456789,.\"\n\r -e#xNA";
    let mut accepted = 0;
    for round in 0..200 {
        let mut text: Vec<u8> =
            if round % 2 == 0 { b"a,b\n1,2\n3,4.5\n\"6\",7\n".to_vec() } else { Vec::new() };
        for _ in 0..rng.below(20) {
            let byte =
                if rng.below(10) == 0 { rng.next() as u8 } else { alphabet[rng.below(alphabet.len())] };
            text.insert(rng.below(text.len() + 1), byte);
        }
        let path = folder.file("t.csv", &text);
        let missing = [Missing::Error, Missing::Mean, Missing::DropRow, Missing::Value(0.0)][rng.below(4)];
        match Csv::new(&path).missing(missing).threads(1).read::<f64>() {
            Ok(table) => {
                accepted += 1;
                let chunk = table.data.chunk(0).unwrap();
                assert_eq!(chunk.cols(), table.columns.len());
                assert!(chunk.as_slice().iter().all(|value| value.is_finite()), "{text:?}");
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
    assert!(accepted > 4, "{accepted}");
}
