//! The book's page of all learners and their options, made from the tables.
//!
//! `docs/book/learners.md` is what [`all`] gives, and a test compares them. After a change to a table:
//!
//! ```text
//! cargo run -p qjam-algos --example learners_page > docs/book/learners.md
//! ```

use super::LEARNERS;
use crate::options::{Kind, Opt, Table};
use std::fmt::Write;

/// The page.
pub fn all() -> String {
    let mut page = String::from(HEAD);
    for learner in LEARNERS {
        page.push_str(&of(learner.table()));
    }
    page
}

const HEAD: &str = "\
# Learners and their options

This page is made from the tables in the code that the command and the Python package are made from, too
(`crates/algos/src/options`). Models that one of them saves can be loaded by the others: see
[Model files](model-files.md).
";

/// The part about one learner.
fn of(table: &Table) -> String {
    let mut page = String::new();
    let mut say = |line: &str| page.extend([line, "\n"]);
    say(&format!("\n## {}\n", table.class));
    say(&format!("{}.", table.about));
    say(&format!("`qjam fit {}` and `qjam.learn.{}`.\n", table.name, table.class));
    say(table.detail);
    say("");
    say("| command | Python | value | default | |");
    say("|---|---|---|---|---|");
    table.options.iter().for_each(|option| say(&row(option)));
    say("\n```sh");
    table.examples.iter().for_each(|example| say(&format!("qjam {example}")));
    say("```");
    for option in table.options.iter().filter(|o| !o.words.is_empty() || !o.detail.is_empty()) {
        say(&format!("\n**`--{}`**, `{}`: {}.", option.switch(), option.name, option.help));
        if !option.detail.is_empty() {
            say(option.detail);
        }
        if !option.words.is_empty() {
            say("");
            option.words.iter().for_each(|(word, meaning)| say(&format!("- `{word}`: {meaning}")));
        }
    }
    page
}

fn row(option: &Opt) -> String {
    let default = match (option.default_text(), option.typed) {
        (Some(default), false) => format!("`{default}`"),
        (Some(default), true) => format!("must be given; Python `{default}`"),
        (None, _) => "must be given".into(),
    };
    let mut row = format!("| `--{}` | `{}` | ", option.switch(), option.name);
    let value = match option.kind {
        Kind::Seed => "a whole number; Python also `None`".into(),
        _ => option.allowed(),
    };
    // A bar would end the cell.
    let _ = write!(row, "{} | {default} | {} |", value.replace('|', "\\|"), option.help);
    row
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_book_has_the_page_that_the_tables_make() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/book/learners.md");
        let written = std::fs::read_to_string(path).unwrap();
        let again = "cargo run -p qjam-algos --example learners_page > docs/book/learners.md";
        assert!(written == super::all(), "docs/book/learners.md is not up to date; run {again}");
    }
}
