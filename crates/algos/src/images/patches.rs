//! Whitened patches: small squares from random places of random images.
//!
//! Neighbouring pixels of an image are nearly equal, so its coarse structure drowns the edges. Whitening evens that
//! out: the difference of a narrow and a wide blur lifts high frequencies in proportion and drops the finest, which
//! are noise. Each image is then scaled to variance 1, cut off at three standard deviations and brought into
//! `[-0.9, 0.9]`, inside what a tanh unit can reproduce.

use super::dead_leaves::{self, Image};
use qjam::Rng;
use std::convert::Infallible;

/// Images the patches come from.
const IMAGES: u32 = 10;
/// Pixels along a side of an image.
const SIDE: usize = 512;
/// Passes of the blur that removes what is finer than an edge; each adds half a pixel² of variance.
const NARROW_PASSES: usize = 1;
/// Passes of the blur that stands for the neighbourhood.
const WIDE_PASSES: usize = 4;
/// Values beyond this many standard deviations are cut off.
const DEVIATIONS_MAX: f64 = 3.0;
/// Largest value of a patch.
const VALUE_MAX: f64 = 0.9;

/// `count` patches of `size` by `size` pixels, one per row, row-major.
///
/// ```
/// let rows = qjam_algos::images::patches(100, 8, 1);
/// assert_eq!(rows.len(), 100 * 64);
/// ```
pub fn patches(count: usize, size: usize, seed: u64) -> Vec<f64> {
    patches_of(SIDE.max(size), count, size, seed)
}

/// The same patches, row by row, for more than one wants in memory; stops at the first error.
///
/// ```
/// let mut rows = Vec::new();
/// qjam_algos::images::each_patch(100, 8, 1, |row| Ok::<(), ()>(rows.extend_from_slice(row))).unwrap();
/// assert_eq!(rows, qjam_algos::images::patches(100, 8, 1));
/// ```
pub fn each_patch<E>(
    count: usize,
    size: usize,
    seed: u64,
    each: impl FnMut(&[f64]) -> Result<(), E>,
) -> Result<(), E> {
    each_patch_of(SIDE.max(size), count, size, seed, each)
}

fn patches_of(side: usize, count: usize, size: usize, seed: u64) -> Vec<f64> {
    let mut values = Vec::with_capacity(count * size * size);
    let Ok(()) = each_patch_of(side, count, size, seed, |patch| {
        values.extend_from_slice(patch);
        Ok::<(), Infallible>(())
    });
    values
}

fn each_patch_of<E>(
    side: usize,
    count: usize,
    size: usize,
    seed: u64,
    mut each: impl FnMut(&[f64]) -> Result<(), E>,
) -> Result<(), E> {
    if count == 0 || size == 0 {
        return Ok(());
    }
    // Each image and the choice of places have streams of their own, so asking for more changes none of them.
    let images: Vec<Image> =
        (0..IMAGES).map(|i| whitened(dead_leaves::image(side, &mut Rng::keyed(seed, 1, i)))).collect();
    let mut random = Rng::keyed(seed, 2, 0);
    let mut below = |bound: usize| random.below(bound as u64) as usize;
    let mut patch = Vec::with_capacity(size * size);
    for _ in 0..count {
        let image = &images[below(images.len())];
        let (top, left) = (below(side - size + 1), below(side - size + 1));
        patch.clear();
        for row in top..top + size {
            patch.extend_from_slice(&image.pixels[row * side + left..][..size]);
        }
        each(&patch)?;
    }
    Ok(())
}

/// The image with its frequencies evened out and its values brought into `[-0.9, 0.9]`.
pub fn whitened(image: Image) -> Image {
    let side = image.side;
    let narrow = blur(image.pixels.clone(), side, NARROW_PASSES);
    let wide = blur(image.pixels, side, WIDE_PASSES);
    let mut pixels: Vec<f64> = narrow.iter().zip(&wide).map(|(narrow, wide)| narrow - wide).collect();
    let count = pixels.len().max(1) as f64;
    let mean = pixels.iter().sum::<f64>() / count;
    let variance = pixels.iter().map(|p| (p - mean) * (p - mean)).sum::<f64>() / count;
    // An image of one colour stays 0.
    let scale = if variance > 0.0 { variance.sqrt().recip() } else { 0.0 };
    for pixel in &mut pixels {
        let deviations = ((*pixel - mean) * scale).clamp(-DEVIATIONS_MAX, DEVIATIONS_MAX);
        *pixel = deviations / DEVIATIONS_MAX * VALUE_MAX;
    }
    Image { side, pixels }
}

/// Repeated averaging with weights 1/4, 1/2, 1/4 in both directions: near a Gaussian, and every weight is exact.
fn blur(mut pixels: Vec<f64>, side: usize, passes: usize) -> Vec<f64> {
    let mut next = vec![0.0; pixels.len()];
    for _ in 0..passes {
        for (from, to) in pixels.chunks_exact(side).zip(next.chunks_exact_mut(side)) {
            for i in 0..side {
                // The border repeats its last pixel.
                let (left, right) = (from[i.saturating_sub(1)], from[(i + 1).min(side - 1)]);
                to[i] = 0.5 * from[i] + 0.25 * (left + right);
            }
        }
        for row in 0..side {
            let at = |row: usize| &next[row * side..][..side];
            let (above, below) = (at(row.saturating_sub(1)), at((row + 1).min(side - 1)));
            let lines = at(row).iter().zip(above.iter().zip(below));
            for (to, (here, (above, below))) in pixels[row * side..][..side].iter_mut().zip(lines) {
                *to = 0.5 * here + 0.25 * (above + below);
            }
        }
    }
    pixels
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patches_fill_the_range_and_have_no_mean() {
        let values = patches_of(64, 2000, 8, 1);
        assert_eq!(values.len(), 2000 * 64);
        assert!(values.iter().all(|v| v.abs() <= VALUE_MAX));
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let deviation = (values.iter().map(|v| v * v).sum::<f64>() / values.len() as f64).sqrt();
        assert!(mean.abs() < 0.02, "{mean}");
        assert!((0.15..0.35).contains(&deviation), "{deviation}");
    }

    #[test]
    fn a_seed_means_the_same_patches() {
        assert_eq!(patches_of(32, 5, 8, 3), patches_of(32, 5, 8, 3));
        assert_ne!(patches_of(32, 5, 8, 3), patches_of(32, 5, 8, 4));
    }

    #[test]
    fn nothing_asked_is_nothing_given() {
        assert!(patches(0, 8, 1).is_empty());
        assert!(patches(8, 0, 1).is_empty());
    }

    #[test]
    fn a_patch_as_large_as_an_image_is_the_image() {
        let images: Vec<Image> =
            (0..IMAGES).map(|i| whitened(dead_leaves::image(16, &mut Rng::keyed(1, 1, i)))).collect();
        let patch = patches_of(16, 1, 16, 1);
        assert!(images.iter().any(|image| image.pixels == patch));
    }

    #[test]
    fn a_blur_keeps_a_flat_image_and_whitening_makes_it_zero() {
        let flat = Image { side: 6, pixels: vec![0.25; 36] };
        assert_eq!(blur(flat.pixels.clone(), 6, 5), flat.pixels);
        assert!(whitened(flat).pixels.iter().all(|p| *p == 0.0));
    }
}
