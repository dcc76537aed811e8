//! What fitting leaves: of a linear analysis a rule and directions, of a quadratic one the axes of every class.

use super::linear::Rule;
use super::params::Kind;
use crate::answers::{RowNumbers, not_finite};
use crate::input::{InputError, Problem};
use crate::kernels::vectors::dot;
use crate::kernels::{Level, elementwise};
use crate::linear::rows::RowChunk;
use crate::models::{Format, Parts, PartsError, Tensor};
use crate::projection::{Projection, project};
use qjam::{Ctx, DataSet, Dense, Master};

/// Classes and how they are told apart.
#[derive(Clone, Debug, PartialEq)]
pub struct DiscriminantModel {
    pub(super) classes: Vec<f64>,
    pub(super) priors: Vec<f64>,
    /// Class by class.
    pub(super) means: Vec<f64>,
    pub(super) rule: ClassRule,
    /// Covariances, if they are kept: within classes, or of each.
    pub(super) covariances: Vec<f64>,
}

/// How classes are told apart.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ClassRule {
    /// By a linear rule.
    Linear(Rule),
    /// By distances along axes.
    Quadratic {
        /// Class by class, one axis after the other, each of length 1.
        axes: Vec<f64>,
        /// Variances along these.
        spreads: Vec<f64>,
    },
}

/// How files have models of a kind.
pub fn format(kind: Kind) -> Format {
    Format { kind: kind.name(), version: 1, attributes: &[] }
}

impl DiscriminantModel {
    /// Which analysis it is of.
    pub fn kind(&self) -> Kind {
        match self.rule {
            ClassRule::Linear(_) => Kind::Linear,
            ClassRule::Quadratic { .. } => Kind::Quadratic,
        }
    }

    /// What targets call the classes, in order.
    pub fn classes(&self) -> &[f64] {
        &self.classes
    }

    /// Probability of each class before a row is seen.
    pub fn priors(&self) -> &[f64] {
        &self.priors
    }

    /// Columns of the rows.
    pub fn columns(&self) -> usize {
        self.means.len() / self.classes.len()
    }

    /// Directions of a linear analysis.
    pub fn directions(&self) -> usize {
        match &self.rule {
            ClassRule::Linear(rule) => rule.directions.len() / self.columns(),
            ClassRule::Quadratic { .. } => 0,
        }
    }

    /// The logarithm of the joint probability of each row and each class, up to a constant of the row.
    pub fn joint<C: RowChunk>(&self, master: &Master, data: &DataSet<C>) -> Result<Vec<f64>, InputError> {
        self.must_fit(&data.chunk(0).map_err(qjam::Error::from)?)?;
        self.sound(match &self.rule {
            ClassRule::Linear(rule) => master.run(project::<C>, &self.linear(rule), data)?,
            ClassRule::Quadratic { axes, spreads } => {
                master.run(distances::<C>, &self.quadratic(axes, spreads), data)?
            }
        })
    }

    /// The same for one chunk, on this thread.
    pub fn joint_of<C: RowChunk>(&self, x: &C) -> Result<Vec<f64>, InputError> {
        self.must_fit(x)?;
        self.sound(match &self.rule {
            ClassRule::Linear(rule) => self.linear(rule).apply(x, |value| value),
            ClassRule::Quadratic { axes, spreads } => self.quadratic(axes, spreads).apply(x),
        })
    }

    /// Coordinates of rows along the directions of a linear analysis; `None` if there are no directions.
    pub fn transform<C: RowChunk>(
        &self,
        master: &Master,
        data: &DataSet<C>,
    ) -> Result<Option<Vec<f64>>, InputError> {
        self.must_fit(&data.chunk(0).map_err(qjam::Error::from)?)?;
        let Some(turn) = self.turn() else { return Ok(None) };
        self.sound(master.run(project::<C>, &turn, data)?).map(Some)
    }

    /// The same for one chunk, on this thread.
    pub fn transform_of<C: RowChunk>(&self, x: &C) -> Result<Option<Vec<f64>>, InputError> {
        self.must_fit(x)?;
        self.turn().map(|turn| self.sound(turn.apply(x, |value| value))).transpose()
    }

    fn linear(&self, rule: &Rule) -> Projection {
        Projection::new(&rule.coefficients, vec![], rule.intercepts.clone())
    }

    fn quadratic(&self, axes: &[f64], spreads: &[f64]) -> Distances {
        let d = self.columns();
        let mut logs = spreads.to_vec();
        elementwise::log(Level::best(), &mut logs);
        let mut constants = self.priors.clone();
        elementwise::log(Level::best(), &mut constants);
        let mut classes = vec![];
        for (class, constant) in constants.iter_mut().enumerate() {
            *constant -= 0.5 * logs[class * d..][..d].iter().sum::<f64>();
            let spreads = &spreads[class * d..][..d];
            let axes = &axes[class * d * d..][..d * d];
            let scaled: Vec<f64> = (0..d * d).map(|at| axes[at] / spreads[at / d].sqrt()).collect();
            classes.push(Projection::new(&scaled, self.means[class * d..][..d].to_vec(), vec![0.0; d]));
        }
        Distances { classes, constants }
    }

