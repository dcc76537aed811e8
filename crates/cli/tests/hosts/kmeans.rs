//! A learner on other hosts: k-means has one hash there and here, of dense and sparse files, through kills.

use crate::support::{Host, command, ran, through_kills};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Files that go away with the test.
struct Files(PathBuf);

impl Files {
    /// Numbers around 30 points, of which many are 0: lines of a table, and of what is not zero.
    fn write() -> Files {
        let folder = std::env::temp_dir().join(format!("qjam-hosts-kmeans-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (mut csv, mut svm) = (String::new(), String::new());
        let mut state = 1_u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f64 / f64::from(1 << 24)
        };
        for row in 0..6_000 {
            svm.push('1');
            for column in 0..70 {
                let v = match (row + column) % 3 {
                    0 => 0.0,
                    _ => f64::from((row % 30) * (column % 7 + 1) % 11) + random(),
                };
                let end = if column == 69 { '\n' } else { ',' };
                write!(csv, "{v:.4}{end}").unwrap();
                if v != 0.0 {
                    write!(svm, " {}:{v:.4}", column + 1).unwrap();
                }
            }
            svm.push('\n');
        }
        std::fs::write(folder.join("x.csv"), csv).unwrap();
        std::fs::write(folder.join("x.svm"), svm).unwrap();
        Files(folder)
    }

    /// The hash of the centres that a fit on these workers ends with.
    fn hash(&self, file: &str, workers: &str) -> String {
        let (file, model) = (self.0.join(file), self.0.join("model"));
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let words = "--k 40 --starts 4 --tolerance 0 --iterations 60 --seed 3 --json";
        let (file, model) = (text(&file), text(&model));
        let mut args = vec!["fit", "kmeans", &file, "--workers", workers, "--out", &model];
        args.extend(words.split(' '));
        let ran = ran(&mut command(&args));
        ran.must_work();
        ran.json()["hash"].as_str().unwrap().to_owned()
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn k_means_has_one_hash_on_hosts_and_here_through_kills() {
    let (a, b) = (Host::take("a"), Host::take("b"));
    let files = Files::write();
    for file in ["x.csv", "x.svm"] {
        let expected = files.hash(file, "local:2");
        assert_eq!(files.hash(file, "proc:2"), expected, "{file}");
        assert_eq!(files.hash(file, "a*2,b"), expected, "{file}");
        let found = through_kills(&[&a, &b], || files.hash(file, "a*2,b"));
        assert_eq!(found, expected, "{file}, through kills");
    }
}
