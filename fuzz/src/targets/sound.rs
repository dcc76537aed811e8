//! Sounds: any bytes as a WAV file.

use super::bounded;
use qjam_readers::audio::decode_for_fuzzing;

const FACTOR: usize = 16;
const SLACK_BYTES: usize = 64 << 10;

/// Tries an input.
pub fn target(input: &[u8]) {
    match bounded(FACTOR * input.len() + SLACK_BYTES, || decode_for_fuzzing(input)) {
        Ok(samples) => assert!(samples <= input.len() as u64),
        Err(message) => assert!(!message.is_empty()),
    }
}

/// Inputs to begin from.
pub fn seeds() -> Vec<Vec<u8>> {
    let of = |bits_per_sample: u16, sample_format: hound::SampleFormat| {
        let spec = hound::WavSpec { channels: 2, sample_rate: 8000, bits_per_sample, sample_format };
        let mut bytes = std::io::Cursor::new(Vec::new());
        let mut writer = hound::WavWriter::new(&mut bytes, spec).expect("a sound");
        for n in 0..8_i8 {
            match sample_format {
                hound::SampleFormat::Float => writer.write_sample(f32::from(n) / 8.0),
                hound::SampleFormat::Int => writer.write_sample(n),
            }
            .expect("a sample");
        }
        writer.finalize().expect("the sound ends");
        bytes.into_inner()
    };
    vec![
        of(16, hound::SampleFormat::Int),
        of(8, hound::SampleFormat::Int),
        of(32, hound::SampleFormat::Float),
    ]
}
