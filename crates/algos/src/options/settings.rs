//! The options of a learner with their values, every one of which is allowed.

use super::{Opt, Table, Value};
use std::collections::BTreeMap;
use thiserror::Error;

/// Whose names an error speaks in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spelling {
    /// `n_clusters`
    Python,
    /// `--k`
    Command,
}

/// What is wrong with a setting.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum OptionError {
    /// A value that is not allowed.
    #[error("{option} is {value}; give {allowed}")]
    Value {
        /// What the user calls the option.
        option: String,
        /// What was given.
        value: String,
        /// What may be given.
        allowed: String,
    },
    /// There is no such option.
    #[error("{learner} has no option {option}; it has {present}")]
    Unknown {
        /// The learner.
        learner: &'static str,
        /// What was named.
        option: String,
        /// What could have been.
        present: String,
    },
    /// A value that must be given and was not.
    #[error("{learner} needs {option}; give {allowed}")]
    Needed {
        /// The learner.
        learner: &'static str,
        /// What the user calls the option.
        option: String,
        /// What may be given.
        allowed: String,
    },
}

/// Values for the options of a learner.
#[derive(Clone, Debug)]
pub struct Settings {
    table: &'static Table,
    spelling: Spelling,
    /// By Python's name; those without a value are not there.
    values: BTreeMap<&'static str, Value>,
}

impl Settings {
    /// All defaults.
    pub fn new(table: &'static Table, spelling: Spelling) -> Settings {
        let default = |option: &'static Opt| Some((option.name, Option::<Value>::from(option.default)?));
        Settings { table, spelling, values: table.options.iter().filter_map(default).collect() }
    }

