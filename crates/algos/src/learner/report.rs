//! What a fit tells of itself: while it runs, and when it is done.

use super::model::{Answer, Model};
use crate::options::Value;
use std::fmt;

/// One step of a fit, as an observer sees it.
pub struct Progress<'a> {
    /// Steps so far: iterations, rounds or evaluations.
    pub step: u64,
    /// Steps that it takes at most, where that is known; it may end before.
    pub steps_max: Option<u64>,
    /// A line for people, such as `iteration 3: centres moved 1.2e-3`.
    pub text: &'a dyn fmt::Display,
    /// The phase that ended with this step, if one did.
    pub phase_done: Option<&'static str>,
}

/// A model, and how it came about.
#[derive(Debug)]
pub struct Fitted {
    /// The model.
    pub model: Box<dyn Model>,
    /// How the fit went.
    pub report: Report,
    /// Its answers for the rows it was fitted to, if these were asked for.
    pub answer: Option<Answer>,
}

/// How a fit went. Everything in it is a fact; nothing changes what the model says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// How large the model is, in a few words: `8 clusters`.
    pub size: String,
    /// Lines for people: a name and a text.
    pub lines: Vec<(&'static str, String)>,
    /// The same for programs; they are kept in the model's file.
    pub facts: Vec<(&'static str, Value)>,
    /// Lists of numbers for programs.
    pub lists: Vec<(&'static str, Vec<f64>)>,
    /// Decisions that were made while fitting, in order: a record each.
    pub choices: Vec<Vec<(&'static str, Value)>>,
    /// What was chosen and why, in sentences; empty where nothing is chosen.
    pub explanation: Vec<String>,
    /// What the user should know, whatever the interface.
    pub remarks: Vec<String>,
    /// What the user could do about the outcome, in the names of the options as the user spells them.
    pub advice: Option<String>,
    /// Why the model is of no use, though the fit came to an end.
    pub failure: Option<String>,
    /// The phase that ended with the fit.
    pub phase: &'static str,
    /// A name for a file of the model's answers.
    pub answers_file: &'static str,
}

impl Report {
    /// The fact of this name.
    pub fn fact(&self, name: &str) -> Option<&Value> {
        self.facts.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }
}

/// `1 round`, `2 rounds`.
pub fn count(n: u64, thing: &str) -> String {
    if n == 1 { format!("1 {thing}") } else { format!("{n} {thing}s") }
}
