//! What fitting a scaler leaves: what it saw of the columns, and what it does to them.

use super::columns::Columns;
use super::params::{Kind, Params};
use crate::answers::not_finite;
use crate::bayes::gaussian::moments::Moments;
use crate::input::{InputError, Problem};
use crate::linear::affine::Affine;
use crate::linear::rows::RowChunk;
use crate::models::{Format, Parts, PartsError, Tensor};

/// How files have models of this kind.
pub fn format(kind: Kind) -> Format {
    Format { kind: kind.name(), version: 1, attributes: &[] }
}

/// Columns and their scales.
#[derive(Clone, Debug, PartialEq)]
pub struct ScalerModel {
    params: Params,
    seen: Columns,
}

impl ScalerModel {
    pub(crate) fn new(params: Params, seen: Columns) -> ScalerModel {
        ScalerModel { params, seen }
    }

    /// Columns of the rows.
    pub fn columns(&self) -> usize {
        self.seen.least.len()
    }

    /// What columns are brought to.
    pub fn kind(&self) -> Kind {
        self.params.kind()
    }

    /// The weight of the rows that were seen.
    pub fn samples(&self) -> f64 {
        self.seen.moments.weight
    }

    /// What is known of the columns, to be added to by a model of the same kind over as many columns.
    pub(super) fn seen(&self, kind: Kind, columns: usize) -> Result<Columns, Problem> {
        if kind != self.kind() {
            return Err(Problem::OtherScaler { found: self.kind().name(), expected: kind.name() });
        }
        match self.columns() == columns {
            true => Ok(self.seen.clone()),
            false => Err(Problem::Columns { found: columns, expected: self.columns() }),
        }
    }

    /// What is done to the columns.
    pub fn affine(&self) -> Affine {
        let Columns { moments, least, most, .. } = &self.seen;
        let clip = |least: f64, most: f64| self.params.clip.then_some((least, most));
        match self.kind() {
            Kind::Standard => {
                let (centre, divide) = self.params.standard;
                let factor = moments.mean.iter().zip(moments.variances()).map(|(mean, variance)| {
                    let is_constant = is_rounding(moments.weight, *mean, variance);
                    if divide && !is_constant { 1.0 / variance.sqrt() } else { 1.0 }
                });
                let shift = if centre { moments.mean.clone() } else { vec![] };
                Affine { shift, factor: factor.collect(), offset: 0.0, clip: None }
            }
            Kind::MinMax => {
                let (low, high) = self.params.range;
                let factor = least.iter().zip(most).map(|(least, most)| (high - low) / or_one(most - least));
                Affine { shift: least.clone(), factor: factor.collect(), offset: low, clip: clip(low, high) }
            }
            Kind::MaxAbs => {
                let factor = self.largest().into_iter().map(|largest| 1.0 / or_one(largest));
                Affine { clip: clip(-1.0, 1.0), ..Affine::scale(factor.collect()) }
            }
        }
    }

    /// How many columns have the same number in all rows.
    pub fn constant(&self) -> usize {
        let Columns { moments, least, most, .. } = &self.seen;
        match self.kind() {
            Kind::Standard => {
                let pairs = moments.mean.iter().zip(moments.variances());
                pairs.filter(|(mean, variance)| is_rounding(moments.weight, **mean, *variance)).count()
            }
            Kind::MinMax => least.iter().zip(most).filter(|(least, most)| least == most).count(),
            Kind::MaxAbs => self.largest().iter().filter(|largest| **largest == 0.0).count(),
        }
    }

    fn largest(&self) -> Vec<f64> {
        self.seen.least.iter().zip(&self.seen.most).map(|(least, most)| least.abs().max(most.abs())).collect()
    }

