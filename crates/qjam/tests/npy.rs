//! `.npy` files: what is read, and what every bad one is told.

use qjam::source::npy::{HEADER_BYTES_MAX, NpyError, NpyHeader, parse_header};
use qjam::{DataError, DataSet, Dense};
use std::path::PathBuf;

/// A file as NumPy writes it: the header padded with spaces so that the values start at a multiple of 64.
fn npy(version: u8, dictionary: &str, values: &[u8]) -> Vec<u8> {
    let mut file = b"\x93NUMPY".to_vec();
    file.extend_from_slice(&[version, 0]);
    let prefix = if version == 1 { 10 } else { 12 };
    let text = format!(
        "{dictionary:<width$}\n",
        width = (prefix + dictionary.len() + 1).next_multiple_of(64) - prefix - 1
    );
    if version == 1 {
        file.extend_from_slice(&(text.len() as u16).to_le_bytes());
    } else {
        file.extend_from_slice(&(text.len() as u32).to_le_bytes());
    }
    file.extend_from_slice(text.as_bytes());
    file.extend_from_slice(values);
    file
}

fn dictionary(descr: &str, fortran: bool, shape: &str) -> String {
    let order = if fortran { "True" } else { "False" };
    format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}")
}

fn parse(dictionary: &str) -> Result<NpyHeader, NpyError> {
    parse_header(&npy(1, dictionary, &[]))
}

/// A file of this test's own.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str, bytes: &[u8]) -> Self {
        let path = std::env::temp_dir().join(format!("qjam-npy-{}-{name}", std::process::id()));
        std::fs::write(&path, bytes).expect("a scratch file");
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn all_versions_types_and_both_dimensions_are_read() {
    for version in [1, 2, 3] {
        for (descr, width) in [("<f4", 4), ("<f8", 8), ("<i4", 4), ("<i8", 8), ("|u1", 1)] {
            let header = parse_header(&npy(version, &dictionary(descr, false, "(3, 5)"), &[])).unwrap();
            assert_eq!((header.descr, header.rows, header.cols), (descr, 3, 5));
            assert_eq!((header.data_bytes, header.data_offset % 64), (15 * width, 0));
            let header = parse_header(&npy(version, &dictionary(descr, false, "(7,)"), &[])).unwrap();
            assert_eq!((header.rows, header.cols), (7, 1));
        }
    }
}

#[test]
fn spellings_that_python_allows_are_read() {
    for text in [
        "{'shape': (2, 3), 'fortran_order': False, 'descr': '<f8'}",
        "{\"descr\":\"<f8\",\"fortran_order\":False,\"shape\":(2,3)}",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (2L, 3L), }",
        "  { 'descr' : '<f8' , 'fortran_order' : False , 'shape' : ( 2 , 3 , ) , }  ",
    ] {
        let header = parse(text).expect(text);
        assert_eq!((header.rows, header.cols), (2, 3), "{text}");
    }
    // With one dimension the order means nothing.
    assert_eq!(parse(&dictionary("<f8", true, "(4,)")).unwrap().rows, 4);
}

#[test]
fn each_bad_header_has_its_error() {
    let refused = |text: &str| parse(text).expect_err(text);
    let dict = |descr: &str, shape: &str| dictionary(descr, false, shape);
    assert_eq!(refused(&dictionary("<f8", true, "(3, 4)")), NpyError::Fortran { rows: 3, cols: 4 });
    assert_eq!(refused(&dict(">f8", "(3, 4)")), NpyError::BigEndian { descr: ">f8".into() });
    assert_eq!(refused(&dict("|O", "(3, 4)")), NpyError::Objects { descr: "|O".into() });
    for other in ["<f2", "<c16", "<b1", "|b2", ">u2", "", "<f88", "f8"] {
        assert_eq!(refused(&dict(other, "(3, 4)")), NpyError::Type { descr: other.into() });
    }
    for texts in ["<U5", "|S3"] {
        assert_eq!(refused(&dict(texts, "(3, 4)")), NpyError::Texts { descr: texts.into() });
    }
    assert_eq!(parse(&dict("|b1", "(3, 4)")).unwrap().descr, "|u1", "truth values are bytes");
    let fields = "{'descr': [('a', '<f8'), ('b', '<i4')], 'fortran_order': False, 'shape': (3,), }";
    assert_eq!(refused(fields), NpyError::Structured);
    assert_eq!(refused(&dict("<f8", "(2, 3, 4)")), NpyError::Dimensions { shape: vec![2, 3, 4] });
    assert_eq!(refused(&dict("<f8", "()")), NpyError::Dimensions { shape: vec![] });
    let huge = u64::MAX;
    assert_eq!(refused(&dict("<f8", &format!("({huge}, 2)"))), NpyError::TooLarge { shape: vec![huge, 2] });
    assert_eq!(refused(&dict("<f8", &format!("({huge},)"))), NpyError::TooLarge { shape: vec![huge] });

    let missing = |key| NpyError::HeaderIncomplete { key };
    assert_eq!(refused("{}"), missing("descr"));
    assert_eq!(refused("{'descr': '<f8', 'shape': (1,)}"), missing("fortran_order"));
    assert_eq!(refused("{'descr': '<f8', 'fortran_order': False}"), missing("shape"));

    for text in [
        "",
        "nonsense",
        "{'descr': '<f8'",
        "{'descr': '<f8",
        "{'descr' '<f8'}",
        "{'descr': '<f8' 'shape': (1,)}",
        "{'descr': '<\\x66', 'fortran_order': False, 'shape': (1,)}",
        "{'descr': '<f8', 'fortran_order': false, 'shape': (1,)}",
        "{'descr': '<f8', 'fortran_order': False, 'shape': [1]}",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (1 2)}",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (-1,)}",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (1.0,)}",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999999999999,)}",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (1,), 'more': 1}",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (1,)} {}",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (,)}",
    ] {
        assert!(matches!(refused(text), NpyError::HeaderSyntax { .. }), "{text}: {:?}", refused(text));
    }
}

