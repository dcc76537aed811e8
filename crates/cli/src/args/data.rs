//! Arguments of every command that reads data: which file, and how to read it.
//!
//! Comes in: what the user typed, parsed by clap. Goes out: [`OpenOptions`] for `qjam-readers`. Opens no file.

use clap::{Args, ValueEnum};
use qjam_readers::{Dtype, Header, Kind, Labels, Missing, OpenOptions, Spectrum};
use std::path::PathBuf;

/// The data file and how to read it.
#[derive(Debug, Args)]
pub(crate) struct Data {
    /// The rows: an .npy, .npz, CSV, Parquet, LIBSVM or IDX file, optionally compressed by gzip or zstd; or a folder of PNG,
    /// JPEG or WAV files. The kind is detected from the content
    #[arg(value_name = "DATA")]
    pub(crate) path: PathBuf,
    /// Read DATA as this kind of file instead of detecting it
    #[arg(long, value_name = "KIND", value_parser = kind, help_heading = READING)]
    kind: Option<Kind>,
    /// Columns of a table to read, in this order: names separated by commas
    #[arg(long, value_name = "NAMES", value_delimiter = ',', help_heading = READING)]
    columns: Option<Vec<String>>,
    /// Columns of a table to leave out
    #[arg(long, value_name = "NAMES", value_delimiter = ',', help_heading = READING)]
    without: Vec<String>,
    /// Column of a table with the target; unsupervised learners leave it out
    #[arg(long, value_name = "NAME", help_heading = READING)]
    target: Option<String>,
    /// What to do about a missing value (an empty field, NA, NaN, null): `error`, `drop` the row, use the column's `mean`, or
    /// use this number
    #[arg(long, value_name = "WHAT", default_value = "error", value_parser = missing, help_heading = READING)]
    missing: Missing,
    /// Whether the first line of a CSV file contains column names
    #[arg(long, value_enum, default_value_t = HeaderArg::Auto, help_heading = READING)]
    header: HeaderArg,
    /// Field separator of a CSV file: one character, or `tab`
    #[arg(long, value_name = "CHAR", value_parser = character, help_heading = READING)]
    delimiter: Option<u8>,
    /// Skip lines of a CSV file that start with this character
    #[arg(long, value_name = "CHAR", value_parser = character, help_heading = READING)]
    comment: Option<u8>,
    /// Indices in the LIBSVM file start at 0
    #[arg(long, help_heading = READING)]
    zero_based: bool,
    /// Number of columns of a LIBSVM file, if larger than its largest index. Of other files, confirms up to so many columns
    #[arg(long, value_name = "N", help_heading = READING)]
    features: Option<usize>,
    /// Name of the array to read from an .npz file
    #[arg(long, value_name = "NAME", help_heading = READING)]
    array: Option<String>,
    /// Type of the numbers in memory; by default that of the file, and f64 for text files
    #[arg(long, value_enum, help_heading = READING)]
    dtype: Option<DtypeArg>,
    /// Convert pictures to greyscale
    #[arg(long, help_heading = READING)]
    grey: bool,
    /// Resize pictures to this size, as in 32x32
    #[arg(long, value_name = "WxH", value_parser = size, help_heading = READING)]
    size: Option<(usize, usize)>,
    /// Cut pictures into square patches: side and step in pixels, as in 8,4
    #[arg(long, value_name = "SIDE[,STEP]", value_parser = pair, help_heading = READING)]
    patches: Option<(usize, usize)>,
    /// Cut sounds into frames: length and step in samples, as in 1024,512
    #[arg(long, value_name = "WINDOW[,STEP]", value_parser = pair, help_heading = READING)]
    frames: Option<(usize, usize)>,
    /// Use the spectrum of each frame instead of its samples
    #[arg(long, value_enum, help_heading = READING)]
    spectrum: Option<SpectrumArg>,
    /// Folder for converted copies of large files, which later runs reuse; by default in the cache folder
    #[arg(long, value_name = "FOLDER", help_heading = READING)]
    keep_in: Option<PathBuf>,
}

const READING: &str = "Reading DATA";

