//! Learners for `qjam.learn`: what is native of its estimators.
//!
//! The package checks what users hand over as scikit-learn does, and knows which master to use; here arrays become data
//! sets ([`rows`]), a learner of `qjam-algos` runs with the interpreter let go ([`running`]), and what it gives goes
//! back as arrays that NumPy owns ([`arrays`]). Small things to be computed are computed right here, without a master.

mod arrays;
mod autoencoder;
mod errors;
mod files;
mod kmeans;
mod linear;
mod options;
mod rows;
mod running;

use pyo3::prelude::*;

pub(crate) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<arrays::Given>()?;
    m.add_class::<rows::Rows>()?;
    m.add_function(wrap_pyfunction!(options::learner_options, m)?)?;
    m.add_function(wrap_pyfunction!(kmeans::kmeans_fit, m)?)?;
    m.add_function(wrap_pyfunction!(kmeans::kmeans_learn, m)?)?;
    m.add_function(wrap_pyfunction!(kmeans::kmeans_predict, m)?)?;
    m.add_function(wrap_pyfunction!(kmeans::kmeans_transform, m)?)?;
    m.add_function(wrap_pyfunction!(kmeans::kmeans_inertia, m)?)?;
    m.add_function(wrap_pyfunction!(linear::linear_fit, m)?)?;
    m.add_function(wrap_pyfunction!(linear::linear_decide, m)?)?;
    m.add_function(wrap_pyfunction!(files::linear_save, m)?)?;
    m.add_function(wrap_pyfunction!(files::linear_load, m)?)?;
    m.add_function(wrap_pyfunction!(autoencoder::autoencoder_fit, m)?)?;
    m.add_function(wrap_pyfunction!(autoencoder::autoencoder_apply, m)?)?;
    m.add_function(wrap_pyfunction!(files::kmeans_save, m)?)?;
    m.add_function(wrap_pyfunction!(files::kmeans_load, m)?)?;
    m.add_function(wrap_pyfunction!(files::autoencoder_save, m)?)?;
    m.add_function(wrap_pyfunction!(files::autoencoder_load, m)?)
}
