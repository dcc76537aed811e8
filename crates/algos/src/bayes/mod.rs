//! Learners that apply Bayes' rule to a simple model of each class.

pub mod counts;
pub mod gaussian;

use crate::learner::count;

/// How large a model of these classes is, and how much each weighs, in words.
pub(crate) fn class_lines(classes: &[f64], weights: &[f64], columns: usize) -> (String, String) {
    const SHOWN: usize = 8;
    let described = |class: usize| format!("{} ({})", classes[class], weights[class]);
    let mut found: Vec<String> = (0..classes.len().min(SHOWN)).map(described).collect();
    if classes.len() > SHOWN {
        found.push(format!("and {} more", classes.len() - SHOWN));
    }
    let plural = if classes.len() == 1 { "1 class".into() } else { format!("{} classes", classes.len()) };
    (format!("{plural}, {}", count(columns as u64, "column")), found.join(", "))
}
