//! Checks that the book's table of guarantees names tests that exist and run.
//!
//! In: the page `what-the-tests-hold.md`, and the sources of all tests. Out: the names behind which there is no test, and those of tests
//! that are ignored although the table does not say that only `--full` runs them. A test that was renamed, deleted or switched off would
//! otherwise leave a guarantee without one, and nobody would notice.
//!
//! A test is a function with `#[test]`, a promise of the conformance suite, or a Python function `test_…` in a file of tests.

use crate::failure::{AboutFile, Failure};
use crate::hygiene;
use crate::step::StepResult;
use crate::workspace::Workspace;
use std::collections::BTreeMap;
use std::path::Path;

const PAGE: &str = "docs/book/what-the-tests-hold.md";
/// Names after this word of a row are of tests that only the full tier runs.
const FULL: &str = "--full";

/// When a test runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Runs {
    Always,
    /// It is ignored, which only the full tier does not do.
    InFull,
}

/// Compares the page with the sources.
pub fn check(workspace: &Workspace) -> StepResult {
    let page = workspace.root.join(PAGE);
    let text = std::fs::read_to_string(&page).about(&page)?;
    let mut tests = BTreeMap::new();
    let mut files = Vec::new();
    hygiene::collect(&workspace.root, &mut files)?;
    for path in &files {
        let shown = path.strip_prefix(&workspace.root).unwrap_or(path);
        let Some(language) = Language::of(shown) else { continue };
        let source = std::fs::read_to_string(path).about(path)?;
        for (name, runs) in language.tests(&source) {
            // Of several tests of one name, one that always runs is enough.
            let known = tests.entry(name.to_owned()).or_insert(runs);
            *known = runs.min(*known);
        }
    }
    let wrong = wrong(&text, &tests);
    if wrong.is_empty() {
        return Ok(format!("{} tests", named(&text).count()));
    }
    let what = format!("{PAGE}: {}", wrong.join("; "));
    Err(Failure::Unexpected { what, expected: "tests that exist and run" })
}

/// What is wrong with the page.
fn wrong(page: &str, tests: &BTreeMap<String, Runs>) -> Vec<String> {
    let judge = |(name, said): (&str, Runs)| match (said, tests.get(name)) {
        (_, None) => Some(format!("there is no test {name}")),
        (Runs::Always, Some(Runs::InFull)) => Some(format!("{name} is ignored; name it after `{FULL}`")),
        (Runs::InFull, Some(Runs::Always)) => Some(format!("{name} always runs; name it before `{FULL}`")),
        _ => None,
    };
    named(page).filter_map(judge).collect()
}

/// The tests in the table, and when the row says that they run: words in backticks that are names of several words.
fn named(page: &str) -> impl Iterator<Item = (&str, Runs)> {
    let rows = page.lines().filter(|line| line.starts_with('|'));
    rows.flat_map(|row| {
        let mut runs = Runs::Always;
        row.split('`').skip(1).step_by(2).filter_map(move |word| {
            if word == FULL {
                runs = Runs::InFull;
            }
            let is_name = word.contains('_') && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
            is_name.then_some((word, runs))
        })
    })
}

/// How tests are recognised in a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Language {
    Rust,
    /// The promises of `qjam-conformance`, which its harness runs.
    Promises,
    Python,
}

impl Language {
    /// That of a file, if there can be tests in it.
    fn of(path: &Path) -> Option<Language> {
        let (folder, kind) = (path.parent()?.to_str()?, path.extension()?.to_str()?);
        match (folder, kind) {
            ("crates/conformance/src/promises", "rs") => Some(Language::Promises),
            (_, "rs") => Some(Language::Rust),
            ("python/tests", "py") => Some(Language::Python),
            _ => None,
        }
    }

    /// The tests that a source defines.
    fn tests(self, source: &str) -> Vec<(&str, Runs)> {
        let (mut found, mut is_test, mut runs) = (Vec::new(), false, Runs::Always);
        for line in source.lines().map(str::trim) {
            // Attributes hold for the next function.
            if line.starts_with("#[test]") {
                is_test = true;
            } else if line.starts_with("#[ignore") {
                runs = Runs::InFull;
            }
            let Some((before, rest)) = function(line) else { continue };
            let name = rest.split(['(', '<']).next().unwrap_or(rest);
            let counts = match self {
                Language::Rust => is_test,
                Language::Promises => before == "pub(crate) fn",
                Language::Python => name.starts_with("test_"),
            };
            if counts {
                found.push((name, runs));
            }
            (is_test, runs) = (false, Runs::Always);
        }
        found
    }
}

/// What stands before the name of a function that is defined in a line, and what after that.
fn function(line: &str) -> Option<(&str, &str)> {
    ["pub(crate) fn", "pub fn", "fn", "async def", "def"]
        .into_iter()
        .find_map(|before| Some((before, line.strip_prefix(before)?.strip_prefix(' ')?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_rows_are_tests_and_commands_are_not() {
        let page = "`not_in_a_row`\n| `qjam clean` removes | `cleaning_leaves_nothing`, `auto`; with `--full` `all_of_it` |\n| x | `next_row` |\n";
        assert_eq!(
            named(page).collect::<Vec<_>>(),
            [
                ("cleaning_leaves_nothing", Runs::Always),
                ("all_of_it", Runs::InFull),
                ("next_row", Runs::Always)
            ]
        );
    }

    #[test]
    fn only_what_is_run_as_a_test_is_one() {
        let rust = "fn helper_of() {}\n#[test]\n#[ignore = \"a measurement\"]\nfn long_one() {\n    #[test]\n    \
                    fn in_a_module() {}\n/// #[test]\npub fn documented_one() {}\n";
        let found = Language::of(Path::new("crates/x/src/y.rs")).unwrap().tests(rust);
        assert_eq!(found, [("long_one", Runs::InFull), ("in_a_module", Runs::Always)]);
        let promises = "pub(crate) fn a_promise(e: &Engine) {\nfn with_type<T>() {\n// pub(crate) fn no\n";
        let language = Language::of(Path::new("crates/conformance/src/promises/bits.rs")).unwrap();
        assert_eq!(language.tests(promises), [("a_promise", Runs::Always)]);
        let python = "  def test_it(x):\ndef helper_of(x):\n";
        let language = Language::of(Path::new("python/tests/test_x.py")).unwrap();
        assert_eq!(language.tests(python), [("test_it", Runs::Always)]);
        assert_eq!(Language::of(Path::new("python/qjam/x.py")), None);
    }

    #[test]
    fn tests_that_are_missing_ignored_or_always_run_are_told() {
        let tests = [("a_b", Runs::Always), ("c_d", Runs::InFull)];
        let tests = tests.into_iter().map(|(name, runs)| (name.to_owned(), runs)).collect();
        assert!(wrong("| x | `a_b`; with `--full` `c_d` |", &tests).is_empty());
        let told = wrong("| x | `c_d`, `e_f`, `--full` `a_b` |", &tests);
        let words = ["c_d is ignored", "there is no test e_f", "a_b always runs"];
        assert_eq!(told.len(), 3);
        assert!(told.iter().zip(words).all(|(told, word)| told.contains(word)), "{told:?}");
    }
}