    fn turn(&self) -> Option<Projection> {
        match &self.rule {
            ClassRule::Linear(rule) if !rule.directions.is_empty() => {
                let constants = vec![0.0; self.directions()];
                Some(Projection::new(&rule.directions, rule.centre.clone(), constants))
            }
            _ => None,
        }
    }

    fn must_fit<C: RowChunk>(&self, x: &C) -> Result<(), InputError> {
        match x.width() == self.columns() {
            true => Ok(()),
            false => {
                Err(Problem::Columns { found: x.width(), expected: self.columns() }.of(self.kind().name()))
            }
        }
    }

    fn sound(&self, found: RowNumbers) -> Result<Vec<f64>, InputError> {
        match found.bad {
            Some((row, column, value)) => {
                Err(Problem::NotFinite { row, column, value }.of(self.kind().name()))
            }
            None => Ok(found.values),
        }
    }

    /// What it consists of.
    pub fn parts(&self) -> Parts {
        let (k, d) = (self.classes.len(), self.columns());
        let mut tensors = vec![
            Tensor::new("means", &[k, d], &self.means),
            Tensor::new("priors", &[k], &self.priors),
            Tensor::new("classes", &[k], &self.classes),
            Tensor::new("covariances", &[self.covariances.len() / d, d], &self.covariances),
        ];
        match &self.rule {
            ClassRule::Linear(rule) => tensors.extend([
                Tensor::new("coefficients", &[k, d], &rule.coefficients),
                Tensor::new("intercepts", &[k], &rule.intercepts),
                Tensor::new("directions", &[self.directions(), d], &rule.directions),
                Tensor::new("centre", &[d], &rule.centre),
                Tensor::new("ratios", &[rule.ratios.len()], &rule.ratios),
            ]),
            ClassRule::Quadratic { axes, spreads } => tensors
                .extend([Tensor::new("axes", &[k * d, d], axes), Tensor::new("spreads", &[k, d], spreads)]),
        }
        Parts::new(format(self.kind()), tensors)
    }

    /// A model of a kind of these parts.
    pub fn of_parts(kind: Kind, parts: &Parts) -> Result<DiscriminantModel, PartsError> {
        let ([k, d], means) = parts.tensor("means")?;
        let ([_], priors) = parts.tensor("priors")?;
        let ([_], classes) = parts.tensor("classes")?;
        let ([_, width], covariances) = parts.tensor("covariances")?;
        let (fit, rule) = match kind {
            Kind::Linear => {
                let (shape, coefficients) = parts.tensor::<2>("coefficients")?;
                let ([_], intercepts) = parts.tensor("intercepts")?;
                let ([_, across], directions) = parts.tensor("directions")?;
                let ([_], centre) = parts.tensor("centre")?;
                let ([_], ratios) = parts.tensor("ratios")?;
                let fit = (shape, across) == ([k, d], d) && (intercepts.len(), centre.len()) == (k, d);
                (fit, ClassRule::Linear(Rule { coefficients, intercepts, directions, centre, ratios }))
            }
            Kind::Quadratic => {
                let (shape, axes) = parts.tensor::<2>("axes")?;
                let (across, spreads) = parts.tensor::<2>("spreads")?;
                let fit = shape[1] == d && Some(shape[0]) == k.checked_mul(d) && across == [k, d];
                (fit, ClassRule::Quadratic { axes, spreads })
            }
        };
        let in_order = classes.windows(2).all(|pair| pair[0] < pair[1]);
        let whole =
            fit && in_order && k > 0 && d > 0 && width == d && [priors.len(), classes.len()] == [k; 2];
        match whole {
            true => Ok(DiscriminantModel { classes, priors, means, rule, covariances }),
            false => Err(PartsError::inconsistent("its tensors do not belong to one model")),
        }
    }
}

/// What chunks need to know of a quadratic rule.
#[derive(Clone, Debug, qjam::Wire)]
pub struct Distances {
    /// Along the axes of each class, in its deviations.
    classes: Vec<Projection>,
    constants: Vec<f64>,
}

impl Distances {
    fn apply<C: RowChunk>(&self, x: &C) -> RowNumbers {
        let k = self.classes.len();
        let mut values = vec![0.0; x.count() * k];
        for (class, (projection, constant)) in self.classes.iter().zip(&self.constants).enumerate() {
            let along = projection.apply(x, |value| value).values;
            for (row, point) in along.chunks_exact(x.width().max(1)).enumerate() {
                values[row * k + class] = constant - 0.5 * dot(point, point);
            }
        }
        RowNumbers { values, rows: x.count() as u64, bad: not_finite(x) }
    }
}

/// The joint probabilities of the rows of a chunk by distances along axes.
#[qjam::map]
pub fn distances<C: RowChunk>(rule: &Distances, x: &C, _: &Ctx) -> RowNumbers {
    rule.apply(x)
}
qjam::register!(distances::<Dense<f32>>, distances::<Dense<f64>>);
