//! Checks that the book's table of guarantees names tests that exist.
//!
//! In: the page `what-the-tests-hold.md`, and the sources of all tests. Out: the names that no source defines. A renamed or deleted test
//! would otherwise leave a guarantee without one, and nobody would notice.

use crate::failure::{AboutFile, Failure};
use crate::hygiene;
use crate::step::StepResult;
use crate::workspace::Workspace;
use std::collections::BTreeSet;

const PAGE: &str = "docs/book/what-the-tests-hold.md";

/// Compares the page with the sources.
pub fn check(workspace: &Workspace) -> StepResult {
    let page = workspace.root.join(PAGE);
    let text = std::fs::read_to_string(&page).about(&page)?;
    let mut missing: BTreeSet<&str> = named(&text).collect();
    let count = missing.len();
    let mut files = Vec::new();
    hygiene::collect(&workspace.root, &mut files)?;
    for path in files.iter().filter(|path| path.extension().is_some_and(|kind| kind == "rs" || kind == "py"))
    {
        let source = std::fs::read_to_string(path).about(path)?;
        defined(&source).for_each(|name| {
            missing.remove(name);
        });
    }
    if missing.is_empty() {
        return Ok(format!("{count} tests"));
    }
    let names: Vec<&str> = missing.into_iter().collect();
    let what = format!("{PAGE} names {}, which no file defines", names.join(", "));
    Err(Failure::Unexpected { what, expected: "tests that exist" })
}

/// The tests in the table: words in backticks that are names of several words.
fn named(page: &str) -> impl Iterator<Item = &str> {
    let rows = page.lines().filter(|line| line.starts_with('|'));
    let quoted = rows.flat_map(|row| row.split('`').skip(1).step_by(2));
    quoted.filter(|word| word.contains('_') && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'))
}

/// The functions that a source defines.
fn defined(source: &str) -> impl Iterator<Item = &str> {
    let names = source.lines().filter_map(|line| {
        let line = line.trim_start().trim_start_matches("pub(crate) ").trim_start_matches("pub ");
        line.strip_prefix("fn ").or_else(|| line.strip_prefix("def "))
    });
    names.filter_map(|rest| rest.split(['(', '<']).next())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_rows_are_tests_and_commands_are_not() {
        let page = "`not_in_a_row`\n| `qjam clean` removes | `cleaning_leaves_nothing`, `auto` |\n";
        assert_eq!(named(page).collect::<Vec<_>>(), ["cleaning_leaves_nothing"]);
    }

    #[test]
    fn functions_of_both_languages_are_found() {
        let source =
            "    pub(crate) fn a_promise(e: &Engine) {\nfn with_type<T>() {\n  def test_it(x):\n// fn no\n";
        assert_eq!(defined(source).collect::<Vec<_>>(), ["a_promise", "with_type", "test_it"]);
    }
}
