//! What fitting leaves: coefficients, which say something about new rows and can be kept in a file.

use super::params::Kind;
use super::rows::RowChunk;
use crate::kernels::{Level, elementwise};
use crate::models::{self, FileError, Format, Notes, Parts, PartsError, Tensor};
use crate::options::Value;
use qjam::{Csr, Ctx, Dense, Master, Reduce, Rows, with_rows};
use std::path::Path;
use thiserror::Error;

/// How files have these models.
pub const FORMAT: Format = Format { kind: "linear", version: 2, attributes: &[LEARNER, MULTI_CLASS] };
/// What is written where nothing of a later one is needed, so that earlier programs can read it.
const VERSION_FIRST: u32 = 1;
/// What files call the learner that a model comes from.
const LEARNER: &str = "learner";
/// What files call how classes are told apart.
const MULTI_CLASS: &str = "multi_class";

/// Coefficients and intercepts: one row of them for a regression or two classes, otherwise one for each class.
#[derive(Clone, Debug, PartialEq)]
pub struct LinearModel {
    kind: Kind,
    features: usize,
    coefficients: Vec<f64>,
    intercepts: Vec<f64>,
    classes: Vec<f64>,
    softmax: bool,
}

/// What is wrong with something handed to a model.
#[derive(Debug, Error)]
pub enum ModelError {
    /// Rows of another width.
    #[error(
        "linear: the data has {found} columns and the model {expected}; predict on rows like those it was fitted to"
    )]
    Columns {
        /// Columns of the data.
        found: usize,
        /// Columns of the model.
        expected: usize,
    },
    /// A number that is not finite.
    #[error(
        "linear: row {row}, column {column} (counted from 0) is {value}; nothing can be said of such a row"
    )]
    NotFinite {
        /// Row.
        row: u64,
        /// Column.
        column: u64,
        /// NaN or an infinity.
        value: f64,
    },
    /// Not a model that has them.
    #[error("linear: {learner} knows no probabilities; logistic does")]
    NoProbabilities {
        /// What it is.
        learner: &'static str,
    },
    /// Not a classifier.
    #[error("linear: {learner} decides nothing; decisions are for classifiers")]
    NoDecisions {
        /// What it is.
        learner: &'static str,
    },
    /// Numbers that make no model.
    #[error(
        "linear: {coefficients} coefficients, {intercepts} intercepts and {classes} classes make no model of {learner}"
    )]
    Parts {
        /// The learner.
        learner: &'static str,
        /// How many.
        coefficients: usize,
        /// How many.
        intercepts: usize,
        /// How many.
        classes: usize,
    },
    /// The data could not be read, or a round failed.
    #[error(transparent)]
    Run(#[from] qjam::Error),
    /// The file could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
}

impl LinearModel {
    /// A model of these parts. A regression has no classes; two classes have one row of coefficients, more have one each.
    pub fn new(
        kind: Kind,
        coefficients: Vec<f64>,
        intercepts: Vec<f64>,
        classes: Vec<f64>,
    ) -> Result<LinearModel, ModelError> {
        let outputs = match (kind.classifies(), classes.len()) {
            (false, 0) | (true, 2) => 1,
            (true, n) if n > 2 => n,
            _ => 0,
        };
        if outputs == 0 || intercepts.len() != outputs || !coefficients.len().is_multiple_of(outputs) {
            return Err(ModelError::Parts {
                learner: kind.name(),
                coefficients: coefficients.len(),
                intercepts: intercepts.len(),
                classes: classes.len(),
            });
        }
        let features = coefficients.len() / outputs;
        Ok(LinearModel { kind, features, coefficients, intercepts, classes, softmax: false })
    }

    /// The same, of classes that were learnt together: probabilities follow from all decisions of a row. Where there are not more
    /// than two classes, or none that have probabilities, it makes no difference.
    pub fn with_softmax(self) -> LinearModel {
        let softmax = self.kind == Kind::Logistic && self.classes.len() > 2;
        LinearModel { softmax, ..self }
    }

    /// Whether more than two classes were learnt together.
    pub fn is_softmax(&self) -> bool {
        self.softmax
    }

    /// Which learner it comes from.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Columns of the data.
    pub fn features(&self) -> usize {
        self.features
    }

    /// Rows of coefficients: 1, or the number of classes if there are more than two.
    pub fn outputs(&self) -> usize {
        self.intercepts.len()
    }

    /// All coefficients, one row after the other.
    pub fn coefficients(&self) -> &[f64] {
        &self.coefficients
    }

    /// What is added to each row's product.
    pub fn intercepts(&self) -> &[f64] {
        &self.intercepts
    }

    /// What the targets called the classes, in order; none for a regression.
    pub fn classes(&self) -> &[f64] {
        &self.classes
    }

