//! Pictures: any bytes as PNG or JPEG.
//!
//! Memory is bounded by the pixels that a picture may have, and those by a multiple of the input: deflate makes at most 1032 bytes of one,
//! each of which may be eight pixels of a palette, and a picture is in memory twice.

use super::bounded;
use qjam_readers::images::decode_for_fuzzing;

/// Bytes of memory for each byte of a picture, and what a decoder and its tables take.
const FACTOR: usize = 1032 * (8 * (4 + 3) + 1);
const SLACK_BYTES: usize = 4 << 20;

/// Tries an input.
pub fn target(input: &[u8]) {
    match bounded(FACTOR * input.len() + SLACK_BYTES, || decode_for_fuzzing(input)) {
        Ok(pixels) => assert!(pixels > 0),
        Err(message) => assert!(!message.is_empty()),
    }
}

/// A grey JPEG of 8 × 8 pixels.
fn jpeg() -> Vec<u8> {
    let mut bytes = vec![0xff, 0xd8, 0xff, 0xdb, 0, 67, 0];
    bytes.extend([1; 64]);
    bytes.extend([0xff, 0xc0, 0, 11, 8, 0, 8, 0, 8, 1, 1, 0x11, 0]);
    for class in [0x00, 0x10] {
        bytes.extend([0xff, 0xc4, 0, 20, class, 1]);
        bytes.extend([0; 15]);
        bytes.push(if class == 0 { 11 } else { 0 });
    }
    bytes.extend([0xff, 0xda, 0, 8, 1, 1, 0, 0, 63, 0, 0x3f, 0xf7, 0xff, 0xd9]);
    bytes
}

/// Inputs to begin from.
pub fn seeds() -> Vec<Vec<u8>> {
    let colours = [png::ColorType::Grayscale, png::ColorType::Rgb, png::ColorType::Rgba];
    let of_colour = |colour: png::ColorType| {
        let mut bytes = Vec::new();
        let mut encoder = png::Encoder::new(&mut bytes, 4, 3);
        encoder.set_color(colour);
        let pixels = vec![7; 12 * colour.samples()];
        encoder.write_header().and_then(|mut writer| writer.write_image_data(&pixels)).expect("a picture");
        bytes
    };
    colours.into_iter().map(of_colour).chain([jpeg()]).collect()
}
