//! Folders of pictures and of sounds.
#![cfg(all(feature = "audio", feature = "images"))]
#![allow(clippy::unwrap_used, reason = "a test says what went wrong by panicking")]

use crate::common::{Folder, Rng};
use qjam_readers::{Audio, Images, Spectrum};

fn png(width: u32, height: u32, colour: png::ColorType, pixels: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, width, height);
    encoder.set_color(colour);
    encoder.write_header().unwrap().write_image_data(pixels).unwrap();
    bytes
}

/// A grey JPEG of 8 × 8 pixels, all of the same brightness: a table of ones, codes for one difference and the end of
/// the block, and 12 bits of content.
fn jpeg(brightness: u8) -> Vec<u8> {
    let mut bytes = vec![0xff, 0xd8, 0xff, 0xdb, 0, 67, 0];
    bytes.extend([1; 64]);
    bytes.extend([0xff, 0xc0, 0, 11, 8, 0, 8, 0, 8, 1, 1, 0x11, 0]);
    // Differences have one code, 0: eleven bits follow. Others have one code too, 0: the end.
    for class in [0x00, 0x10] {
        bytes.extend([0xff, 0xc4, 0, 20, class, 1]);
        bytes.extend([0; 15]);
        bytes.push(if class == 0 { 11 } else { 0 });
    }
    bytes.extend([0xff, 0xda, 0, 8, 1, 1, 0, 0, 63, 0]);
    // Eight times what the pixels are above the middle, as a number of eleven bits: those below zero are one less.
    let difference = (i32::from(brightness) - 128) * 8;
    assert!(difference.abs() >= 1024 || difference == 1016 || difference <= -1024);
    let code = if difference < 0 { difference + 2047 } else { difference } as u32;
    let content = code << 4 | 0b0111;
    bytes.extend([(content >> 8) as u8, content as u8]);
    bytes.extend([0xff, 0xd9]);
    bytes
}

#[test]
fn pictures_are_read_whole_grey_and_in_patches() {
    let folder = Folder::new();
    let colours: Vec<u8> = (0..4 * 3 * 3).map(|i| i as u8 * 5).collect();
    folder.file("b/two.png", png(4, 3, png::ColorType::Rgb, &colours));
    folder.file("a/one.PNG", png(4, 3, png::ColorType::Grayscale, &[7; 12]));
    folder.file("notes.txt", "no picture");
    let whole = Images::new(folder.path()).read::<u8>().unwrap();
    assert_eq!(whole.files, ["a/one.PNG", "b/two.png"]);
    assert_eq!((whole.width, whole.height, whole.channels), (4, 3, 3));
    assert_eq!(whole.data.chunk(0).unwrap().row(0), [7; 36]);
    assert_eq!(whole.data.chunk(0).unwrap().row(1), colours);
    let grey = Images::new(folder.path()).grey().read::<f64>().unwrap();
    assert_eq!(grey.data.chunk(0).unwrap().cols(), 12);
    assert_eq!(grey.data.chunk(0).unwrap().row(0)[3], 7.0 / 255.0);
    assert_eq!(grey.data.chunk(0).unwrap().row(1)[0], f64::from((5 * 587 + 10 * 114 + 500) / 1000) / 255.0);
    let patches = Images::new(folder.path()).patches(2, 2).read::<u8>().unwrap();
    assert_eq!((patches.data.records(), &patches.rows[..]), (4, &[2, 2][..]));
    let (classes, of_rows) = whole.classes();
    assert_eq!((&classes[..], &of_rows[..]), (&["a".to_owned(), "b".into()][..], &[0, 1][..]));
    assert_eq!(patches.classes().1, [0, 0, 1, 1]);
    let half = Images::new(folder.path()).size(2, 3).read::<u8>().unwrap();
    assert_eq!((half.width, half.height, half.data.chunk(0).unwrap().row(0)), (2, 3, &[7; 18][..]));
    // Two neighbours become their mean, halves rounded up.
    let mean = |i: usize| ((u16::from(colours[i]) + u16::from(colours[i + 3])).div_ceil(2)) as u8;
    assert_eq!(half.data.chunk(0).unwrap().row(1)[..6], [0, 1, 2, 6, 7, 8].map(mean));
    assert!(Images::new(folder.path()).size(0, 3).read::<u8>().is_err());
    let second = patches.data.chunk(0).unwrap().row(3).to_vec();
    assert_eq!(second, [&colours[6..12], &colours[18..24]].concat());
    let kept = || Images::new(folder.path()).keep_in(folder.path().join("kept")).read::<u8>().unwrap();
    assert_eq!(kept().data.id(), whole.data.id());
    assert_eq!(kept().files, whole.files);
}

#[test]
fn pictures_that_do_not_fit_are_named() {
    let folder = Folder::new();
    let read = |images: Images| images.read::<u8>().unwrap_err().to_string();
    let message = read(Images::new(folder.path()));
    assert!(message.contains("has no PNG or JPEG files"), "{message}");
    folder.file("a.png", png(4, 3, png::ColorType::Grayscale, &[7; 12]));
    folder.file("b.png", png(3, 4, png::ColorType::Grayscale, &[7; 12]));
    let message = read(Images::new(folder.path()));
    assert!(message.contains("b.png") && message.contains("3 × 4 pixels and the first"), "{message}");
    let message = read(Images::new(folder.path()).patches(4, 1));
    assert!(message.contains("smaller than the patches of 4"), "{message}");
    assert!(read(Images::new(folder.path()).patches(0, 1)).contains("side of 1 to"));
    folder.file("b.png", "hello");
    assert!(read(Images::new(folder.path())).contains("b.png is not a readable PNG or JPEG file"));
}

