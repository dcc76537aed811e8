//! Learners for `qjam.learn`: what is native of its estimators.
//!
//! No learner has code of its own here. The package checks what users hand over as scikit-learn does, and knows which master
//! to use; here arrays become data sets ([`rows`]), a learner of `qjam_algos::registry` is fitted with the interpreter
//! released ([`fitting`], [`running`]) or its model is asked ([`asking`]), saved and loaded ([`files`]). A model is a dictionary
//! of arrays to Python ([`parts`]), which NumPy owns ([`arrays`]). Functions of the user's are minimised in [`minimizing`];
//! [`drawn`] is there to be measured.

mod arrays;
mod asking;
mod drawn;
mod errors;
mod files;
mod fitting;
mod minimizing;
mod options;
mod parts;
mod rows;
mod running;

use pyo3::prelude::*;

pub(crate) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<arrays::Given>()?;
    m.add_class::<rows::Rows>()?;
    m.add_function(wrap_pyfunction!(options::learner_options, m)?)?;
    m.add_function(wrap_pyfunction!(fitting::learner_fit, m)?)?;
    m.add_function(wrap_pyfunction!(minimizing::optimize_minimize, m)?)?;
    m.add_function(wrap_pyfunction!(drawn::drawn_steps, m)?)?;
    m.add_function(wrap_pyfunction!(drawn::drawn_fit, m)?)?;
    m.add_function(wrap_pyfunction!(drawn::tuned_fit, m)?)?;
    m.add_function(wrap_pyfunction!(asking::model_answer, m)?)?;
    m.add_function(wrap_pyfunction!(asking::model_answer_here, m)?)?;
    m.add_function(wrap_pyfunction!(files::model_save, m)?)?;
    m.add_function(wrap_pyfunction!(files::model_load, m)?)
}
