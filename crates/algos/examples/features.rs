//! Learns features of image patches on one thread and draws them.
//!
//! `cargo run --release -p qjam-algos --example features -- [FILE.png]`

use qjam_algos::images::{features, patches};
use qjam_algos::kernels::Level;
use qjam_algos::neural::autoencoder::{ModelError, Params, Shape, fit_by, initial, sums_of_slice};
use std::error::Error;
use std::fs::File;

#[expect(clippy::print_stdout, reason = "the picture is what this program is for")]
fn main() -> Result<(), Box<dyn Error>> {
    let shape = Shape::default();
    let params = Params::for_pictures(shape);
    let rows = patches(10_000, 8, 1);
    let round = |theta: &[f64]| Ok::<_, ModelError>(sums_of_slice(Level::best(), shape, theta, &rows));
    let fit = fit_by(&params, initial(&shape, 1), round, |evaluation| {
        if evaluation.number % 10 == 0 {
            println!("evaluation {:>4}: cost {:.6}", evaluation.number, evaluation.value);
        }
    })?;
    println!("{}", features::ansi(fit.model.features(), shape.hidden())?);
    println!("cost {:.6}, {:?}", fit.minimum.value, fit.minimum.outcome);
    if let Some(path) = std::env::args().nth(1) {
        features::png(fit.model.features(), shape.hidden(), File::create(&path)?)?;
        println!("drawn to {path}");
    }
    Ok(())
}