#[test]
fn damaged_pictures_never_panic() {
    let mut rng = Rng(2);
    let pixels: Vec<u8> = (0..40 * 30).map(|_| rng.next() as u8).collect();
    for whole in [png(40, 30, png::ColorType::Grayscale, &pixels), jpeg(0)] {
        for round in 0..150 {
            let folder = Folder::new();
            let mut bytes = whole.clone();
            if round % 2 == 0 {
                bytes.truncate(rng.below(bytes.len()));
            } else {
                let at = rng.below(bytes.len());
                bytes[at] ^= 1 << rng.below(8);
            }
            folder.file("x.png", &bytes);
            let _ = Images::new(folder.path()).threads(1).read::<u8>();
        }
    }
}

#[test]
fn jpeg_pictures_are_read() {
    let folder = Folder::new();
    folder.file("black.jpg", jpeg(0));
    let black = Images::new(folder.path()).grey().read::<u8>().unwrap();
    assert_eq!((black.width, black.height), (8, 8));
    assert!(black.data.chunk(0).unwrap().as_slice().iter().all(|pixel| *pixel < 3));
}

fn wav(folder: &Folder, name: &str, rate: u32, channels: u16, samples: &[i16]) {
    let spec = hound::WavSpec {
        channels,
        sample_rate: rate,
        bits_per_sample: 16,
        sample_format: hound::SampleFormat::Int,
    };
    let mut writer = hound::WavWriter::create(folder.path().join(name), spec).unwrap();
    samples.iter().for_each(|sample| writer.write_sample(*sample).unwrap());
    writer.finalize().unwrap();
}

#[test]
fn sounds_are_read_in_frames_and_as_spectra() {
    let folder = Folder::new();
    wav(&folder, "a.wav", 8000, 1, &(0..10).map(|i| i * 1000).collect::<Vec<_>>());
    wav(&folder, "b.wav", 8000, 2, &[100, 300, -100, -300, 0, 0, 50, 50]);
    let frames = Audio::new(folder.path()).frames(4, 3).read::<f64>().unwrap();
    assert_eq!(
        (frames.rate, &frames.files[..], &frames.rows[..]),
        (8000, &["a.wav".into(), "b.wav".into()][..], &[3, 1][..])
    );
    let rows = frames.data.chunk(0).unwrap();
    assert_eq!(rows.row(1), [3000, 4000, 5000, 6000].map(|s| f64::from(s) / 32768.0));
    assert_eq!(rows.row(3), [200, -200, 0, 50].map(|s| f64::from(s) / 32768.0));
    let apart = Audio::new(folder.path()).frames(2, 5).read::<f64>().unwrap();
    assert_eq!(apart.data.chunk(0).unwrap().row(1), [5000, 6000].map(|s| f64::from(s) / 32768.0));

    let tone = Folder::new();
    let wave = |i: usize| (f64::sin(std::f64::consts::TAU * 8.0 * i as f64 / 64.0) * 16000.0) as i16;
    wav(&tone, "tone.wav", 8000, 1, &(0..640).map(wave).collect::<Vec<_>>());
    for spectrum in [Spectrum::Magnitude, Spectrum::Power, Spectrum::LogPower] {
        let spectra = Audio::new(tone.path()).spectrogram(64, 32, spectrum).read::<f32>().unwrap();
        let chunk = spectra.data.chunk(0).unwrap();
        assert_eq!((chunk.rows(), chunk.cols()), (19, 33));
        let loudest = (0..33).max_by(|a, b| chunk.row(5)[*a].total_cmp(&chunk.row(5)[*b]));
        assert_eq!(loudest, Some(8));
    }
}

#[test]
fn sounds_that_do_not_fit_are_named_and_damaged_ones_never_panic() {
    let folder = Folder::new();
    let read = |audio: Audio| audio.read::<f32>().unwrap_err().to_string();
    assert!(read(Audio::new(folder.path())).contains("has no WAV files"));
    wav(&folder, "a.wav", 8000, 1, &[0; 100]);
    assert!(read(Audio::new(folder.path())).contains("no WAV file as long as the window"));
    assert!(read(Audio::new(folder.path()).spectrogram(100, 1, Spectrum::Power)).contains("for example 128"));
    assert!(read(Audio::new(folder.path()).frames(0, 1)).contains("moves by at least 1"));
    wav(&folder, "b.wav", 16000, 1, &[0; 100]);
    let message = read(Audio::new(folder.path()).frames(10, 10));
    assert!(message.contains("b.wav") && message.contains("16000 samples per second"), "{message}");
    let whole = std::fs::read(folder.path().join("a.wav")).unwrap();
    let mut rng = Rng(4);
    for round in 0..300 {
        let mut bytes = whole.clone();
        if round % 2 == 0 {
            bytes.truncate(rng.below(bytes.len()));
        } else {
            let at = rng.below(60);
            bytes[at] ^= 1 << rng.below(8);
        }
        folder.file("b.wav", &bytes);
        let _ = Audio::new(folder.path()).frames(10, 10).read::<f32>();
    }
}