    /// The product of every row with the coefficients, and the intercept: one number a row, or one for each class if there are
    /// more than two.
    pub fn decision(&self, master: &Master, examples: &Rows) -> Result<Vec<f64>, ModelError> {
        with_rows!(examples, data => {
            self.must_fit(data.chunk(0).map_err(qjam::Error::from)?.width())?;
            let with = Weights { coefficients: self.coefficients.clone(), intercepts: self.intercepts.clone() };
            self.sound(master.run(decide::<_>, &with, data)?)
        })
    }

    /// The same for one chunk, here and now.
    pub fn decision_of<C: RowChunk>(&self, chunk: &C) -> Result<Vec<f64>, ModelError> {
        self.must_fit(chunk.width())?;
        self.sound(decisions(&self.coefficients, &self.intercepts, chunk))
    }

    /// What a regression expects, or the class of every row, as the targets called it.
    pub fn predict(&self, master: &Master, examples: &Rows) -> Result<Vec<f64>, ModelError> {
        Ok(self.answers(self.decision(master, examples)?))
    }

    /// The same for one chunk, here and now.
    ///
    /// ```
    /// use qjam::Dense;
    /// use qjam_algos::linear::{Kind, LinearModel};
    /// let model = LinearModel::new(Kind::Ridge, vec![2.0, -1.0], vec![0.5], vec![])?;
    /// assert_eq!(model.predict_of(&Dense::from_vec(vec![1.0, 1.0, 0.0, 2.0], 2)?)?, [1.5, -1.5]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn predict_of<C: RowChunk>(&self, chunk: &C) -> Result<Vec<f64>, ModelError> {
        Ok(self.answers(self.decision_of(chunk)?))
    }

    /// For every row the probability of each class, in their order: those of a logistic regression. Where there are more than
    /// two and each was told from the rest, the models do not agree by themselves, and are scaled to add up to 1.
    pub fn probabilities(&self, master: &Master, examples: &Rows) -> Result<Vec<f64>, ModelError> {
        self.must_be_logistic()?;
        Ok(self.chances(self.decision(master, examples)?))
    }

    /// The same for one chunk, here and now.
    pub fn probabilities_of<C: RowChunk>(&self, chunk: &C) -> Result<Vec<f64>, ModelError> {
        self.must_be_logistic()?;
        Ok(self.chances(self.decision_of(chunk)?))
    }

    /// Answers made of decisions.
    fn answers(&self, decisions: Vec<f64>) -> Vec<f64> {
        match self.classes[..] {
            [] => decisions,
            [no, yes] => decisions.iter().map(|d| if *d > 0.0 { yes } else { no }).collect(),
            _ => decisions.chunks(self.outputs()).map(|row| self.classes[surest(row)]).collect(),
        }
    }

    fn chances(&self, mut decisions: Vec<f64>) -> Vec<f64> {
        if self.softmax {
            for row in decisions.chunks_mut(self.outputs()) {
                let most = row.iter().fold(f64::NEG_INFINITY, |most, d| most.max(*d));
                row.iter_mut().for_each(|d| *d -= most);
            }
            elementwise::exp(Level::best(), &mut decisions);
            for row in decisions.chunks_mut(self.outputs()) {
                let all: f64 = row.iter().sum();
                row.iter_mut().for_each(|p| *p /= all);
            }
            return decisions;
        }
        elementwise::sigmoid(Level::best(), &mut decisions);
        if self.classes.len() == 2 {
            return decisions.iter().flat_map(|p| [1.0 - p, *p]).collect();
        }
        for row in decisions.chunks_mut(self.outputs()) {
            let all: f64 = row.iter().sum();
            let share = if all > 0.0 { 1.0 / all } else { 0.0 };
            row.iter_mut()
                .for_each(|p| *p = if share > 0.0 { *p * share } else { 1.0 / self.classes.len() as f64 });
        }
        decisions
    }

    fn must_be_logistic(&self) -> Result<(), ModelError> {
        match self.kind {
            Kind::Logistic => Ok(()),
            other => Err(ModelError::NoProbabilities { learner: other.name() }),
        }
    }

    fn must_fit(&self, found: usize) -> Result<(), ModelError> {
        match found == self.features {
            true => Ok(()),
            false => Err(ModelError::Columns { found, expected: self.features }),
        }
    }

    fn sound(&self, found: Decisions) -> Result<Vec<f64>, ModelError> {
        match found.bad {
            Some((row, column, value)) => Err(ModelError::NotFinite { row, column, value }),
            None => Ok(found.values),
        }
    }

    /// Writes the model to a file, whole or not at all.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), ModelError> {
        self.save_with(path, &Notes::default())
    }

    /// Writes the model to a file with notes on how it came about, to which the learner's name is added.
    pub fn save_with(&self, path: impl AsRef<Path>, notes: &Notes) -> Result<(), ModelError> {
        Ok(models::save(path.as_ref(), &self.parts(), notes)?)
    }

    /// What it consists of.
    pub fn parts(&self) -> Parts {
        let shape = [self.outputs(), self.features];
        let mut attributes = vec![(LEARNER.into(), Value::Text(self.kind.name().into()))];
        if self.softmax {
            attributes.push((MULTI_CLASS.into(), Value::Text("softmax".into())));
        }
        Parts {
            kind: FORMAT.kind,
            version: if self.softmax { FORMAT.version } else { VERSION_FIRST },
            tensors: vec![
                Tensor::new("classes", &[self.classes.len()], &self.classes),
                Tensor::new("coefficients", &shape, &self.coefficients),
                Tensor::new("intercepts", &[self.outputs()], &self.intercepts),
            ],
            attributes,
        }
    }

    /// A model of these parts.
    pub fn of_parts(parts: &Parts) -> Result<LinearModel, PartsError> {
        let kind = parts.word(LEARNER).and_then(Kind::named);
        let kind =
            kind.ok_or_else(|| PartsError::inconsistent("it does not say which learner it comes from"))?;
        let ([rows, features], coefficients) = parts.tensor("coefficients")?;
        let ([outputs], intercepts) = parts.tensor("intercepts")?;
        let ([_], classes) = parts.tensor("classes")?;
        let softmax = parts.word(MULTI_CLASS) == Some("softmax");
        let model = LinearModel::new(kind, coefficients, intercepts, classes)
            .map(|model| if softmax { model.with_softmax() } else { model });
        match model {
            Ok(model) if rows == outputs && features == model.features => Ok(model),
            _ => Err(PartsError::inconsistent("its parts do not fit together")),
        }
    }

    /// Reads a model that [`LinearModel::save`] wrote.
    pub fn load(path: impl AsRef<Path>) -> Result<LinearModel, ModelError> {
        let (parts, _) = models::load(path.as_ref(), FORMAT)?;
        let damaged = |e: PartsError| FileError::Damaged { path: path.as_ref().into(), what: e.to_string() };
        Ok(LinearModel::of_parts(&parts).map_err(damaged)?)
    }
}

