//! Learners that apply Bayes' rule to a simple model of each class.

pub mod counts;
pub mod gaussian;

use crate::learner::{Report, count};
use crate::options::Value;

/// What a classifier reports of its classes, each with how much it weighs; the learner adds its own lines.
pub(crate) fn class_report(classes: &[f64], weights: &[f64], columns: usize, rows: u64) -> Report {
    const SHOWN: usize = 8;
    let described = |class: usize| format!("{} ({})", classes[class], weights[class]);
    let mut found: Vec<String> = (0..classes.len().min(SHOWN)).map(described).collect();
    if classes.len() > SHOWN {
        found.push(format!("and {} more", classes.len() - SHOWN));
    }
    let plural = if classes.len() == 1 { "1 class".into() } else { format!("{} classes", classes.len()) };
    Report {
        size: format!("{plural}, {}", count(columns as u64, "column")),
        lines: vec![("result", "found in one round".into()), ("classes", found.join(", "))],
        facts: vec![
            ("classes", Value::Integer(classes.len() as u64)),
            ("columns", Value::Integer(columns as u64)),
            ("rows", Value::Integer(rows)),
        ],
        phase: "fitting",
        answers_file: "classes.npy",
        ..Report::default()
    }
}