#[test]
fn every_truncation_of_a_header_is_an_error() {
    for version in [1, 2] {
        let whole = npy(version, &dictionary("<f8", false, "(3, 4)"), &[]);
        for end in 0..whole.len() {
            let error = parse_header(&whole[..end]).unwrap_err();
            let expected = if end < 6 { "NotNpy" } else { "HeaderTruncated" };
            assert!(format!("{error:?}").starts_with(expected), "{end}: {error:?}");
        }
    }
}

#[test]
fn other_files_and_versions_are_refused() {
    assert!(matches!(parse_header(b"PK\x03\x04 and so on"), Err(NpyError::NotNpy { .. })));
    assert!(parse_header(b"PK\x03\x04 and so on").unwrap_err().to_string().contains(".npz"));
    let mut file = npy(1, &dictionary("<f8", false, "(1,)"), &[]);
    file[6] = 4;
    assert_eq!(parse_header(&file), Err(NpyError::Version { major: 4, minor: 0 }));
    let mut long = b"\x93NUMPY\x02\x00".to_vec();
    long.extend_from_slice(&(HEADER_BYTES_MAX as u32 + 1).to_le_bytes());
    assert_eq!(parse_header(&long), Err(NpyError::HeaderTooLong { bytes: HEADER_BYTES_MAX as u64 + 1 }));
    let mut longest = b"\x93NUMPY\x02\x00".to_vec();
    longest.extend_from_slice(&(HEADER_BYTES_MAX as u32).to_le_bytes());
    longest.extend_from_slice(dictionary("<f8", false, "(1,)").as_bytes());
    longest.resize(12 + HEADER_BYTES_MAX, b' ');
    assert_eq!(parse_header(&longest).unwrap().data_offset, 12 + HEADER_BYTES_MAX as u64);
}

#[test]
fn values_come_as_numpy_wrote_them() {
    let values: Vec<f64> = (0..12).map(f64::from).collect();
    let raw: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    let file = Scratch::new("good", &npy(1, &dictionary("<f8", false, "(4, 3)"), &raw));
    let data = DataSet::<Dense<f64>>::npy(&file.0).unwrap();
    assert_eq!((data.records(), data.bytes(), data.len()), (4, 96, 1));
    assert_eq!(data.chunk(0).unwrap().row(3), [9.0, 10.0, 11.0]);
    assert_eq!(data.id(), DataSet::dense(values.clone(), 3).unwrap().id(), "named by content alone");
    let parts = data.partitions(2).unwrap();
    assert_eq!(parts.chunk(1).unwrap().as_slice(), &values[6..]);
}

#[test]
fn files_that_do_not_fit_are_named_with_what_to_do() {
    let refused = |name: &str, bytes: &[u8], expected: &str| {
        let file = Scratch::new(name, bytes);
        let error = DataSet::<Dense<f64>>::npy(&file.0).unwrap_err();
        assert!(matches!(error, DataError::Npy { .. }), "{error:?}");
        let text = error.to_string();
        assert!(text.contains(&*file.0.to_string_lossy()), "{text}");
        assert!(text.contains(expected), "{text}");
    };
    refused(
        "short",
        &npy(1, &dictionary("<f8", false, "(4, 3)"), &[0; 95]),
        "96 bytes were expected and there are 95",
    );
    refused("other", &npy(1, &dictionary("<f4", false, "(1, 1)"), &[0; 4]), "Dense<f64>");
    refused("fortran", &npy(1, &dictionary("<f8", true, "(4, 3)"), &[0; 96]), "ascontiguousarray");
    refused("big", &npy(1, &dictionary(">f8", false, "(4, 3)"), &[0; 96]), "astype('<f8')");
    refused("text", b"1,2,3\n", "not a .npy file");
    refused("empty", b"", "not a .npy file");
}

#[test]
fn empty_matrices_are_refused() {
    let open = |name: &str, shape: &str| {
        let file = Scratch::new(name, &npy(1, &dictionary("<f8", false, shape), &[]));
        DataSet::<Dense<f64>>::npy(&file.0).unwrap_err()
    };
    assert!(matches!(open("no-rows", "(0, 3)"), DataError::Empty { what: "rows" }));
    assert!(matches!(open("no-cols", "(3, 0)"), DataError::NoColumns));
    assert!(matches!(open("nothing", "(0,)"), DataError::Empty { .. }));
}
