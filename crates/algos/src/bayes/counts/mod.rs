//! Naive Bayes of counts and of things that are there or not: multinomial, Bernoulli and complement, dense or sparse.
//!
//! One round ([`mod@tally`]) adds up the columns of each class; [`model`] makes the weights of a linear rule of these counts. A model
//! can learn from one more batch ([`update`]): its counts are added.
//!
//! ```
//! use qjam::{DataSet, Master};
//! use qjam_algos::bayes::counts::{Extra, Kind, Params, fit};
//! use qjam_algos::input::Labels;
//!
//! // Counts of two words in four texts of two kinds.
//! let rows = DataSet::dense(vec![3.0, 0.0, 2.0, 1.0, 0.0, 4.0, 1.0, 3.0], 2)?;
//! let labels = Labels { targets: &[0.0, 0.0, 1.0, 1.0], weights: None };
//! let master = Master::connect("local:1")?;
//! let model = fit(&master, &Params::new(Kind::Multinomial), &rows, labels, &Extra::default())?;
//! assert_eq!(model.feature_count(), [5.0, 1.0, 1.0, 7.0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod learner;
pub mod model;
pub mod params;
pub mod tally;

pub use model::CountsModel;
pub use params::{Kind, Params};

use crate::clustering::kmeans::parts;
use crate::input::{InputError, Labels, Problem};
use crate::linear::rows::RowChunk;
use model::must_keep_zeros;
use qjam::{DataSet, Master};
use tally::{Tally, TallyRequest, tally};

/// What the options of a kind may be besides numbers and words.
#[derive(Clone, Copy, Debug, Default)]
pub struct Extra<'a> {
    /// Probabilities of the classes.
    pub class_prior: Option<&'a [f64]>,
    /// Smoothing for each column, instead of one number for all.
    pub alpha: Option<&'a [f64]>,
}

/// Fits a model to rows with the numbers of their classes, in one round.
pub fn fit<C: RowChunk>(
    master: &Master,
    params: &Params,
    data: &DataSet<C>,
    labels: Labels<'_>,
    extra: &Extra<'_>,
) -> Result<CountsModel, InputError> {
    let columns = data.chunk(0).map_err(qjam::Error::from)?.width();
    let none = CountsModel::none(params.kind(), labels.classes(), columns);
    update(master, params, data, labels, extra, none)
}

/// Has a model learn from one more batch. Its first batch is taken in by [`CountsModel::none`].
pub fn update<C: RowChunk>(
    master: &Master,
    params: &Params,
    data: &DataSet<C>,
    labels: Labels<'_>,
    extra: &Extra<'_>,
    mut model: CountsModel,
) -> Result<CountsModel, InputError> {
    let (kind, rows) = (params.kind(), data.records());
    let wrong = |problem: Problem| problem.of(kind.name());
    let found = data.chunk(0).map_err(qjam::Error::from)?.width();
    if found != model.columns {
        return Err(wrong(Problem::Columns { found, expected: model.columns }));
    }
    must_keep_zeros::<C>(kind, params.binarize())?;
    check_extra(extra, model.classes.len(), model.columns).map_err(wrong)?;
    let data = data.partitions(parts(rows)).map_err(qjam::Error::from)?;
    let of_rows = labels.checked(&model.classes, rows, data.len()).map_err(wrong)?;
    let request = TallyRequest::new(kind, params.binarize(), of_rows);
    let seen: Tally = master.run(tally::<C>, &request, &data)?;
    if let Some((row, column, value)) = seen.bad {
        return Err(wrong(Problem::NotFinite { row, column, value }));
    }
    if let Some((row, column, value)) = seen.negative {
        return Err(wrong(Problem::Negative { row, column, value }));
    }
    let add = |to: &mut [f64], from: &[f64]| to.iter_mut().zip(from).for_each(|(to, from)| *to += from);
    add(&mut model.class_count, &seen.classes);
    add(&mut model.feature_count, &seen.columns);
    let alpha: Vec<f64> = match extra.alpha {
        Some(each) => each.iter().map(|alpha| params.smoothed(*alpha)).collect(),
        None => vec![params.alpha()],
    };
    model.weigh(params, &alpha, extra.class_prior);
    Ok(model)
}

/// Priors of counts need not add up to 1, as in scikit-learn: only their ratios matter.
fn check_extra(extra: &Extra<'_>, classes: usize, columns: usize) -> Result<(), Problem> {
    if let Some(priors) = extra.class_prior
        && priors.len() != classes
    {
        return Err(Problem::Priors { found: priors.len(), classes });
    }
    if let Some(value) = extra.class_prior.into_iter().flatten().find(|prior| prior.is_nan() || **prior < 0.0)
    {
        return Err(Problem::Prior { value: *value });
    }
    let alphas = extra.alpha.unwrap_or_default();
    if extra.alpha.is_some() && alphas.len() != columns {
        return Err(Problem::Alphas { found: alphas.len(), columns });
    }
    match alphas.iter().find(|alpha| !(alpha.is_finite() && **alpha >= 0.0)) {
        Some(value) => Err(Problem::Alpha { value: *value }),
        None => Ok(()),
    }
}
