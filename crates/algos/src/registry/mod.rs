//! All learners there are. A new learner is one line of [`LEARNERS`].
//!
//! ```
//! use qjam::Master;
//! use qjam_algos::learner::sample;
//! use qjam_algos::registry::LEARNERS;
//!
//! let master = Master::connect("local:2")?;
//! for learner in LEARNERS {
//!     let fitted = sample::small(*learner).fit(&master)?;
//!     let again = learner.assemble(&fitted.model.parts())?;
//!     assert_eq!(again.hash(), fitted.model.hash());
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod page;
pub mod scaled;
pub(crate) mod sent;

use crate::learner::{Learner, LearnerError, Model};
use crate::models::{self, Contents, FileError, Parts};
use crate::options::Value;
use crate::{bayes, clustering, decomposition, discriminant, linear, local, mixture, neural, preprocessing};
use scaled::{OF_VERSION, Scaled};
use std::path::Path;

/// All learners, in the order of the book.
pub const LEARNERS: &[&dyn Learner] = &[
    &clustering::kmeans::learner::KMeans,
    &clustering::kmeans::learner::MiniBatchKMeans,
    &linear::learner::Linear(linear::Kind::Ridge),
    &linear::learner::Linear(linear::Kind::Lasso),
    &linear::learner::Linear(linear::Kind::ElasticNet),
    &linear::learner::Linear(linear::Kind::Logistic),
    &linear::learner::Linear(linear::Kind::Svm),
    &local::learner::LocallyWeighted,
    &bayes::gaussian::learner::GaussianNaiveBayes,
    &bayes::counts::learner::NaiveBayes(bayes::counts::Kind::Multinomial),
    &bayes::counts::learner::NaiveBayes(bayes::counts::Kind::Bernoulli),
    &bayes::counts::learner::NaiveBayes(bayes::counts::Kind::Complement),
    &discriminant::learner::Discriminant(discriminant::Kind::Linear),
    &discriminant::learner::Discriminant(discriminant::Kind::Quadratic),
    &preprocessing::learner::Scaler(preprocessing::Kind::Standard),
    &preprocessing::learner::Scaler(preprocessing::Kind::MinMax),
    &preprocessing::learner::Scaler(preprocessing::Kind::MaxAbs),
    &decomposition::pca::learner::Pca,
    &decomposition::svd::learner::TruncatedSvd,
    &decomposition::ica::learner::FastIca,
    &mixture::gaussian::learner::GaussianMixture,
    &neural::autoencoder::learner::SparseAutoencoder,
    &neural::perceptron::learner::Perceptron(neural::perceptron::Kind::Classifier),
    &neural::perceptron::learner::Perceptron(neural::perceptron::Kind::Regressor),
];

/// The learner that the command calls this.
///
/// ```
/// assert_eq!(qjam_algos::registry::find("kmeans").map(|learner| learner.table().class), Some("KMeans"));
/// ```
pub fn find(name: &str) -> Option<&'static dyn Learner> {
    LEARNERS.iter().find(|learner| learner.table().name == name).copied()
}

/// Assembles scaled models of all learners.
static SCALED: Scaled = Scaled::new(LEARNERS[0], preprocessing::Kind::Standard);

/// A learner whose models are of this kind. Any of several will do: the parts say the rest.
pub(crate) fn of_kind(kind: &str) -> Option<&'static dyn Learner> {
    let scaled: &'static dyn Learner = &SCALED;
    LEARNERS.iter().copied().chain([scaled]).find(|learner| learner.format().kind == kind)
}

/// Reads a model file of any kind. Checks that kind and version are known before it reads numbers.
pub fn load(path: &Path) -> Result<(Box<dyn Model>, Contents), FileError> {
    let contents = models::inspect(path)?;
    let Some(learner) = of_kind(&contents.kind) else {
        return Err(FileError::UnknownKind { path: path.into(), found: contents.kind });
    };
    load_as(learner, path)
}

/// Reads a model file of the kind that this learner fits.
pub fn load_as(learner: &dyn Learner, path: &Path) -> Result<(Box<dyn Model>, Contents), FileError> {
    let (mut parts, contents) = models::load(path, learner.format())?;
    if let Some(behind) = contents.behind().and_then(of_kind).map(Learner::format) {
        // What the model behind a scaling needs is among the notes like what the scaling needs.
        let notes = || contents.notes.fitted.iter();
        parts
            .attributes
            .extend(notes().filter(|(name, _)| behind.attributes.contains(&name.as_str())).cloned());
        let known = behind.version;
        if let Some((_, Value::Integer(found))) = notes().find(|(name, _)| name == OF_VERSION)
            && *found > u64::from(known)
        {
            let (path, kind, found) = (path.into(), behind.kind.into(), *found as u32);
            return Err(FileError::Newer { path, kind, found, known });
        }
    }
    let model = learner
        .assemble(&parts)
        .map_err(|e| FileError::Damaged { path: path.into(), what: e.to_string() })?;
    Ok((model, contents))
}

/// A model of these parts, for callers that keep parts elsewhere than in a file.
pub fn assemble(learner: &dyn Learner, parts: &Parts) -> Result<Box<dyn Model>, LearnerError> {
    learner.assemble(parts).map_err(|source| LearnerError::Parts { learner: learner.table().name, source })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_learner_has_a_name_and_a_class_of_its_own_and_answers_something() {
        let (mut names, mut classes) = (BTreeSet::new(), BTreeSet::new());
        for learner in LEARNERS {
            let table = learner.table();
            assert!(names.insert(table.name) && classes.insert(table.class), "{}", table.name);
            assert!(!learner.questions().is_empty() && learner.format().version > 0, "{}", table.name);
            assert!(find(table.name).is_some());
        }
    }
}
