//! Learners that find directions in which rows vary.

pub mod ica;
pub mod pca;
pub mod svd;

/// Turns a direction so that its entry of largest size is positive.
pub(crate) fn point_up(direction: &mut [f64]) {
    let largest =
        direction.iter().fold(0.0_f64, |best, value| if value.abs() > best.abs() { *value } else { best });
    if largest < 0.0 {
        direction.iter_mut().for_each(|value| *value = -*value);
    }
}
