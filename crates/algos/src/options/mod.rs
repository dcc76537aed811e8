//! What can be chosen of a learner: one constant table for each, from which everything else is made.
//!
//! A [`Table`] lists the [`Opt`]s: what Python and the command call them, what values they take, what they are when nobody
//! says, and what they do. From the table come the command's arguments and help, the signature and documentation of the
//! Python class, the page of the book ([`registry::page`](crate::registry::page)), and the checks: [`Settings`] has values that are known to be allowed, and
//! a learner's `Params::from_settings` takes them. So an option is added in one place, and what is written about it
//! cannot differ from what it does.
//!
//! ```
//! use qjam_algos::clustering::kmeans::Params;
//! use qjam_algos::registry;
//! use qjam_algos::options::{Settings, Spelling};
//!
//! let learner = registry::find("kmeans").expect("there is one of this name");
//! let mut settings = Settings::new(learner.table(), Spelling::Command);
//! settings.set_text("k", "20")?;
//! assert_eq!(Params::from_settings(&settings)?.k(), 20);
//!
//! let error = settings.set_text("k", "none").unwrap_err();
//! assert_eq!(error.to_string(), "--k is \"none\"; give a whole number from 1 to 16777216");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod settings;
mod value;

pub use settings::{OptionError, Settings, Spelling};
pub use value::Value;

use qjam::Dtype;

/// A learner and what can be chosen of it.
#[derive(Debug)]
pub struct Table {
    /// What the command calls it: `qjam fit NAME`.
    pub name: &'static str,
    /// What Python calls it: a class in `qjam.learn`.
    pub class: &'static str,
    /// What it does, in a line without a full stop.
    pub about: &'static str,
    /// More of that: a paragraph or two, in Markdown.
    pub detail: &'static str,
    /// What it must be told about each row.
    pub target: Target,
    /// Whether rows may have weights.
    pub weighted: bool,
    /// Whether it takes sparse rows.
    pub sparse: bool,
    /// The type of the numbers that rows are read as by default.
    pub dtype: Option<Dtype>,
    /// Its options, the most important first.
    pub options: &'static [Opt],
    /// What people type, without the program's name.
    pub examples: &'static [&'static str],
}

impl Table {
    /// The option that Python calls this.
    pub fn option(&self, name: &str) -> Option<&'static Opt> {
        self.options.iter().find(|option| option.name == name)
    }
}

/// What a learner must be told about each row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Nothing.
    None,
    /// A number.
    Values,
    /// A whole number that stands for its class.
    Classes,
}

/// One thing that can be chosen.
#[derive(Debug)]
pub struct Opt {
    /// What Python calls it: `n_clusters`.
    pub name: &'static str,
    /// What the command calls it, without the dashes: `k`.
    pub flag: &'static str,
    /// What its values are.
    pub kind: Kind,
    /// Words it takes as well, or if it is of [`Kind::Word`] only, and what each means.
    pub words: &'static [(&'static str, &'static str)],
    /// Its default.
    pub default: Preset,
    /// Whether the command wants it typed, though there is a default for Python's sake.
    pub typed: bool,
    /// What it is, in a line without a full stop.
    pub help: &'static str,
    /// What else there is to know; perhaps nothing. Markdown.
    pub detail: &'static str,
}

/// What values an option takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// A whole number within bounds.
    Integer {
        /// The smallest allowed.
        min: u64,
        /// The largest allowed.
        max: u64,
    },
    /// Whole numbers within bounds, with commas between them; in Python a sequence.
    Integers {
        /// The smallest allowed.
        min: u64,
        /// The largest allowed.
        max: u64,
    },
    /// A number within bounds.
    Real {
        /// The smallest allowed.
        min: f64,
        /// The largest allowed; infinity if every finite one is.
        max: f64,
        /// Whether the bounds themselves are not allowed.
        open: bool,
    },
    /// Yes or no.
    Flag,
    /// One of its words.
    Word,
    /// A file; in Python an array.
    File,
    /// A seed of random choices. Python has `None` for one that nobody knows.
    Seed,
}

/// A default.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Preset {
    /// There is none: it must be given.
    Needed,
    /// A whole number, or a seed.
    Integer(u64),
    /// A number.
    Real(f64),
    /// Yes or no.
    Flag(bool),
    /// A word.
    Word(&'static str),
}

