//! Discriminant analysis: classes are normal, with the same covariances (linear) or each with its own (quadratic).
//!
//! One round ([`scatter`]) finds means and covariances of the classes; shrinkage by Ledoit and Wolf takes one more. The master solves:
//! `linear` for a rule and for directions, [`fit`] for the axes of each class of a quadratic analysis.
//!
//! ```
//! use qjam::{DataSet, Master};
//! use qjam_algos::discriminant::{Kind, Params, fit};
//! use qjam_algos::input::Labels;
//!
//! let rows = DataSet::dense(vec![-1.0, -1.0, -2.0, -1.0, -3.0, -2.0, 1.0, 1.0, 2.0, 1.0, 3.0, 2.0], 2)?;
//! let labels = Labels { targets: &[1.0, 1.0, 1.0, 2.0, 2.0, 2.0], weights: None };
//! let master = Master::connect("local:1")?;
//! let model = fit(&master, &Params::new(Kind::Linear), &rows, labels, None)?;
//! assert_eq!((model.priors(), model.directions()), (&[0.5, 0.5][..], 1));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod learner;
mod linear;
pub mod model;
pub mod params;
pub mod scatter;

pub use model::DiscriminantModel;
pub use params::{Kind, Params, Shrinkage, Solver};

use crate::clustering::kmeans::parts;
use crate::input::{InputError, Labels, Problem, RowClasses, check_priors};
use crate::kernels::symmetric::Eigen;
use crate::linear::rows::RowChunk;
use linear::Given;
use model::ClassRule;
use qjam::{DataSet, Master};
use scatter::{ClassScatters, FourthPowers, Standard, Standards, class_scatters, covariance, fourth_powers};

/// Fits a model to rows with the numbers of their classes. Weights are not taken.
pub fn fit<C: RowChunk>(
    master: &Master,
    params: &Params,
    data: &DataSet<C>,
    labels: Labels<'_>,
    priors: Option<&[f64]>,
) -> Result<DiscriminantModel, InputError> {
    let wrong = |problem: Problem| problem.of(params.kind.name());
    let (rows, classes) = (data.records(), labels.classes());
    if params.is_contradictory() {
        return Err(wrong(Problem::Shrinkage));
    }
    if classes.len() < 2 {
        return Err(wrong(Problem::OneClass));
    }
    check_priors(priors, classes.len()).map_err(wrong)?;
    let columns = data.chunk(0).map_err(qjam::Error::from)?.width();
    let components = components(params, columns, classes.len()).map_err(wrong)?;
    let data = data.partitions(parts(rows)).map_err(qjam::Error::from)?;
    let of_rows = labels.checked(&classes, rows, data.len()).map_err(wrong)?;
    let scatters: ClassScatters = master.run(class_scatters::<C>, &of_rows, &data)?;
    if let Some((row, column, value)) = scatters.bad {
        return Err(wrong(Problem::NotFinite { row, column, value }));
    }
    if params.kind == Kind::Linear && rows == classes.len() as u64 {
        return Err(wrong(Problem::RowsOfClasses { rows }));
    }
    let fourth = match params.shrinkage {
        Shrinkage::Auto => second_round(master, params, &data, of_rows, &scatters)?,
        _ => vec![],
    };
    let shares = || scatters.classes.iter().map(|class| class.rows as f64 / rows as f64).collect();
    let priors: Vec<f64> = priors.map_or_else(shares, <[f64]>::to_vec);
    let given = Given { params, scatters: &scatters, priors: &priors, fourth: &fourth, components };
    let (rule, covariances) = match params.kind {
        Kind::Linear => linear_rule(&given).map_err(wrong)?,
        Kind::Quadratic => quadratic_rule(params, &scatters, &classes, &fourth).map_err(wrong)?,
    };
    let means = scatters.classes.iter().flat_map(|class| &class.mean).copied().collect();
    Ok(DiscriminantModel { classes, priors, means, rule, covariances })
}

/// How many directions a linear analysis keeps.
fn components(params: &Params, columns: usize, classes: usize) -> Result<usize, Problem> {
    let max = columns.min(classes - 1) as u64;
    match params.components {
        Some(asked) if asked > max => Err(Problem::Directions { asked, max }),
        asked => Ok(asked.unwrap_or(max) as usize),
    }
}

/// What shrinkage by Ledoit and Wolf needs of the rows, once their moments are known.
fn second_round<C: RowChunk>(
    master: &Master,
    params: &Params,
    data: &DataSet<C>,
    rows: RowClasses,
    scatters: &ClassScatters,
) -> Result<Vec<f64>, InputError> {
    let mut groups: Vec<Standard> = scatters.classes.iter().map(Standard::of).collect();
    if params.kind == Kind::Linear && params.solver == Solver::Eigen {
        groups.push(Standard::of(&Given::total(scatters)));
    }
    let found: FourthPowers = master.run(fourth_powers::<C>, &Standards { rows, groups }, data)?;
    Ok(found.sums)
}

fn linear_rule(given: &Given<'_>) -> Result<(ClassRule, Vec<f64>), Problem> {
    let mut rule = given.solve()?;
    let columns = rule.centre.len();
    rule.directions.truncate(given.components * columns);
    let is_kept = given.params.store_covariance || given.params.solver != Solver::Svd;
    Ok((ClassRule::Linear(rule), if is_kept { given.within() } else { vec![] }))
}

/// The axes of each class, and the variances along these, which must all be more than the tolerance.
fn quadratic_rule(
    params: &Params,
    scatters: &ClassScatters,
    names: &[f64],
    fourth: &[f64],
) -> Result<(ClassRule, Vec<f64>), Problem> {
    let (mut axes, mut spreads, mut covariances) = (vec![], vec![], vec![]);
    for (class, scatter) in scatters.classes.iter().enumerate() {
        if scatter.rows < 2 {
            return Err(Problem::RowsOfClass { class: names[class], rows: scatter.rows });
        }
        let columns = scatter.mean.len();
        let fourth = fourth.get(class).copied().unwrap_or(0.0);
        let mut own = covariance(scatter, params.shrinkage, fourth);
        if params.solver == Solver::Svd {
            own.iter_mut().for_each(|value| *value *= 1.0 - params.reg_param);
            (0..columns).for_each(|j| own[j * columns + j] += params.reg_param);
        }
        let eigen = Eigen::of(own.clone(), columns).ok_or(Problem::Overflow)?;
        if eigen.values.iter().any(|value| *value <= params.tol) {
            let option = if params.solver == Solver::Svd { "reg_param" } else { "shrinkage" };
            return Err(Problem::NotFullRank { class: names[class], option });
        }
        axes.extend_from_slice(eigen.vectors());
        spreads.extend_from_slice(&eigen.values);
        if params.store_covariance {
            covariances.extend(own);
        }
    }
    Ok((ClassRule::Quadratic { axes, spreads }, covariances))
}