/// The first of the largest.
fn surest(row: &[f64]) -> usize {
    let better = |best: usize, at: usize| if row[at] > row[best] { at } else { best };
    (1..row.len()).fold(0, better)
}

/// Coefficients as chunks get them.
#[derive(Clone, Debug, qjam::Wire)]
pub struct Weights {
    coefficients: Vec<f64>,
    intercepts: Vec<f64>,
}

/// Decisions of rows, one after the other.
#[derive(Clone, Debug, PartialEq, qjam::Wire)]
pub struct Decisions {
    values: Vec<f64>,
    rows: u64,
    bad: Option<(u64, u64, f64)>,
}

impl Reduce for Decisions {
    fn merge(&mut self, right: Self) {
        let before = self.rows;
        self.bad = self.bad.or(right.bad.map(|(row, column, value)| (before + row, column, value)));
        self.values.extend(right.values);
        self.rows += right.rows;
    }
}

fn decisions<C: RowChunk>(coefficients: &[f64], intercepts: &[f64], x: &C) -> Decisions {
    let width = x.width();
    let (mut values, mut bad) = (Vec::with_capacity(x.count() * intercepts.len()), None);
    for row in 0..x.count() {
        for (output, intercept) in intercepts.iter().enumerate() {
            values.push(x.times(row, &coefficients[output * width..][..width]) + intercept);
        }
        bad = bad.or_else(|| x.bad(row).map(|(column, value)| (row as u64, column, value)));
    }
    Decisions { values, rows: x.count() as u64, bad }
}

/// The decisions of the rows of a chunk.
#[qjam::map]
pub fn decide<C: RowChunk>(with: &Weights, x: &C, _: &Ctx) -> Decisions {
    decisions(&with.coefficients, &with.intercepts, x)
}
qjam::register!(decide::<Dense<f32>>, decide::<Dense<f64>>, decide::<Csr<f32>>, decide::<Csr<f64>>);

#[cfg(test)]
mod tests {
    use super::*;
    use qjam::DataSet;

    fn model(kind: Kind, classes: &[f64]) -> LinearModel {
        let outputs = if classes.len() > 2 { classes.len() } else { 1 };
        let coefficients = (0..outputs * 2).map(|i| i as f64 - 1.0).collect();
        LinearModel::new(kind, coefficients, vec![0.25; outputs], classes.to_vec()).unwrap()
    }