impl Opt {
    /// What is allowed, to be read behind "give".
    pub fn allowed(&self) -> String {
        let mut allowed: Vec<String> = self.words.iter().map(|(word, _)| (*word).to_string()).collect();
        match self.kind {
            Kind::Integer { min, max: u64::MAX } => allowed.push(format!("a whole number from {min}")),
            Kind::Integer { min, max } => allowed.push(format!("a whole number from {min} to {max}")),
            Kind::Integers { min, max } => {
                allowed.push(format!("whole numbers from {min} to {max} with commas between them"));
            }
            Kind::Real { min, max, open } => allowed.push(reals(min, max, open)),
            Kind::Flag => allowed.push("true or false".into()),
            Kind::Word => {}
            Kind::File => allowed.push("a file".into()),
            Kind::Seed => allowed.push(format!("a whole number from 0 to {}", u64::MAX)),
        }
        match allowed.split_last() {
            Some((last, [])) => last.clone(),
            Some((last, others)) => format!("{} or {last}", others.join(", ")),
            None => String::new(),
        }
    }

    /// What is typed for it, without the dashes: for a flag that is on by default, what turns it off.
    pub fn switch(&self) -> String {
        match (self.kind, self.default) {
            (Kind::Flag, Preset::Flag(true)) => format!("no-{}", self.flag),
            _ => self.flag.to_string(),
        }
    }

    /// What stands for its value in help: `N`, `FILE`.
    pub fn value_name(&self) -> &'static str {
        match self.kind {
            Kind::Integer { .. } | Kind::Seed => "N",
            Kind::Integers { .. } => "N,N",
            Kind::Real { .. } => "X",
            Kind::Flag => "BOOL",
            Kind::Word => "WORD",
            Kind::File => "FILE",
        }
    }

    /// The default as it is written.
    pub fn default_text(&self) -> Option<String> {
        Some(match self.default {
            Preset::Needed => return None,
            Preset::Integer(n) => n.to_string(),
            Preset::Real(x) => value::shown(x),
            Preset::Flag(yes) => yes.to_string(),
            Preset::Word(word) => word.into(),
        })
    }
}

fn reals(min: f64, max: f64, open: bool) -> String {
    let shown = value::shown;
    match (open, max.is_finite()) {
        (false, true) => format!("a number from {} to {}", shown(min), shown(max)),
        (false, false) if min == f64::NEG_INFINITY => "a finite number".into(),
        (false, false) if min == 0.0 => "a finite number that is not negative".into(),
        (false, false) => format!("a finite number from {}", shown(min)),
        (true, true) => format!("a number between {} and {}, without these", shown(min), shown(max)),
        (true, false) => format!("a finite number over {}", shown(min)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::LEARNERS;
    use std::collections::BTreeSet;

    #[test]
    fn every_default_is_allowed_and_every_name_is_there_once() {
        for learner in LEARNERS.iter().map(|learner| learner.table()) {
            let settings = Settings::new(learner, Spelling::Python);
            let mut names = BTreeSet::new();
            for option in learner.options {
                if let Some(default) = option.default_text() {
                    option.parse(&default).unwrap_or_else(|e| panic!("{}: {e}", option.name));
                    assert!(settings.get(option.name).is_some(), "{}", option.name);
                }
                assert!(names.insert(option.name), "{} of {} twice", option.name, learner.name);
                assert!(option.name == option.flag || names.insert(option.flag), "{} twice", option.flag);
                assert!(!option.help.ends_with('.') && !option.help.is_empty(), "{}", option.name);
            }
        }
    }

    #[test]
    fn what_is_allowed_is_said_in_words() {
        let said = |kind, words| {
            let default = Preset::Needed;
            Opt { name: "o", flag: "o", kind, words, default, typed: false, help: "h", detail: "" }.allowed()
        };
        assert_eq!(said(Kind::Word, &[("a", ""), ("b", ""), ("c", "")]), "a, b or c");
        assert_eq!(
            said(Kind::Integer { min: 1, max: 9 }, &[("auto", "")]),
            "auto or a whole number from 1 to 9"
        );
        let real = |min, max, open| said(Kind::Real { min, max, open }, &[]);
        assert_eq!(real(0.0, f64::INFINITY, false), "a finite number that is not negative");
        assert_eq!(real(0.0, 1.0, true), "a number between 0 and 1, without these");
        assert_eq!(real(1e-9, 1.0, false), "a number from 1e-9 to 1");
    }
}
