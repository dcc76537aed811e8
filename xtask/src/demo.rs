//! Runs `qjam demo` as a new user would, and checks its output.

use crate::dist;
use crate::failure::{AboutFile, Failure};
use crate::run::Run;
use crate::step::StepResult;
use crate::workspace::Workspace;
use std::path::{Path, PathBuf};

/// Starts every PNG file.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";

/// Runs it in an empty folder: it must report equal bits, write a picture, and leave no process.
pub fn run(workspace: &Workspace) -> StepResult {
    let folder = workspace.empty_folder("demo")?;
    // The portable executable, which is built already.
    dist::build(workspace)?;
    check(workspace.program(dist::path(workspace)), &folder)
}

/// Runs the demo of this executable in a folder without pictures.
pub fn check(qjam: Run, folder: &Path) -> StepResult {
    let text = qjam.arg("demo").dir(folder).limit_min(5).tee_and_leave_nothing()?;
    if !says_bits_are_equal(&text) {
        let what = "`qjam demo` ended well without a word about bits".to_string();
        return Err(Failure::Unexpected { what, expected: "a line that says the bits are equal" });
    }
    let pictures = pictures(folder)?;
    match pictures.first().and_then(|path| path.file_name()) {
        Some(name) => Ok(format!("bits are equal, {} written", name.display())),
        None => {
            let what = format!("no picture in {}", folder.display());
            Err(Failure::Unexpected { what, expected: "a PNG file" })
        }
    }
}

fn says_bits_are_equal(text: &str) -> bool {
    let mut lines = text.lines().map(str::to_lowercase);
    lines.any(|line| {
        let words: Vec<&str> = line.split(|c: char| !c.is_alphanumeric()).collect();
        let said = |word: &str| words.contains(&word);
        let denied = ["not", "no", "different", "differ"].iter().any(|word| said(word));
        (said("bits") || said("bit")) && (said("equal") || said("same") || said("identical")) && !denied
    })
}

fn pictures(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).about(folder)? {
        let path = entry.about(folder)?.path();
        if path.extension().is_some_and(|extension| extension == "png") {
            let bytes = std::fs::read(&path).about(&path)?;
            if !bytes.starts_with(PNG) {
                let what = format!("{} does not begin like a picture", path.display());
                return Err(Failure::Unexpected { what, expected: "a PNG file" });
            }
            found.push(path);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_line_that_says_so_counts() {
        assert!(says_bits_are_equal("done\nthe same bits on 1, 2 and 4 workers\n"));
        assert!(says_bits_are_equal("bits: equal"));
        assert!(!says_bits_are_equal("bits are not equal"));
        assert!(!says_bits_are_equal("bits differ\nthe same time"));
    }
}
