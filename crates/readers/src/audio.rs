//! Folders of WAV files, cut into frames of samples or their spectra.
//!
//! A window of a given length moves over a file by a given step; each position gives a row. Channels are averaged into one, and
//! samples are scaled to -1 to 1. An incomplete last window is ignored.

use crate::ReadError;
use crate::Real;
use crate::folder::{self, FolderFiles};
use crate::fourier::Fourier;
use crate::settings::{Settings, settings};
use qjam::source::kept::{Keep, RowsWriter};
use qjam::{DataSet, Dense};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

/// Maximum length of the window in samples.
const WINDOW_MAX: usize = 1 << 20;

/// Number of values written at a time.
const BATCH_VALUES: usize = 1 << 17;

/// The content of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spectrum {
    /// The magnitude of each frequency.
    Magnitude,
    /// The square of the magnitude.
    Power,
    /// The natural logarithm of the power, but at least that of 1e-10.
    LogPower,
}

/// Reads the WAV files in a folder and its subfolders, in the order of their paths.
///
/// ```no_run
/// use qjam_readers::{Audio, Spectrum};
/// let pieces = Audio::new("birds/").frames(1024, 512).read::<f32>()?;
/// let spectra = Audio::new("birds/").spectrogram(1024, 512, Spectrum::LogPower).read::<f32>()?;
/// # Ok::<(), qjam_readers::ReadError>(())
/// ```
pub struct Audio {
    folder: PathBuf,
    window: usize,
    step: usize,
    spectrum: Option<Spectrum>,
    pub(crate) settings: Settings,
}

settings!(Audio);

/// Sounds that were read.
#[derive(Clone, Debug)]
pub struct Sounds<T: Real> {
    /// One frame per row: its samples, or its spectrum of half as many frequencies plus one.
    pub data: DataSet<Dense<T>>,
    /// Samples per second, the same in all files.
    pub rate: u32,
    /// The paths of the files relative to the folder, in order.
    pub files: Vec<String>,
    /// The number of rows of each file.
    pub rows: Vec<u64>,
}

#[derive(Clone, Serialize, Deserialize)]
struct Notes {
    rate: u32,
    files: Vec<String>,
    rows: Vec<u64>,
}

impl Notes {
    fn with<T: Real>(self, data: DataSet<Dense<T>>) -> Sounds<T> {
        let Notes { rate, files, rows } = self;
        Sounds { data, rate, files, rows }
    }
}

impl<T: Real> Sounds<T> {
    /// The folders as classes, and the class of each row: files in `larks/` have the class `larks`. Files that are in no subfolder
    /// have the class with the empty name.
    pub fn classes(&self) -> (Vec<String>, Vec<usize>) {
        folder::classes(&self.files, &self.rows)
    }
}

impl Audio {
    /// The folder. By default the window has 1024 samples and moves by 512.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Audio {
            folder: folder.into(),
            window: 1024,
            step: 512,
            spectrum: None,
            settings: Settings::default(),
        }
    }

    /// Reads the samples of a window of this length, every `step` samples.
    #[must_use]
    pub fn frames(mut self, window: usize, step: usize) -> Self {
        (self.window, self.step, self.spectrum) = (window, step, None);
        self
    }

    /// Reads the spectrum of such windows, weighted by a Hann window. The length must be a power of two.
    #[must_use]
    pub fn spectrogram(mut self, window: usize, step: usize, spectrum: Spectrum) -> Self {
        (self.window, self.step, self.spectrum) = (window, step, Some(spectrum));
        self
    }

    /// Reads the sounds.
    pub fn read<T: Real>(mut self) -> Result<Sounds<T>, ReadError> {
        let reason = if self.window == 0 || self.window > WINDOW_MAX || self.step == 0 {
            Some(format!("a window has 1 to {WINDOW_MAX} samples and moves by at least 1"))
        } else if self.spectrum.is_some() && (!self.window.is_power_of_two() || self.window < 2) {
            let near = self.window.next_power_of_two().max(2);
            Some(format!("for spectra the length of the window must be a power of two, for example {near}"))
        } else {
            None
        };
        if let Some(reason) = reason {
            return Err(ReadError::Options { path: self.folder, reason });
        }
        let found = folder::find(&self.folder, &folder::SOUNDS, "WAV files")?;
        let Audio { window, step, spectrum, .. } = self;
        let options = format!("audio {window} {step} {spectrum:?} {:?} {}", found.files, T::DTYPE);
        let likely = found.bytes.saturating_mul(2).saturating_mul((window / step.min(window)) as u64);
        let keep = self.settings.keep_as(&self.folder, &found.stamps, likely, &options)?;
        if let Some(path) = keep.path()
            && let Some((data, notes)) = DataSet::kept(&path)?
            && let Ok(notes) = postcard::from_bytes::<Notes>(&notes)
        {
            return Ok(notes.with(data));
        }
        self.convert(&found, &keep)
    }

    fn convert<T: Real>(&mut self, found: &FolderFiles, keep: &Keep) -> Result<Sounds<T>, ReadError> {
        let cols = if self.spectrum.is_some() { self.window / 2 + 1 } else { self.window };
        let mut writer = RowsWriter::<T>::create(keep, cols)?;
        let mut frames = Frames::new(self.window, self.spectrum);
        let (mut rate, mut rows, mut done) = (None, Vec::new(), 0);
        for (file, stamp) in found.files.iter().zip(&found.stamps) {
            let wrong = |reason: String| ReadError::Format { path: file.clone(), format: "WAV", reason };
            let reader = open(file)?;
            let spec = reader.spec();
            if spec.channels == 0 || spec.sample_rate == 0 {
                return Err(wrong("it has no channels, or a sample rate of 0".into()));
            }
            let first = *rate.get_or_insert(spec.sample_rate);
            if first != spec.sample_rate {
                return Err(wrong(format!(
                    "it has {} samples per second and the first file, {}, has {first}; convert it",
                    spec.sample_rate,
                    found.files[0].display()
                )));
            }
            let before = writer.rows();
            let mut batch: Vec<T> = Vec::new();
            let take = |sample: f64| -> Result<(), ReadError> {
                frames.take(sample, self.step, &mut batch);
                if batch.len() >= BATCH_VALUES {
                    writer.push(&batch)?;
                    batch.clear();
                }
                Ok(())
            };
            samples(reader, take, wrong)?;
            writer.push(&batch)?;
            frames.clear();
            rows.push(writer.rows() - before);
            done += stamp.bytes;
            self.settings.tell(done, found.bytes);
        }
        if writer.rows() == 0 {
            return Err(ReadError::Empty {
                path: self.folder.clone(),
                what: "WAV file as long as the window",
            });
        }
        let files = folder::names(&self.folder, &found.files);
        let notes = Notes { rate: rate.unwrap_or(0), files, rows };
        let data = writer.finish(postcard::to_stdvec(&notes).unwrap_or_default())?;
        Ok(notes.with(data))
    }
}

