//! Truncated singular value decomposition.
//!
//! The components are eigenvectors of the products `XᵀX`, which are never centred, so that sparse rows stay sparse.
//!
//! ```text
//!   few columns:   one round ([`moments::covariances`]) ──▶ products of columns ──▶ eigenvectors
//!   many columns:  one round ([`moments::variances`]) ──▶ rounds of [`directions`](super::pca::directions) ──▶ eigenvectors among the directions
//! ```
//!
//! ```
//! use qjam::{DataSet, Master};
//! use qjam_algos::decomposition::svd::{Params, fit};
//!
//! let rows = DataSet::dense(vec![3.0, 4.0, 6.0, 8.0, 0.0, 0.0], 2)?;
//! let model = fit(&Master::connect("local:1")?, &Params::new(1), &rows, |_| {})?;
//! assert!((model.singular_values()[0] - 125_f64.sqrt()).abs() < 1e-12);
//! assert!((model.component(0)[0] - 0.6).abs() < 1e-12);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod learner;
pub mod model;
pub mod params;

pub use model::SvdModel;
pub use params::Params;

use super::pca::directions::{Directions, Images, images};
use super::pca::{among, sound};
use crate::clustering::kmeans::parts;
use crate::input::{InputError, Problem};
use crate::kernels::symmetric::{Eigen, orthonormalise};
use crate::kernels::vectors::{add_scaled, dot};
use crate::linear::rows::RowChunk;
use crate::moments::{Scatter, covariances, variances};
use qjam::{DataSet, Master, Rng};

/// What the command calls it.
const NAME: &str = "svd";

/// Fits a model. `tell` is called after each round with its number.
pub fn fit<C: RowChunk>(
    master: &Master,
    params: &Params,
    data: &DataSet<C>,
    mut tell: impl FnMut(u64),
) -> Result<SvdModel, InputError> {
    let columns = data.chunk(0).map_err(qjam::Error::from)?.width();
    if params.components > columns {
        let (asked, max) = (params.components as u64, columns as u64);
        return Err(Problem::ComponentsOfColumns { asked, max }.of(NAME));
    }
    let data = data.partitions(parts(data.records())).map_err(qjam::Error::from)?;
    match params.sums_products(columns) {
        true => by_products(master, params, &data, &mut tell),
        false => randomised(master, params, &data, &mut tell),
    }
}

/// All eigenvectors of the products of columns, which one round finds.
fn by_products<C: RowChunk>(
    master: &Master,
    params: &Params,
    data: &DataSet<C>,
    tell: &mut impl FnMut(u64),
) -> Result<SvdModel, InputError> {
    let scatter: Scatter = sound(master.run(covariances::<C>, &(), data)?, NAME)?;
    tell(1);
    let (rows, d) = (scatter.rows as f64, scatter.mean.len());
    let mean = &scatter.mean;
    // The mean of the columns is put back where it was taken off.
    let product = |at: usize| scatter.products[at] + rows * (mean[at / d] * mean[at % d]);
    let eigen = Eigen::of((0..d * d).map(product).collect(), d).ok_or_else(|| Problem::Overflow.of(NAME))?;
    let components = eigen.vectors()[..params.components * d].to_vec();
    let along = |component: &[f64]| {
        let products = scatter.products.chunks_exact(d).map(|line| dot(line, component));
        products.zip(component).map(|(product, share)| product * share).sum()
    };
    let spread: Vec<f64> = components.chunks_exact(d).map(along).collect();
    Ok(SvdModel::new(components, &eigen.values[..params.components], &spread, &scatter))
}

/// Turns random directions into the first components by rounds over the rows.
fn randomised<C: RowChunk>(
    master: &Master,
    params: &Params,
    data: &DataSet<C>,
    tell: &mut impl FnMut(u64),
) -> Result<SvdModel, InputError> {
    let scatter: Scatter = sound(master.run(variances::<C>, &(), data)?, NAME)?;
    tell(1);
    let d = scatter.mean.len();
    let width = params.components.saturating_add(params.oversamples).min(d);
    let mut random = Rng::keyed(params.seed, 0, 0);
    let mut q: Vec<f64> = (0..width * d).map(|_| random.normal()).collect();
    orthonormalise(&mut q, d);
    for round in 0.. {
        let is_last = round > params.power_rounds;
        // The last images are those of deviations, of which variances along components keep their digits.
        let mean = if is_last { scatter.mean.clone() } else { vec![0.0; d] };
        let found: Images = master.run(images::<C>, &Directions::new(mean, &q), data)?;
        tell(round + 2);
        let mut turned = found.rows(width);
        if !is_last {
            q = turned;
            orthonormalise(&mut q, d);
            continue;
        }
        let centred = turned.clone();
        for (image, direction) in turned.chunks_exact_mut(d).zip(q.chunks_exact(d)) {
            add_scaled(image, scatter.rows as f64 * dot(&scatter.mean, direction), &scatter.mean);
        }
        let (values, vectors) = among(&q, &turned, d).ok_or_else(|| Problem::Overflow.of(NAME))?;
        let components = vectors[..params.components * d].to_vec();
        // A component's image is made up of the directions' as the component is of them.
        let along = |component: &[f64]| {
            let mut image = vec![0.0; d];
            for (direction, centred) in q.chunks_exact(d).zip(centred.chunks_exact(d)) {
                add_scaled(&mut image, dot(component, direction), centred);
            }
            dot(component, &image)
        };
        let spread: Vec<f64> = components.chunks_exact(d).map(along).collect();
        return Ok(SvdModel::new(components, &values[..params.components], &spread, &scatter));
    }
    unreachable!("the last round returns")
}