    /// The table that these are values for.
    pub fn table(&self) -> &'static Table {
        self.table
    }

    /// Sets an option, by either of its names, to a value that is checked.
    pub fn set(&mut self, name: &str, value: Value) -> Result<(), OptionError> {
        let option = self.find(name)?;
        let told = match &value {
            Value::Text(text) => format!("{text:?}"),
            other => other.to_string(),
        };
        let value = option.check(value).map_err(|allowed| self.refuse(option, told, allowed))?;
        self.values.insert(option.name, value);
        Ok(())
    }

    /// Sets an option, by either of its names, to what a text says.
    pub fn set_text(&mut self, name: &str, text: &str) -> Result<(), OptionError> {
        let option = self.find(name)?;
        let value =
            option.parse(text).map_err(|allowed| self.refuse(option, format!("{text:?}"), allowed))?;
        self.values.insert(option.name, value);
        Ok(())
    }

    /// The value of an option, by Python's name; `None` if it has none.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.values.get(name)
    }

    /// A whole number.
    ///
    /// This and the others panic when the learner's table has no such option of that kind: then the table and the code
    /// that reads it do not belong together.
    pub fn integer(&self, name: &str) -> Result<u64, OptionError> {
        match self.need(name)? {
            Value::Integer(n) => Ok(*n),
            other => panic!("option {name} of {} is {other}, and no whole number", self.table.name),
        }
    }

    /// A whole number that counts something in memory.
    pub fn count(&self, name: &str) -> Result<usize, OptionError> {
        let n = self.integer(name)?;
        let option = self.option(name);
        usize::try_from(n)
            .map_err(|_| self.refuse(option, n.to_string(), "a number that fits in memory".into()))
    }

    /// Whole numbers that count things in memory.
    pub fn counts(&self, name: &str) -> Result<Vec<usize>, OptionError> {
        let numbers = match self.need(name)? {
            Value::Text(text) => super::value::integers(text),
            _ => None,
        };
        let option = self.option(name);
        let Some(numbers) = numbers else {
            panic!("option {name} of {} is no list of whole numbers", self.table.name)
        };
        let count =
            |n: u64| usize::try_from(n).map_err(|_| self.refuse(option, n.to_string(), option.allowed()));
        numbers.into_iter().map(count).collect()
    }

    /// A number.
    pub fn real(&self, name: &str) -> Result<f64, OptionError> {
        match self.need(name)? {
            Value::Real(x) => Ok(*x),
            other => panic!("option {name} of {} is {other}, and no number", self.table.name),
        }
    }

    /// Yes or no.
    pub fn flag(&self, name: &str) -> Result<bool, OptionError> {
        match self.need(name)? {
            Value::Flag(yes) => Ok(*yes),
            other => panic!("option {name} of {} is {other}, not yes or no", self.table.name),
        }
    }

    /// One of the option's words; `None` if it has another value.
    pub fn word(&self, name: &str) -> Result<Option<&'static str>, OptionError> {
        let value = self.need(name)?;
        let words = self.option(name).words.iter().map(|(word, _)| *word);
        Ok(words.into_iter().find(|word| matches!(value, Value::Text(text) if text == word)))
    }

    /// A file; `None` if the value is one of the option's words.
    pub fn file(&self, name: &str) -> Result<Option<&str>, OptionError> {
        match (self.word(name)?, self.need(name)?) {
            (None, Value::Text(path)) => Ok(Some(path)),
            _ => Ok(None),
        }
    }

    /// Every option that has a value, in the order of the table.
    pub fn iter(&self) -> impl Iterator<Item = (&'static Opt, &Value)> {
        self.table.options.iter().filter_map(|option| Some((option, self.values.get(option.name)?)))
    }

    /// What the user calls an option.
    pub fn called(&self, option: &Opt) -> String {
        match self.spelling {
            Spelling::Python => option.name.into(),
            Spelling::Command => format!("--{}", option.flag),
        }
    }

    /// What the user calls the option of this name in the table, to be used in advice: `--max-rounds`.
    pub fn spelled(&self, name: &str) -> String {
        self.called(self.option(name))
    }

    fn find(&self, name: &str) -> Result<&'static Opt, OptionError> {
        let options = self.table.options;
        options.iter().find(|option| option.name == name || option.flag == name).ok_or_else(|| {
            let present: Vec<String> = options.iter().map(|option| self.called(option)).collect();
            OptionError::Unknown {
                learner: self.table.name,
                option: name.into(),
                present: present.join(", "),
            }
        })
    }

    fn option(&self, name: &str) -> &'static Opt {
        let found = self.table.option(name);
        found.unwrap_or_else(|| panic!("the table of {} has no option {name}", self.table.name))
    }

    fn need(&self, name: &str) -> Result<&Value, OptionError> {
        let option = self.option(name);
        self.values.get(name).ok_or_else(|| OptionError::Needed {
            learner: self.table.name,
            option: self.called(option),
            allowed: option.allowed(),
        })
    }

    fn refuse(&self, option: &Opt, value: String, allowed: String) -> OptionError {
        OptionError::Value { option: self.called(option), value, allowed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::find;

    fn learner(name: &str) -> Option<&'static Table> {
        find(name).map(|learner| learner.table())
    }

    #[test]
    fn errors_speak_in_the_names_that_the_user_has() {
        let mut python = Settings::new(learner("kmeans").unwrap(), Spelling::Python);
        let error = python.set("n_clusters", Value::Integer(0)).unwrap_err();
        assert_eq!(error.to_string(), "n_clusters is 0; give a whole number from 1 to 16777216");
        let error = python.set("n_cluster", Value::Integer(3)).unwrap_err();
        assert!(
            error.to_string().starts_with("kmeans has no option n_cluster; it has n_clusters, init,"),
            "{error}"
        );
        let mut command = Settings::new(learner("kmeans").unwrap(), Spelling::Command);
        let error = command.set_text("tolerance", "-1").unwrap_err();
        assert_eq!(error.to_string(), "--tolerance is \"-1\"; give a finite number that is not negative");
    }

    #[test]
    fn words_and_files_are_told_apart() {
        let mut settings = Settings::new(learner("kmeans").unwrap(), Spelling::Command);
        assert_eq!(
            (settings.word("init").unwrap(), settings.file("init").unwrap()),
            (Some("k-means++"), None)
        );
        settings.set_text("init", "centres.npy").unwrap();
        assert_eq!(
            (settings.word("init").unwrap(), settings.file("init").unwrap()),
            (None, Some("centres.npy"))
        );
    }
}