type Reader<R> = hound::WavReader<R>;

fn open(path: &Path) -> Result<Reader<BufReader<File>>, ReadError> {
    let file = File::open(path).map_err(|source| ReadError::Io { path: path.into(), source })?;
    hound::WavReader::new(BufReader::with_capacity(1 << 18, file)).map_err(|error| ReadError::Format {
        path: path.into(),
        format: "WAV",
        reason: error.to_string(),
    })
}

/// Calls `each` with the samples in order, averaged over the channels.
fn samples<R: Read>(
    mut reader: Reader<R>,
    mut take: impl FnMut(f64) -> Result<(), ReadError>,
    wrong: impl Fn(String) -> ReadError,
) -> Result<(), ReadError> {
    let spec = reader.spec();
    let channels = usize::from(spec.channels);
    let (mut sum, mut heard) = (0.0, 0);
    let mut one = |value: f64| -> Result<(), ReadError> {
        (sum, heard) = (sum + value, heard + 1);
        if heard == channels {
            take(sum / channels as f64)?;
            (sum, heard) = (0.0, 0);
        }
        Ok(())
    };
    match spec.sample_format {
        hound::SampleFormat::Float => {
            for sample in reader.samples::<f32>() {
                let sample = sample.map_err(|error| wrong(error.to_string()))?;
                if !sample.is_finite() {
                    return Err(wrong("a sample is not finite".into()));
                }
                one(sample.into())?;
            }
        }
        hound::SampleFormat::Int => {
            let scale = 1.0 / f64::from(2_u32.pow(u32::from(spec.bits_per_sample.clamp(1, 32)) - 1));
            for sample in reader.samples::<i32>() {
                one(f64::from(sample.map_err(|error| wrong(error.to_string()))?) * scale)?;
            }
        }
    }
    Ok(())
}

/// Decodes a file in memory; returns its number of samples. For the fuzz target.
#[doc(hidden)]
pub fn decode_for_fuzzing(bytes: &[u8]) -> Result<u64, String> {
    let wrong = |reason: String| ReadError::Format { path: PathBuf::new(), format: "WAV", reason };
    let reader = hound::WavReader::new(bytes).map_err(|error| error.to_string())?;
    if reader.spec().channels == 0 || reader.spec().sample_rate == 0 {
        return Err("it has no channels, or a sample rate of 0".into());
    }
    let mut count = 0;
    let take = |_| {
        count += 1;
        Ok(())
    };
    samples(reader, take, wrong).map_err(|error| error.to_string())?;
    Ok(count)
}

/// The moving window.
struct Frames {
    window: usize,
    /// The last samples, oldest first.
    held: Vec<f64>,
    /// Samples to skip before the next window, if the step is longer than the window.
    skip: usize,
    spectrum: Option<(Spectrum, Fourier, Vec<f64>)>,
}

impl Frames {
    fn new(window: usize, spectrum: Option<Spectrum>) -> Frames {
        let fade = |i: usize| 0.5 - 0.5 * (std::f64::consts::TAU * i as f64 / window as f64).cos();
        let spectrum =
            spectrum.map(|spectrum| (spectrum, Fourier::new(window), (0..window).map(fade).collect()));
        Frames { window, held: Vec::with_capacity(window), skip: 0, spectrum }
    }

    fn clear(&mut self) {
        self.held.clear();
        self.skip = 0;
    }

    /// Adds a sample; appends a row to `out` if the window is full.
    fn take<T: Real>(&mut self, sample: f64, step: usize, out: &mut Vec<T>) {
        if self.skip > 0 {
            self.skip -= 1;
            return;
        }
        self.held.push(sample);
        if self.held.len() < self.window {
            return;
        }
        match &mut self.spectrum {
            None => out.extend(self.held.iter().map(|sample| T::from_f64(*sample))),
            Some((spectrum, fourier, fade)) => {
                let scaled = |power: f64| match spectrum {
                    Spectrum::Magnitude => power.sqrt(),
                    Spectrum::Power => power,
                    Spectrum::LogPower => power.max(1e-10).ln(),
                };
                let faded = self.held.iter().zip(fade.iter()).map(|(sample, fade)| sample * fade);
                out.extend(fourier.power(faded).map(|power| T::from_f64(scaled(power))));
            }
        }
        self.held.drain(..step.min(self.window));
        self.skip = step.saturating_sub(self.window);
    }
}
