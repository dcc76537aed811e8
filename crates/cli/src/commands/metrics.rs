//! Scores as people and programs read them.

use crate::output;
use qjam_algos::evaluate::cross::CrossValidation;
use qjam_algos::evaluate::{ClassScores, Detail, Evaluation};
use serde_json::{Map, Value, json};

/// So many classes or clusters are listed, and so many columns has a confusion matrix.
const SHOWN: usize = 20;

/// What people call a score.
fn title(name: &str) -> &str {
    match name {
        "accuracy" => "accuracy",
        "precision_macro" => "precision, mean of classes",
        "recall_macro" => "recall, mean of classes",
        "f1_macro" => "F1, mean of classes",
        "log_loss" => "log loss",
        "roc_auc" => "ROC AUC",
        "r2" => "R²",
        "mean_squared_error" => "mean squared error",
        "root_mean_squared_error" => "its root",
        "mean_absolute_error" => "mean absolute error",
        "explained_share" => "explained share",
        other => other,
    }
}

fn shown(score: Option<f64>) -> String {
    score.map_or_else(|| "none".into(), number)
}

/// Six digits.
fn number(value: f64) -> String {
    match value.abs() {
        0.0 => "0".into(),
        1e-4..1e6 => {
            let digits = (5 - value.abs().log10().floor() as i32).max(0) as usize;
            format!("{value:.digits$}")
        }
        _ => format!("{value:.5e}"),
    }
}

/// Prints the scores of a model.
pub(crate) fn print(found: &Evaluation) {
    let width = found.scores.iter().map(|(name, _)| title(name).chars().count()).max().unwrap_or(0);
    for (name, score) in &found.scores {
        output::line(format!("  {:<width$}  {}", title(name), shown(*score)));
    }
    match &found.detail {
        Detail::Classes { classes, confusion, .. } => {
            output::line("");
            let row = |scores: &ClassScores| {
                let ClassScores { class, precision, recall, f1, rows } = *scores;
                [class.to_string(), number(precision), number(recall), number(f1), rows.to_string()]
            };
            let heads = ["class", "precision", "recall", "F1", "rows"];
            output::table(heads, classes.iter().take(SHOWN).map(row));
            output::line("");
            match classes.len() <= SHOWN {
                true => print_confusion(classes, confusion),
                false => output::line(format!(
                    "  and {} more classes: --json has all, and their confusions",
                    classes.len() - SHOWN
                )),
            }
        }
        Detail::Clusters(sizes) => {
            output::line("");
            let row = |(cluster, rows): (usize, &u64)| [cluster.to_string(), rows.to_string()];
            output::table(["cluster", "rows"], sizes.iter().enumerate().take(SHOWN).map(row));
            if sizes.len() > SHOWN {
                output::line(format!("  and {} more clusters: --json has all", sizes.len() - SHOWN));
            }
        }
        Detail::Values(_) | Detail::Decomposition => {}
    }
}

/// A line for each class, a column for each prediction.
fn print_confusion(classes: &[ClassScores], confusion: &[u64]) {
    let names: Vec<String> = classes.iter().map(|scores| scores.class.to_string()).collect();
    let numbers = confusion.iter().map(u64::to_string);
    let width = names.iter().cloned().chain(numbers).map(|text| text.len()).max().unwrap_or(1);
    let first = width.max("is \\ predicted".len());
    let line = |head: &str, cells: &mut dyn Iterator<Item = String>| {
        let cells: Vec<String> = cells.map(|cell| format!("{cell:>width$}")).collect();
        output::line(format!("  {head:<first$}  {}", cells.join("  ")));
    };
    line("is \\ predicted", &mut names.iter().cloned());
    for (name, counts) in names.iter().zip(confusion.chunks_exact(classes.len())) {
        line(name, &mut counts.iter().map(u64::to_string));
    }
}

/// The same for programs.
pub(crate) fn json(found: &Evaluation) -> Value {
    let mut all = Map::new();
    all.insert("rows".into(), found.rows.into());
    for (name, score) in &found.scores {
        all.insert((*name).into(), json!(score));
    }
    match &found.detail {
        Detail::Classes { classes, confusion, curves } => {
            let of = |number: fn(&ClassScores) -> Value| -> Value { classes.iter().map(number).collect() };
            all.insert("classes".into(), of(|scores| json!(scores.class)));
            all.insert("precision".into(), of(|scores| json!(scores.precision)));
            all.insert("recall".into(), of(|scores| json!(scores.recall)));
            all.insert("f1".into(), of(|scores| json!(scores.f1)));
            all.insert("support".into(), of(|scores| json!(scores.rows)));
            all.insert(
                "confusion".into(),
                confusion.chunks_exact(classes.len()).map(|line| json!(line)).collect(),
            );
            if !curves.is_empty() {
                let area = |class: f64, area: f64| json!({"class": class, "area": area});
                all.insert(
                    "roc_auc_of".into(),
                    curves.iter().map(|curve| area(curve.class, curve.area)).collect(),
                );
            }
        }
        Detail::Clusters(sizes) => drop(all.insert("sizes".into(), json!(sizes))),
        Detail::Values(_) | Detail::Decomposition => {}
    }
    all.insert("remarks".into(), json!(found.remarks));
    Value::Object(all)
}

/// Prints mean and spread of the scores of folds.
pub(crate) fn print_folds(found: &CrossValidation) {
    let row = |(name, scores): &(&'static str, Vec<Option<f64>>)| {
        let both = CrossValidation::mean_and_spread(scores);
        let each: Vec<String> = scores.iter().take(SHOWN).map(|score| shown(*score)).collect();
        let cell = |value: Option<f64>| shown(value);
        [
            title(name).to_string(),
            cell(both.map(|(mean, _)| mean)),
            cell(both.map(|(_, spread)| spread)),
            each.join(" "),
        ]
    };
    output::table(["score", "mean", "spread", "folds"], found.scores.iter().map(row));
}

/// The same for programs.
pub(crate) fn json_of_folds(found: &CrossValidation) -> Value {
    let mut scores = Map::new();
    for (name, values) in &found.scores {
        let both = CrossValidation::mean_and_spread(values);
        let (mean, spread) = (both.map(|(mean, _)| mean), both.map(|(_, spread)| spread));
        scores.insert((*name).into(), json!({"mean": mean, "spread": spread, "folds": values}));
    }
    json!({"rows": found.rows, "scores": scores, "hash": found.hash})
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn numbers_are_shown_with_six_digits() {
        assert_eq!(
            [0.0, 0.5, 12.34567891, 1e-7, 123_456.7].map(number),
            ["0", "0.500000", "12.3457", "1.00000e-7", "123457"]
        );
    }
}
