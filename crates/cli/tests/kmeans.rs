//! k-means from files, as people meet it: fit, predict, inspect, measure, and calls that are wrong.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn qjam(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_qjam"))
        .args(args)
        .env("NO_COLOR", "1")
        .output()
        .expect("the command starts")
}

fn out(args: &[&str]) -> String {
    let output = qjam(args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn refused(args: &[&str]) -> String {
    let output = qjam(args);
    assert!(!output.status.success(), "{args:?} should have failed");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A folder that goes away with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("qjam-kmeans-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder");
        Folder(path)
    }

    fn file(&self, name: &str) -> String {
        self.0.join(name).to_string_lossy().into_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn write_npy(path: &str, columns: usize, values: &[f32]) {
    let shape = format!("({}, {columns})", values.len() / columns);
    let mut header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}");
    while !(10 + header.len() + 1).is_multiple_of(64) {
        header.push(' ');
    }
    header.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend_from_slice(&(header.len() as u16).to_le_bytes());
    bytes.extend_from_slice(header.as_bytes());
    bytes.extend(values.iter().flat_map(|v| v.to_le_bytes()));
    std::fs::write(path, bytes).expect("a file");
}

/// Three groups of points in the plane.
fn points(n: u32) -> Vec<f32> {
    (0..n).flat_map(|i| [(i % 3) as f32 * 10.0 + (i % 7) as f32 * 0.1, (i % 5) as f32 * 0.1]).collect()
}

#[test]
fn a_model_is_fitted_inspected_and_asked() {
    let folder = Folder::new("fit");
    let (x, model, labels) = (folder.file("x.npy"), folder.file("x.model"), folder.file("labels.npy"));
    write_npy(&x, 2, &points(3000));
    let said = out(&["fit", "kmeans", &x, "--k", "3", "--out", &model, "--workers", "local:2", "--json"]);
    assert!(said.contains("\"outcome\":\"fixed point\"") && said.contains("\"empty\":0"), "{said}");
    let again = out(&["fit", "kmeans", &x, "--k", "3", "--out", &model, "--workers", "proc:2", "--json"]);
    let hash = |said: &str| said.split("\"hash\":\"").nth(1).map(|rest| rest[..32].to_string());
    assert_eq!(hash(&said), hash(&again));
    assert!(out(&["inspect", &model]).contains("centres: 3 x 2 of F32"));
    let said = out(&["predict", &model, &x, "--workers", "local:1"]);
    let found: Vec<&str> = said.lines().collect();
    assert_eq!(found.len(), 3000);
    assert!(found[0] != found[1] && found[1] != found[2] && found[0] == found[3]);
    out(&["predict", &model, &x, "--out", &labels]);
    assert_eq!(std::fs::metadata(&labels).expect("labels").len(), 128 + 4 * 3000);
}

#[test]
fn an_iteration_is_measured_with_and_without_pruning() {
    let folder = Folder::new("bench");
    let (x, c, to) = (folder.file("x.npy"), folder.file("c.npy"), folder.file("c2.npy"));
    write_npy(&x, 2, &points(3000));
    write_npy(&c, 2, &points(3000)[..8]);
    let args = ["bench", "kmeans", "--data", &x, "--init", &c, "--iterations", "4", "--json", "--out", &to];
    let mut hashes = Vec::new();
    for more in [&["--workers", "local:2"][..], &["--workers", "proc:2", "--no-pruning"]] {
        let said = out(&[&args[..], more].concat());
        for key in ["ms_per_iteration", "inertia", "\"iterations\":4", "hash"] {
            assert!(said.contains(key), "{key} is missing from {said}");
        }
        hashes.push(said.split("\"hash\":\"").nth(1).map(|rest| rest[..32].to_string()));
    }
    assert_eq!(hashes[0], hashes[1]);
    assert!(Path::new(&to).exists());
}

#[test]
fn wrong_calls_say_what_is_wrong() {
    let folder = Folder::new("wrong");
    let (x, bad, model) = (folder.file("x.npy"), folder.file("bad.npy"), folder.file("x.model"));
    write_npy(&x, 2, &points(30));
    let fit = |data: &str, k: &str| refused(&["fit", "kmeans", data, "--k", k, "--out", &model]);
    assert!(fit(&folder.file("none.npy"), "3").contains("none.npy"));
    assert!(fit(&x, "31").contains("31 clusters of 30 rows"));
    assert!(fit(&x, "0").contains("0 clusters"));
    let mut values = points(30);
    values[7] = f32::NAN;
    write_npy(&bad, 2, &values);
    assert!(fit(&bad, "3").contains("row 3, column 1 (counted from 0) is NaN"));
    assert!(!Path::new(&model).exists());
    out(&["fit", "kmeans", &x, "--k", "3", "--out", &model]);
    write_npy(&bad, 3, &points(30));
    assert!(refused(&["predict", &model, &bad]).contains("3 columns and the centres have 2"));
    assert!(refused(&["inspect", &x]).contains("damaged, cut off or no model"));
    let said = refused(&["bench", "kmeans", "--data", &x, "--init", &bad, "--workers", "local:1"]);
    assert!(said.contains("columns"), "{said}");
}