#[cfg(test)]
mod tests {
    use super::*;
    use qjam::Csr;

    #[test]
    fn products_and_directions_of_dense_and_sparse_rows_lead_to_the_same_components() {
        let (rows, columns) = (60, 30);
        let mut random = Rng::keyed(2, 0, 0);
        let parts: Vec<f64> = (0..4 * columns).map(|_| random.normal()).collect();
        let mut values = vec![];
        for _ in 0..rows {
            let shares = [30.0, 12.0, 5.0, 2.0].map(|size| size * random.normal());
            let share = |j: usize| -> f64 { (0..4).map(|p| shares[p] * parts[p * columns + j]).sum() };
            values.extend((0..columns).map(|j| if j % 3 == 0 { 0.0 } else { share(j) + 1.0 }));
        }
        let starts = (0..=rows).map(|row| (row * columns) as u64).collect();
        let indices = (0..rows * columns).map(|at| (at % columns) as u32).collect();
        let sparse = Csr::from_vecs(starts, indices, values.clone(), columns, None).unwrap();
        let (dense, sparse) = (DataSet::dense(values, columns).unwrap(), DataSet::csr(&sparse).unwrap());
        let master = Master::builder().no_run_file().connect("local:2").unwrap();
        let exact = Params { by_products: true, ..Params::new(3) };
        let expected = fit(&master, &exact, &dense, |_| {}).unwrap();
        let few = Params { power_rounds: 8, oversamples: 1, ..Params::new(3) };
        let mut told = vec![];
        let found = [
            fit(&master, &exact, &sparse, |_| {}).unwrap(),
            randomised(&master, &few, &dense, &mut |round| told.push(round)).unwrap(),
            randomised(&master, &few, &sparse, &mut |_| {}).unwrap(),
        ];
        assert_eq!(told, (1..=11).collect::<Vec<u64>>());
        for model in found {
            for i in 0..3 {
                let sizes = (model.singular_values()[i], expected.singular_values()[i]);
                assert!((sizes.0 - sizes.1).abs() < 1e-9 * sizes.1, "{sizes:?}");
                assert!((model.ratios()[i] - expected.ratios()[i]).abs() < 1e-9);
                for (a, b) in model.component(i).iter().zip(expected.component(i)) {
                    assert!((a - b).abs() < 1e-7, "{a} {b}");
                }
            }
        }
    }

    #[test]
    fn variances_along_components_keep_their_digits_beside_large_means() {
        let (rows, columns) = (200, 12);
        let mut random = Rng::keyed(6, 0, 0);
        let values: Vec<f64> = (0..rows * columns).map(|_| 1e5 + random.normal()).collect();
        let data = DataSet::dense(values.clone(), columns).unwrap();
        let master = Master::builder().no_run_file().connect("local:2").unwrap();
        for by_products in [true, false] {
            let params = Params { by_products, power_rounds: 4, ..Params::new(3) };
            let model = match by_products {
                true => fit(&master, &params, &data, |_| {}).unwrap(),
                false => randomised(&master, &params, &data, &mut |_| {}).unwrap(),
            };
            let mean: Vec<f64> = (0..columns)
                .map(|j| values.chunks(columns).map(|row| row[j]).sum::<f64>() / rows as f64)
                .collect();
            let deviations = |j: usize| {
                values.chunks(columns).map(move |row| row[j]).map({
                    let mean = mean[j];
                    move |value| (value - mean).powi(2)
                })
            };
            let total: f64 = (0..columns).map(|j| deviations(j).sum::<f64>()).sum();
            for i in 0..3 {
                let along = |row: &[f64]| -> f64 {
                    (0..columns).map(|j| model.component(i)[j] * (row[j] - mean[j])).sum()
                };
                let expected = values.chunks(columns).map(|row| along(row).powi(2)).sum::<f64>() / total;
                let found = model.ratios()[i];
                assert!((found - expected).abs() < 1e-6 * expected, "{by_products} {i}: {found} {expected}");
            }
        }
    }
}