    #[test]
    fn dense_and_sparse_rows_are_told_the_same_on_any_workers() {
        let rows = vec![1.0, 0.0, 0.0, -2.0, 3.0, 0.5];
        let dense = DataSet::dense(rows.clone(), 2).unwrap().chunk_records(1).unwrap();
        let x =
            Csr::from_vecs(vec![0, 1, 2, 4], vec![0, 1, 0, 1], vec![1.0, -2.0, 3.0, 0.5], 2, None).unwrap();
        let sparse = DataSet::csr(&x).unwrap();
        let m = Master::builder().no_run_file().connect("local:2").unwrap();
        for (kind, classes) in
            [(Kind::Lasso, vec![]), (Kind::Logistic, vec![4.0, 7.0]), (Kind::Svm, vec![1.0, 2.0, 5.0])]
        {
            let model = model(kind, &classes);
            let expected = model.predict_of(&x).unwrap();
            assert_eq!(model.predict(&m, &(&dense).into()).unwrap(), expected);
            assert_eq!(model.predict(&m, &(&sparse).into()).unwrap(), expected);
            assert!(classes.is_empty() || expected.iter().all(|class| classes.contains(class)));
        }
        let chances = model(Kind::Logistic, &[0.0, 1.0, 2.0]).probabilities_of(&x).unwrap();
        assert!(chances.chunks(3).all(|row| (row.iter().sum::<f64>() - 1.0).abs() < 1e-15));
        let together = model(Kind::Logistic, &[0.0, 1.0, 2.0]).with_softmax();
        // x₀ = (1, 0): the decisions are −0.75, 1.25 and 3.25.
        let all: f64 = [-0.75_f64, 1.25, 3.25].iter().map(|d| d.exp()).sum();
        let chances = together.probabilities_of(&x).unwrap();
        assert!((chances[2] - 3.25_f64.exp() / all).abs() < 1e-15, "{chances:?}");
        assert!(chances.chunks(3).all(|row| (row.iter().sum::<f64>() - 1.0).abs() < 1e-15));
        let far =
            LinearModel::new(Kind::Logistic, vec![800.0, -800.0, 0.0], vec![0.0; 3], vec![0.0, 1.0, 2.0]);
        let sure = far.unwrap().with_softmax().probabilities_of(&Dense::from_vec(vec![1.0], 1).unwrap());
        assert_eq!(sure.unwrap(), [1.0, 0.0, 0.0]);
        let two = model(Kind::Logistic, &[0.0, 1.0]).probabilities_of(&x).unwrap();
        // x₀ = (1, 0): the decision is −0.75.
        assert!((two[1] - 1.0 / (1.0 + 0.75_f64.exp())).abs() < 1e-15 && two[0] + two[1] == 1.0);
    }

    #[test]
    fn what_was_saved_is_read_to_the_bit() {
        let file = models::tests::Temporary::new("linear");
        let path = &file.0;
        for (kind, classes) in
            [(Kind::Ridge, vec![]), (Kind::Svm, vec![-1.0, 1.0]), (Kind::Logistic, vec![0.0, 0.1, 9.0])]
        {
            let model = model(kind, &classes);
            model.save(path).unwrap();
            assert_eq!(LinearModel::load(path).unwrap(), model);
        }
        assert_eq!(models::inspect(path).unwrap().version, 1);
        let together = model(Kind::Logistic, &[0.0, 0.1, 9.0]).with_softmax();
        together.save(path).unwrap();
        assert!(together.is_softmax() && LinearModel::load(path).unwrap() == together);
        let contents = models::inspect(path).unwrap();
        assert_eq!(contents.version, 2);
        assert_eq!((contents.kind.as_str(), contents.tensors.len()), ("linear", 3));
    }

    #[test]
    fn other_rows_are_refused_in_words() {
        let model = model(Kind::Svm, &[0.0, 1.0]);
        let refused = model.predict_of(&Dense::from_vec(vec![1.0, 2.0, 3.0], 3).unwrap()).unwrap_err();
        assert!(refused.to_string().contains("3 columns and the model 2"), "{refused}");
        let refused =
            model.predict_of(&Dense::from_vec(vec![1.0, 2.0, 3.0, f64::NAN], 2).unwrap()).unwrap_err();
        assert!(refused.to_string().contains("row 1, column 1 (counted from 0) is NaN"), "{refused}");
        let refused = model.probabilities_of(&Dense::from_vec(vec![1.0, 2.0], 2).unwrap()).unwrap_err();
        assert!(refused.to_string().contains("svm knows no probabilities"), "{refused}");
        assert!(LinearModel::new(Kind::Ridge, vec![1.0], vec![0.0], vec![1.0, 2.0]).is_err());
    }
}
