//! The input weights of hidden units as pictures: a grid of tiles, one per unit.
//!
//! A unit answers most strongly to the input of its own weights' shape, so its weights, scaled to the largest, are
//! the feature it detects: 0 is middle grey, positive brighter, negative darker. The same grid comes as a PNG file,
//! as coloured half blocks for a terminal with 24-bit colour, and as plain characters for one without.

use std::fmt::Write as _;
use std::io;
use thiserror::Error;

/// Pixels of the file per weight.
const ZOOM: usize = 8;
/// Brightness of the lines between tiles.
const LINE: u8 = 32;
/// From dark to bright.
const RAMP: &[u8; 10] = b" .:-=+*#%@";

/// Why a picture could not be made.
#[derive(Debug, Error)]
pub enum FeatureError {
    /// The weights of a unit are no square.
    #[error(
        "features: {units} units from {values} weights are not {units} squares; give size * size weights per unit"
    )]
    NotSquare {
        /// Number of hidden units.
        units: usize,
        /// Number of weights.
        values: usize,
    },
    /// The encoder or its destination failed.
    #[error("features: writing the PNG failed: {0}")]
    Encode(#[from] png::EncodingError),
}

/// Tiles of grey values: one row of tiles after the other, with lines between and around them.
struct Grid {
    width: usize,
    height: usize,
    pixels: Vec<u8>,
}

/// Writes the first layer's weights (units × size², row-major) as a grey PNG.
pub fn png(weights: &[f64], units: usize, out: impl io::Write) -> Result<(), FeatureError> {
    let grid = grid(weights, units, ZOOM)?;
    let mut encoder = png::Encoder::new(out, grid.width as u32, grid.height as u32);
    encoder.set_color(png::ColorType::Grayscale);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(&grid.pixels)?;
    Ok(writer.finish()?)
}

/// The grid for a terminal with 24-bit colour: each character is two pixels, one above the other.
pub fn ansi(weights: &[f64], units: usize) -> Result<String, FeatureError> {
    let grid = grid(weights, units, 1)?;
    let mut text = String::new();
    for rows in grid.pixels.chunks(2 * grid.width) {
        let (upper, lower) = rows.split_at(grid.width);
        let mut colours = None;
        for (col, up) in upper.iter().enumerate() {
            let down = lower.get(col).copied().unwrap_or(LINE);
            // A colour lasts until the next one.
            if colours.replace((up, down)) != Some((up, down)) {
                let _ = write!(text, "\x1b[38;2;{up};{up};{up};48;2;{down};{down};{down}m");
            }
            text.push('▀');
        }
        text.push_str("\x1b[0m\n");
    }
    Ok(text)
}

/// The grid in plain characters, two per weight since characters are taller than wide.
pub fn ascii(weights: &[f64], units: usize) -> Result<String, FeatureError> {
    let grid = grid(weights, units, 1)?;
    let mut text = String::new();
    for row in grid.pixels.chunks(grid.width) {
        let mut line = String::new();
        for pixel in row {
            let place = usize::from(*pixel) * RAMP.len() / 256;
            let shade = char::from(RAMP[place]);
            line.push_str(&[shade, shade].iter().collect::<String>());
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    Ok(text)
}

/// Lays the tiles out as near to a square as their number allows.
fn grid(weights: &[f64], units: usize, zoom: usize) -> Result<Grid, FeatureError> {
    let error = || FeatureError::NotSquare { units, values: weights.len() };
    let size = weights.len().checked_div(units).ok_or_else(error)?.isqrt();
    if size == 0 || size * size * units != weights.len() {
        return Err(error());
    }
    let across = (units as f64).sqrt().ceil() as usize;
    let down = units.div_ceil(across);
    let (tile, line) = (size * zoom, zoom.div_ceil(4));
    let (width, height) = (across * (tile + line) + line, down * (tile + line) + line);
    let mut pixels = vec![LINE; width * height];
    for (unit, weights) in weights.chunks_exact(size * size).enumerate() {
        let (top, left) = (unit / across * (tile + line) + line, unit % across * (tile + line) + line);
        let max = weights.iter().fold(0.0, |max: f64, w| max.max(w.abs()));
        for row in 0..tile {
            for col in 0..tile {
                let weight = weights[row / zoom * size + col / zoom];
                pixels[(top + row) * width + left + col] = shade(weight, max);
            }
        }
    }
    Ok(Grid { width, height, pixels })
}

/// 0 is the middle; what is not a number is drawn like 0.
fn shade(weight: f64, max: f64) -> u8 {
    let ratio = weight / max;
    if ratio.is_nan() { 128 } else { (128.0 + 127.0 * ratio).round() as u8 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An edge from dark to bright.
    const EDGE: [f64; 4] = [-1.0, 1.0, -1.0, 1.0];

    #[test]
    fn plain_characters_show_an_edge() {
        assert_eq!(ascii(&EDGE, 1).unwrap(), "........\n..  @@..\n..  @@..\n........\n");
    }

    #[test]
    fn units_are_laid_out_near_to_a_square() {
        let text = ascii(&EDGE.repeat(5), 5).unwrap();
        // Three across, two down, with lines between; the sixth place stays empty.
        assert_eq!(text.lines().count(), 2 * 3 + 1);
        assert_eq!(text.lines().next().unwrap().len(), 2 * (3 * 3 + 1));
    }

    #[test]
    fn half_blocks_hold_two_rows_each_and_name_a_colour_once() {
        let text = ansi(&EDGE, 1).unwrap();
        let line = |down: u8| format!("\x1b[38;2;32;32;32;48;2;{down};{down};{down}m");
        assert_eq!(text.lines().count(), 2);
        let first = format!("{}▀{}▀{}▀{}▀\x1b[0m", line(32), line(1), line(255), line(32));
        assert_eq!(text.lines().next(), Some(first.as_str()));
        let gap = ansi(&[1.0; 4], 1).unwrap();
        assert_eq!(
            gap.lines().next(),
            Some(format!("{}▀{}▀▀{}▀\x1b[0m", line(32), line(255), line(32)).as_str())
        );
    }

    #[test]
    fn a_file_is_read_back_with_the_grids_size() {
        let mut file = Vec::new();
        png(&EDGE.repeat(30), 30, &mut file).unwrap();
        let reader = png::Decoder::new(io::Cursor::new(&file)).read_info().unwrap();
        assert_eq!((reader.info().width, reader.info().height), (6 * 18 + 2, 5 * 18 + 2));
    }

    #[test]
    fn weights_that_are_no_squares_are_refused() {
        for (values, units) in [(5, 1), (0, 1), (4, 0), (0, 0), (9, 2)] {
            assert!(
                matches!(ascii(&vec![1.0; values], units), Err(FeatureError::NotSquare { .. })),
                "{values} {units}"
            );
        }
    }

    #[test]
    fn weights_that_are_not_numbers_are_drawn_grey() {
        assert!(ascii(&[f64::NAN, 0.0, f64::INFINITY, 0.0], 1).is_ok());
        assert_eq!((shade(0.0, 0.0), shade(f64::NAN, 1.0), shade(-1.0, 1.0)), (128, 128, 1));
    }
}