    /// The numbers of a chunk, scaled, row by row.
    pub fn transform_of<C: RowChunk>(&self, x: &C) -> Result<Vec<f64>, InputError> {
        let name = self.kind().name();
        if x.width() != self.columns() {
            return Err(Problem::Columns { found: x.width(), expected: self.columns() }.of(name));
        }
        if !C::IN_FULL && self.params.needs_full_rows() {
            return Err(Problem::Centre.of(name));
        }
        match not_finite(x) {
            Some((row, column, value)) => Err(Problem::NotFinite { row, column, value }.of(name)),
            None => Ok(self.affine().full(x)),
        }
    }

    /// What it consists of.
    pub fn parts(&self) -> Parts {
        let by_column = |name: &str, values: &[f64]| Tensor::new(name, &[values.len()], values);
        let flag = |name: &str, is_on: bool| Tensor::new(name, &[1], &[f64::from(u8::from(is_on))]);
        let (moments, (low, high)) = (&self.seen.moments, self.params.range);
        let mut tensors = match self.kind() {
            Kind::Standard => vec![
                by_column("mean", &moments.mean),
                by_column("variance", &moments.variances().collect::<Vec<_>>()),
                flag("center", self.params.standard.0),
                flag("scale", self.params.standard.1),
            ],
            Kind::MinMax => vec![
                by_column("least", &self.seen.least),
                by_column("most", &self.seen.most),
                by_column("range", &[low, high]),
                flag("clip", self.params.clip),
            ],
            Kind::MaxAbs => vec![by_column("largest", &self.largest()), flag("clip", self.params.clip)],
        };
        tensors.push(Tensor::new("samples", &[1], &[self.samples()]));
        Parts::new(format(self.kind()), tensors)
    }

    /// A model of these parts.
    pub fn of_parts(kind: Kind, parts: &Parts) -> Result<ScalerModel, PartsError> {
        let by_column = |name: &str| parts.tensor::<1>(name).map(|(_, values)| values);
        let single = |name: &str| match by_column(name)?[..] {
            [value] => Ok(value),
            _ => Err(PartsError::inconsistent(format!("{name} is not one number"))),
        };
        let mut params = Params::new(kind);
        let (first, second) = match kind {
            Kind::Standard => (by_column("mean")?, by_column("variance")?),
            Kind::MinMax => (by_column("least")?, by_column("most")?),
            Kind::MaxAbs => {
                let largest = by_column("largest")?;
                (largest.iter().map(|largest| -largest).collect(), largest)
            }
        };
        if first.len() != second.len() {
            return Err(PartsError::inconsistent("its tensors do not belong to one model"));
        }
        let weight = single("samples")?;
        let mut moments = Moments { weight, ..Moments::none(first.len()) };
        let (mut least, mut most) = (vec![0.0; first.len()], vec![0.0; first.len()]);
        match kind {
            Kind::Standard => {
                params.standard = (single("center")? != 0.0, single("scale")? != 0.0);
                (moments.mean, moments.squares) = (first, second.iter().map(|v| v * weight).collect());
            }
            Kind::MinMax | Kind::MaxAbs => {
                params.clip = single("clip")? != 0.0;
                (least, most) = (first, second);
            }
        }
        if kind == Kind::MinMax {
            params.range = match by_column("range")?[..] {
                [low, high] if low < high => (low, high),
                _ => return Err(PartsError::inconsistent("range is not two numbers, the smaller first")),
            };
        }
        let seen = Columns { moments, least, most, rows: 0, bad: None, bad_weight: None };
        Ok(ScalerModel { params, seen })
    }
}

/// Whether a variance is nothing but what rounding leaves of a column in which all is the same; scikit-learn's rule.
fn is_rounding(weight: f64, mean: f64, variance: f64) -> bool {
    variance <= weight * f64::EPSILON * variance + (weight * mean * f64::EPSILON).powi(2)
}

/// What is divided by: 1 where there is nothing.
fn or_one(extent: f64) -> f64 {
    if extent < 10.0 * f64::EPSILON { 1.0 } else { extent }
}
