//! Minimising functions of Python's: the drivers of `qjam_algos::optimize` with calls into the interpreter.

use super::arrays::{array, numbers};
use crate::buffer::Borrowed;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use qjam_algos::optimize::first_order::{Adam, Sgd};
use qjam_algos::optimize::minimize::{Criteria, Method, Objective, Step, minimize};

/// Functions of Python's: value and gradient at a point, and perhaps products with the Hessian there.
struct Called<'a, 'py> {
    py: Python<'py>,
    function: &'a Bound<'py, PyAny>,
    products: Option<&'a Bound<'py, PyAny>>,
}

impl Called<'_, '_> {
    fn copy(&self, memory: &Bound<'_, PyAny>, to: &mut [f64]) -> PyResult<()> {
        let memory = Borrowed::of(memory)?;
        let values = numbers::<f64>(memory.as_ref())?;
        if values.len() != to.len() {
            let (found, expected) = (values.len(), to.len());
            return Err(PyValueError::new_err(format!("{found} numbers for {expected} parameters")));
        }
        to.copy_from_slice(&values);
        Ok(())
    }
}

impl Objective<PyErr> for Called<'_, '_> {
    fn evaluate(&mut self, x: &[f64], gradient: &mut [f64]) -> PyResult<f64> {
        self.py.check_signals()?;
        let at = array(self.py, x.to_vec(), &[x.len()])?;
        let (value, memory): (f64, Bound<'_, PyAny>) = self.function.call1((at,))?.extract()?;
        self.copy(&memory, gradient)?;
        Ok(value)
    }

    fn hessian_times(&mut self, x: &[f64], vector: &[f64], product: &mut [f64]) -> PyResult<bool> {
        let Some(products) = self.products else { return Ok(false) };
        let shape = [x.len()];
        let (at, along) = (array(self.py, x.to_vec(), &shape)?, array(self.py, vector.to_vec(), &shape)?);
        let memory = products.call1((at, along))?;
        self.copy(&memory, product)?;
        Ok(true)
    }
}

/// Minimises `function`, which gives a value and the memory of a gradient. `callback` is told every step (the point, its value, the
/// largest element of the gradient, and steps and evaluations so far) and says whether to go on.
#[pyfunction]
#[pyo3(signature = (method, start, function, products, callback, options))]
pub(super) fn optimize_minimize<'py>(
    py: Python<'py>,
    method: &str,
    start: &Bound<'py, PyAny>,
    function: &Bound<'py, PyAny>,
    products: Option<&Bound<'py, PyAny>>,
    callback: Option<&Bound<'py, PyAny>>,
    options: &Bound<'py, PyDict>,
) -> PyResult<Bound<'py, PyDict>> {
    let x = numbers::<f64>(Borrowed::of(start)?.as_ref())?.into_owned();
    let method = chosen(method, options, x.len())?;
    let criteria = Criteria {
        gradient_max: option(options, "gtol")?,
        decrease: option(options, "ftol")?,
        iterations_max: option(options, "maxiter")?,
        evaluations_max: option(options, "maxfun")?,
    };
    let mut failed = None;
    let tell = |step: &Step<'_>| {
        let Some(callback) = callback else { return true };
        let told = array(py, step.x.to_vec(), &[step.x.len()])
            .and_then(|x| {
                callback.call1((x, step.value, step.gradient_max, step.iteration, step.evaluations))
            })
            .and_then(|answer| answer.extract::<bool>());
        told.unwrap_or_else(|error| {
            failed = Some(error);
            false
        })
    };
    let found = minimize(&method, &criteria, x, Called { py, function, products }, tell)?;
    if let Some(error) = failed {
        return Err(error);
    }
    let told = PyDict::new(py);
    let shape = [found.x.len()];
    told.set_item("x", array(py, found.x, &shape)?)?;
    told.set_item("fun", found.value)?;
    told.set_item("jac", array(py, found.gradient, &shape)?)?;
    told.set_item("nit", found.iterations)?;
    told.set_item("nfev", found.evaluations)?;
    told.set_item("success", found.outcome.converged())?;
    told.set_item("outcome", found.outcome.name())?;
    told.set_item("history", found.history)?;
    Ok(told)
}

fn chosen(method: &str, options: &Bound<'_, PyDict>, len: usize) -> PyResult<Method> {
    Ok(match method {
        "l-bfgs" => Method::Lbfgs { memory: option(options, "maxcor")? },
        "cg" => Method::ConjugateGradient,
        "newton-cg" => Method::NewtonCg,
        "sgd" => {
            let sgd = Sgd::new(len, option(options, "momentum")?, option(options, "nesterov")?);
            Method::Sgd(sgd.with_rate(option(options, "rate")?))
        }
        "adam" => {
            let (beta_1, beta_2) = (option(options, "beta_1")?, option(options, "beta_2")?);
            let adam = Adam::new(len).with_means(beta_1, beta_2, option(options, "epsilon")?);
            Method::Adam(adam.with_rate(option(options, "rate")?))
        }
        "fista" => Method::Fista { l1: option(options, "l1")? },
        other => return Err(PyValueError::new_err(format!("{other:?} is no method"))),
    })
}

/// An option, all of which the package sets.
fn option<T: for<'a, 'py> FromPyObject<'a, 'py, Error: Into<PyErr>>>(
    options: &Bound<'_, PyDict>,
    name: &str,
) -> PyResult<T> {
    let value = options.get_item(name)?;
    let value = value.ok_or_else(|| PyValueError::new_err(format!("there is no option {name}")))?;
    value.extract::<T>().map_err(Into::into)
}