#[derive(Clone, Copy, Debug, ValueEnum)]
enum HeaderArg {
    /// Yes, unless all fields of the first line are numbers
    Auto,
    Yes,
    No,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum DtypeArg {
    F32,
    F64,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum SpectrumArg {
    /// The magnitude of each frequency
    Magnitude,
    /// The square of the magnitude
    Power,
    /// The logarithm of the power
    LogPower,
}

impl Data {
    /// The options for `qjam_readers::open`. If `weights` names a column, it becomes the last one.
    pub(crate) fn options(&self, weights: Option<&str>) -> OpenOptions {
        let (target, labels) = match weights {
            Some(weights) => (Some(weights.into()), Labels::Last),
            None => (self.target.clone(), Labels::Out),
        };
        let mut without = self.without.clone();
        without.extend(weights.and(self.target.clone()));
        OpenOptions {
            kind: self.kind,
            dtype: self.dtype.map(|dtype| match dtype {
                DtypeArg::F32 => Dtype::F32,
                DtypeArg::F64 => Dtype::F64,
            }),
            columns: self.columns.clone(),
            without,
            target,
            labels,
            missing: self.missing,
            header: match self.header {
                HeaderArg::Auto => Header::Auto,
                HeaderArg::Yes => Header::Yes,
                HeaderArg::No => Header::No,
            },
            delimiter: self.delimiter,
            comment: self.comment,
            zero_based: self.zero_based,
            features: self.features,
            array: self.array.clone(),
            grey: self.grey,
            size: self.size,
            patches: self.patches,
            frames: self.frames,
            spectrum: self.spectrum.map(|spectrum| match spectrum {
                SpectrumArg::Magnitude => Spectrum::Magnitude,
                SpectrumArg::Power => Spectrum::Power,
                SpectrumArg::LogPower => Spectrum::LogPower,
            }),
            keep_in: self.keep_in.clone(),
            ..OpenOptions::default()
        }
    }

    /// The reading options that `qjam predict` needs for files of the same format. Columns are left out: the model knows
    /// their names.
    pub(crate) fn typed(&self) -> String {
        let mut words = Vec::new();
        let mut word = |text: String| words.push(text);
        let character =
            |byte: u8| if byte == b'\t' { "tab".into() } else { format!("'{}'", char::from(byte)) };
        let name = |value: &dyn ValueName| value.name();
        self.kind.iter().for_each(|kind| word(format!("--kind {}", kind.name())));
        match self.missing {
            Missing::Error => {}
            Missing::DropRow => word("--missing drop".into()),
            Missing::Mean => word("--missing mean".into()),
            Missing::Value(number) => word(format!("--missing {number}")),
        }
        if !matches!(self.header, HeaderArg::Auto) {
            word(format!("--header {}", name(&self.header)));
        }
        self.delimiter.iter().for_each(|byte| word(format!("--delimiter {}", character(*byte))));
        self.comment.iter().for_each(|byte| word(format!("--comment {}", character(*byte))));
        if self.zero_based {
            word("--zero-based".into());
        }
        self.features.iter().for_each(|n| word(format!("--features {n}")));
        self.array.iter().for_each(|array| word(format!("--array {array}")));
        if self.grey {
            word("--grey".into());
        }
        self.size.iter().for_each(|(width, height)| word(format!("--size {width}x{height}")));
        self.patches.iter().for_each(|(side, step)| word(format!("--patches {side},{step}")));
        self.frames.iter().for_each(|(window, step)| word(format!("--frames {window},{step}")));
        self.spectrum.iter().for_each(|spectrum| word(format!("--spectrum {}", name(spectrum))));
        words.into_iter().map(|word| format!(" {word}")).collect()
    }

    /// The target column.
    pub(crate) fn target(&self) -> Option<&str> {
        self.target.as_deref()
    }

    /// Whether no option selects columns.
    pub(crate) fn takes_all_columns(&self) -> bool {
        self.selects_no_columns() && self.target.is_none()
    }

    /// Whether no option selects columns to learn from.
    pub(crate) fn selects_no_columns(&self) -> bool {
        self.columns.is_none() && self.without.is_empty()
    }
}

/// The name of an argument's value on the command line.
trait ValueName {
    fn name(&self) -> String;
}

impl<T: ValueEnum> ValueName for T {
    fn name(&self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().into())
    }
}

fn kind(text: &str) -> Result<Kind, String> {
    let known = || Kind::ALL.map(Kind::name).join(", ");
    Kind::of_name(text).ok_or_else(|| format!("give one of {}", known()))
}

fn missing(text: &str) -> Result<Missing, String> {
    match (text, text.parse::<f64>()) {
        ("error", _) => Ok(Missing::Error),
        ("drop", _) => Ok(Missing::DropRow),
        ("mean", _) => Ok(Missing::Mean),
        (_, Ok(number)) if number.is_finite() => Ok(Missing::Value(number)),
        _ => Err("give `error`, `drop`, `mean` or a finite number".into()),
    }
}

fn character(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        _ if text == "tab" => Ok(b'\t'),
        [byte] if byte.is_ascii() && !b"\r\n\"".contains(byte) => Ok(*byte),
        _ => Err("give one ASCII character, or `tab`".into()),
    }
}

/// A length and a step; the step defaults to the length.
fn pair(text: &str) -> Result<(usize, usize), String> {
    let number = |text: &str| text.parse().ok().filter(|n| *n > 0);
    let (length, step) = text.split_once(',').unwrap_or((text, text));
    number(length).zip(number(step)).ok_or_else(|| "give one positive number, or two as in `8,4`".into())
}

fn size(text: &str) -> Result<(usize, usize), String> {
    let number = |text: &str| text.parse().ok().filter(|n| *n > 0);
    let parts = text.split_once('x').and_then(|(width, height)| number(width).zip(number(height)));
    parts.ok_or_else(|| "give width and height in pixels, as in `32x32`".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_typed_is_read_or_refused() {
        assert_eq!(missing("mean"), Ok(Missing::Mean));
        assert_eq!(missing("-1.5"), Ok(Missing::Value(-1.5)));
        for text in ["", "nan", "inf", "average"] {
            assert!(missing(text).is_err(), "{text}");
        }
        assert_eq!((character(";"), character("tab")), (Ok(b';'), Ok(b'\t')));
        assert!(character("ö").is_err() && character("").is_err() && character("\n").is_err());
        assert_eq!((pair("8,4"), pair("8")), (Ok((8, 4)), Ok((8, 8))));
        assert!(pair("8,0").is_err() && pair("8,").is_err() && pair("-8").is_err());
        assert_eq!(size("32x24"), Ok((32, 24)));
        assert!(size("32").is_err() && size("0x1").is_err());
    }
}
