//! What fitting leaves: the weights of a network, and the classes it tells apart.

use super::map::{Request, sums_of_rows};
use super::network::{Activation, Network, Output};
use super::source::Source;
use crate::answers::{self, RowNumbers};
use crate::input::{InputError, Problem};
use crate::kernels::{Level, elementwise};
use crate::learner::{Answer, Question};
use crate::models::{Format, Parts, PartsError, Tensor};
use crate::options::Value;
use qjam::{DataSet, Master};

/// What files call what hidden units do.
const ACTIVATION: &str = "activation";
/// What files call what the last layer means.
const OUTPUT: &str = "output";

/// How files have classifiers.
pub const CLASSIFIER: Format =
    Format { kind: "mlp-classifier", version: 1, attributes: &[ACTIVATION, OUTPUT] };
/// How files have networks that predict numbers.
pub const REGRESSOR: Format = Format { kind: "mlp-regressor", version: 1, attributes: &[ACTIVATION, OUTPUT] };

/// A network with its parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct PerceptronModel {
    network: Network,
    theta: Vec<f64>,
    classes: Vec<f64>,
}

impl PerceptronModel {
    /// A network with these parameters: layer by layer weights, a row for each input, and intercepts. `classes` is what targets call
    /// the classes, in order; none where numbers are predicted.
    ///
    /// # Panics
    ///
    /// When the numbers of parameters or of classes are not those of the network.
    pub fn new(network: Network, theta: Vec<f64>, classes: Vec<f64>) -> PerceptronModel {
        assert_eq!(theta.len(), network.len(), "parameters of {network:?}");
        assert!(fits(&network, &classes), "{} classes of {network:?}", classes.len());
        PerceptronModel { network, theta, classes }
    }

    /// Its shape.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// Its parameters.
    pub fn theta(&self) -> &[f64] {
        &self.theta
    }

    /// What targets call the classes, in order; none where numbers are predicted.
    pub fn classes(&self) -> &[f64] {
        &self.classes
    }

    /// The learner it comes from.
    pub fn name(&self) -> &'static str {
        self.format().kind
    }

    fn format(&self) -> Format {
        if self.classes.is_empty() { REGRESSOR } else { CLASSIFIER }
    }

    /// The class of every row as the targets called it, or the numbers that are expected.
    pub fn predict<C: Source>(&self, master: &Master, data: &DataSet<C>) -> Result<Vec<f64>, InputError> {
        let sums = self.sums(master, data)?;
        Ok(match self.answered(Question::Predict, sums) {
            Answer::Doubles(values, _) | Answer::Values(values) => values,
            other => unreachable!("{other:?} where numbers were asked for"),
        })
    }

    /// The sums of the last layer for every row.
    pub(super) fn sums<C: Source>(&self, master: &Master, data: &DataSet<C>) -> Result<Vec<f64>, InputError> {
        self.must_fit(&data.chunk(0).map_err(qjam::Error::from)?)?;
        self.sound(master.run(sums_of_rows::<C>, &self.request(), data)?)
    }

    /// The same for one chunk, on this thread.
    pub(super) fn sums_of<C: Source>(&self, x: &C) -> Result<Vec<f64>, InputError> {
        self.must_fit(x)?;
        self.sound(sums_of_rows(&self.request(), x))
    }

    fn request(&self) -> Request {
        Request::of(self.network.clone(), self.theta.clone())
    }

    fn must_fit<C: Source>(&self, x: &C) -> Result<(), InputError> {
        let (found, expected) = (x.width(), self.network.inputs());
        if found == expected { Ok(()) } else { Err(Problem::Columns { found, expected }.of(self.name())) }
    }

    fn sound(&self, found: RowNumbers) -> Result<Vec<f64>, InputError> {
        match found.bad {
            Some((row, column, value)) => Err(Problem::NotFinite { row, column, value }.of(self.name())),
            None => Ok(found.values),
        }
    }

    /// The answer to a question that follows from the sums of the last layer.
    pub(super) fn answered(&self, question: Question, mut sums: Vec<f64>) -> Answer {
        match self.network.output() {
            Output::Softmax => answers::classified(question, sums, &self.classes),
            Output::Logistic => {
                let both = sums.into_iter().flat_map(|sum| [0.0, sum]).collect();
                answers::classified(question, both, &self.classes)
            }
            output => {
                if output == Output::Poisson {
                    elementwise::exp(Level::best(), &mut sums);
                }
                match self.network.outputs() {
                    1 => Answer::Values(sums),
                    outputs => Answer::Doubles(sums, outputs),
                }
            }
        }
    }

    /// What it consists of.
    pub fn parts(&self) -> Parts {
        let mut tensors = vec![];
        if !self.classes.is_empty() {
            tensors.push(Tensor::new("classes", &[self.classes.len()], &self.classes));
        }
        for (number, layer) in (1..).zip(self.network.layers()) {
            let weights = &self.theta[layer.weights];
            tensors.push(Tensor::new(&format!("w{number}"), &[layer.inputs, layer.units], weights));
            tensors.push(Tensor::new(&format!("b{number}"), &[layer.units], &self.theta[layer.intercepts]));
        }
        let word = |name: &str, word: &str| (name.to_string(), Value::Text(word.into()));
        Parts {
            attributes: vec![
                word(ACTIVATION, self.network.activation().name()),
                word(OUTPUT, self.network.output().name()),
            ],
            ..Parts::new(self.format(), tensors)
        }
    }

    /// A network of these parts.
    pub fn of_parts(parts: &Parts) -> Result<PerceptronModel, PartsError> {
        let activation = parts.word(ACTIVATION).and_then(Activation::named);
        let output = parts.word(OUTPUT).and_then(Output::named);
        let (Some(activation), Some(output)) = (activation, output) else {
            return Err(PartsError::inconsistent("it does not say what its units do"));
        };
        PerceptronModel::of_tensors(parts, activation, output)
    }

    /// A network of these tensors, whose units do this.
    pub(super) fn of_tensors(
        parts: &Parts,
        activation: Activation,
        output: Output,
    ) -> Result<PerceptronModel, PartsError> {
        let classes = match parts.get("classes") {
            Some(_) => parts.tensor::<1>("classes")?.1,
            None => vec![],
        };
        let (mut sizes, mut theta) = (vec![], vec![]);
        for number in 1.. {
            let name = format!("w{number}");
            if number > 1 && parts.get(&name).is_none() {
                break;
            }
            let ([inputs, units], weights) = parts.tensor(&name)?;
            let ([of_units], intercepts) = parts.tensor(&format!("b{number}"))?;
            if sizes.last().is_some_and(|before| *before != inputs) || of_units != units {
                return Err(PartsError::inconsistent("its tensors do not belong to one network"));
            }
            if sizes.is_empty() {
                sizes.push(inputs);
            }
            sizes.push(units);
            theta.extend(weights);
            theta.extend(intercepts);
        }
        let network = Network::new(&sizes, activation, output).map_err(PartsError::inconsistent)?;
        if theta.len() != network.len() || !fits(&network, &classes) {
            return Err(PartsError::inconsistent("its classes are not those of its outputs"));
        }
        Ok(PerceptronModel { network, theta, classes })
    }
}

/// Whether there are as many classes as the outputs can tell.
fn fits(network: &Network, classes: &[f64]) -> bool {
    match network.output() {
        Output::Softmax => classes.len() > 2 && classes.len() == network.outputs(),
        Output::Logistic => classes.len() == 2 && network.outputs() == 1,
        Output::Squares | Output::Poisson => classes.is_empty(),
    }
}
