//! Images of overlapping discs, the *dead leaves* model of natural scenes.
//!
//! Discs of random place and brightness fall on each other, their radii drawn from a density that falls with the cube
//! of the radius. Such images share with photographs what matters to a learner of small patches: sharp edges between
//! flat regions, occlusion, and the same statistics at every scale. They are made from a seed, with integer random
//! numbers and square roots alone, so a seed means the same image everywhere.

use qjam::Rng;

/// Radius of the smallest disc in pixels. To a patch of 8 by 8 even its border is nearly a straight edge.
const RADIUS_MIN: f64 = 10.0;
/// Samples per pixel and direction, averaged at the end: edges get grey pixels, as through a lens.
const SAMPLES: usize = 2;

/// A square picture of brightness values, row by row.
#[derive(Clone, Debug, PartialEq)]
pub struct Image {
    /// Pixels along one side.
    pub side: usize,
    /// `side * side` values.
    pub pixels: Vec<f64>,
}

/// Draws an image; brightness is in `[0, 1)`.
pub fn image(side: usize, random: &mut Rng) -> Image {
    let fine = fallen_leaves(side * SAMPLES, RADIUS_MIN * SAMPLES as f64, random);
    let weight = 1.0 / (SAMPLES * SAMPLES) as f64;
    let mut pixels = vec![0.0; side * side];
    for (row, line) in fine.chunks_exact((side * SAMPLES).max(1)).enumerate() {
        for (col, samples) in line.chunks_exact(SAMPLES).enumerate() {
            pixels[row / SAMPLES * side + col] += weight * samples.iter().sum::<f64>();
        }
    }
    Image { side, pixels }
}

/// One brightness per sample. Leaves are laid from the top down, each under those before it, until nothing shows
/// through: so the image is a sample of the endless pile, and laying ends.
fn fallen_leaves(side: usize, radius_min: f64, random: &mut Rng) -> Vec<f64> {
    let radius_max = (side as f64 / 3.0).max(radius_min);
    let (near, far) = (radius_min.powi(-2), radius_max.powi(-2));
    let mut samples = vec![f64::NAN; side * side];
    // Uncovered samples per row: near the end almost every row is done and costs nothing more.
    let mut bare = vec![side; side];
    let mut bare_rows = side;
    while bare_rows > 0 {
        let radius = (far + random.uniform() * (near - far)).sqrt().recip();
        let reach = side as f64 + 2.0 * radius;
        let (x, y) = (random.uniform() * reach - radius, random.uniform() * reach - radius);
        let brightness = random.uniform();
        for row in bounds(y - radius, y + radius, side) {
            if bare[row] == 0 {
                continue;
            }
            let half = (radius * radius - (row as f64 - y).powi(2)).max(0.0).sqrt();
            for sample in &mut samples[row * side..][bounds(x - half, x + half, side)] {
                if sample.is_nan() {
                    *sample = brightness;
                    bare[row] -= 1;
                }
            }
            bare_rows -= usize::from(bare[row] == 0);
        }
    }
    samples
}

/// The whole numbers from `low` to `high` that are below `side`.
fn bounds(low: f64, high: f64, side: usize) -> std::ops::Range<usize> {
    let end = ((high.floor() + 1.0).max(0.0) as usize).min(side);
    (low.ceil().max(0.0) as usize).min(end)..end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_covered_and_has_many_shades() {
        let image = image(64, &mut Rng::keyed(1, 0, 0));
        assert_eq!(image.pixels.len(), 64 * 64);
        assert!(image.pixels.iter().all(|p| (0.0..1.0).contains(p)));
        let mut shades: Vec<u64> = image.pixels.iter().map(|p| p.to_bits()).collect();
        shades.sort_unstable();
        shades.dedup();
        assert!(shades.len() > 20, "{}", shades.len());
    }

    #[test]
    fn a_seed_means_the_same_image() {
        assert_eq!(image(32, &mut Rng::keyed(5, 0, 0)), image(32, &mut Rng::keyed(5, 0, 0)));
        assert_ne!(image(32, &mut Rng::keyed(5, 0, 0)), image(32, &mut Rng::keyed(6, 0, 0)));
    }

    #[test]
    fn an_image_without_pixels_is_empty() {
        assert!(image(0, &mut Rng::keyed(1, 0, 0)).pixels.is_empty());
    }
}
