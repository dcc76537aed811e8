//! Small deliberate mistakes in `core`, described as text.
//!
//! They test the simulator: each file in the folder `mutations` describes one mistake, by a text to replace, its replacement and
//! the reason why that is wrong. The command `mutants` makes each mistake in a copy of the state machines and requires that a sweep
//! finds it. Comes in: the text of a mutation and of a source file. Goes out: the mutated source. Reads and writes no files.
//!
//! ```text
//! why: Left and right neighbour are merged the wrong way round.
//! file: crates/core/src/reduce/tree.rs
//! ----- find
//! (value, other)
//! ----- replace
//! (other, value)
//! ----- end
//! ```

use thiserror::Error;

/// One mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mutation {
    /// Its name: that of its file.
    pub name: String,
    /// Why it is wrong.
    pub why: String,
    /// The file to change, relative to the root of the workspace.
    pub file: String,
    /// The text to replace; must occur once.
    pub find: String,
    /// The replacement.
    pub replace: String,
}

/// Why a mutation cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MutationError {
    /// Its file is malformed.
    #[error(
        "mutation {name} has no `{part}`; a mutation has why, file, find, replace and end, in this order"
    )]
    Part {
        /// Of which mutation.
        name: String,
        /// What is missing.
        part: &'static str,
    },
    /// The text to replace does not occur exactly once.
    #[error(
        "mutation {name}: its text occurs {times} times in {file}, not once; bring it up to date with the code"
    )]
    Text {
        /// Which mutation.
        name: String,
        /// The file.
        file: String,
        /// How often it occurs.
        times: usize,
    },
}

impl Mutation {
    /// Parses a mutation.
    pub fn parse(name: &str, text: &str) -> Result<Self, MutationError> {
        let mut rest = text;
        let mut upto = |mark: &str, part: &'static str| {
            let found = rest.split_once(mark).ok_or(MutationError::Part { name: name.into(), part });
            found.map(|(before, after)| {
                rest = after;
                before.to_string()
            })
        };
        upto("why: ", "why")?;
        let why = upto("\nfile: ", "file")?;
        let file = upto("\n----- find\n", "find")?;
        let find = upto("\n----- replace\n", "replace")?;
        let replace = upto("\n----- end\n", "end")?;
        Ok(Mutation { name: name.into(), why, file, find, replace })
    }

    /// Applies the mutation to the text of a source file.
    pub fn apply(&self, source: &str) -> Result<String, MutationError> {
        match source.matches(&self.find).count() {
            1 => Ok(source.replacen(&self.find, &self.replace, 1)),
            times => Err(MutationError::Text { name: self.name.clone(), file: self.file.clone(), times }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn a_mutation_is_read_and_applied_to_the_letter() {
        let text = "why: No.\nfile: a.rs\n----- find\n  x\n\n----- replace\n\n----- end\n";
        let mutation = Mutation::parse("m", text).unwrap();
        assert_eq!((mutation.find.as_str(), mutation.replace.as_str()), ("  x\n", ""));
        assert_eq!(mutation.apply("a\n  x\nb"), Ok("a\nb".into()));
        assert!(matches!(mutation.apply("a"), Err(MutationError::Text { times: 0, .. })));
        assert!(matches!(Mutation::parse("m", "why: "), Err(MutationError::Part { part: "file", .. })));
    }

    #[test]
    fn every_mutation_fits_the_code_as_it_is() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut names = 0;
        for entry in std::fs::read_dir(here.join("mutations")).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_stem().unwrap().to_str().unwrap();
            let mutation = Mutation::parse(name, &std::fs::read_to_string(&path).unwrap()).unwrap();
            let source = std::fs::read_to_string(here.join("../..").join(&mutation.file)).unwrap();
            assert_ne!(mutation.apply(&source).unwrap(), source, "{name} changes nothing");
            names += 1;
        }
        assert!(names >= 10, "{names} mutations");
    }
}
