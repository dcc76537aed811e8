//! How a file is to be read: the arguments that every command with data has.

use clap::{Args, ValueEnum};
use qjam_readers::{Dtype, Header, Kind, Labels, Missing, OpenOptions, Spectrum};
use std::path::PathBuf;

/// What to read, and how.
#[derive(Debug, Args)]
pub(crate) struct Data {
    /// The rows: an .npy, .npz, CSV, Parquet, LIBSVM or IDX file, packed by gzip or zstd or not; or a folder of PNG, JPEG
    /// or WAV files. What it is is seen from its content
    #[arg(value_name = "DATA")]
    pub(crate) path: PathBuf,
    /// Read it as this kind of file
    #[arg(long, value_name = "KIND", value_parser = kind, help_heading = READING)]
    kind: Option<Kind>,
    /// Of a table, read these columns, in this order: names, joined by commas
    #[arg(long, value_name = "NAMES", value_delimiter = ',', help_heading = READING)]
    columns: Option<Vec<String>>,
    /// Of a table, leave out these columns
    #[arg(long, value_name = "NAMES", value_delimiter = ',', help_heading = READING)]
    without: Vec<String>,
    /// Of a table, the column that is to be learnt; learners without a teacher leave it out
    #[arg(long, value_name = "NAME", help_heading = READING)]
    target: Option<String>,
    /// Where a value is missing (an empty field, NA, NaN, null): `error`, `drop` the row, put in the column's `mean`, or a
    /// number
    #[arg(long, value_name = "WHAT", default_value = "error", value_parser = missing, help_heading = READING)]
    missing: Missing,
    /// Whether the first line of a CSV file has the names of the columns
    #[arg(long, value_enum, default_value_t = HeaderArg::Auto, help_heading = READING)]
    header: HeaderArg,
    /// What stands between the fields of a CSV file: one character, or `tab`
    #[arg(long, value_name = "CHAR", value_parser = character, help_heading = READING)]
    delimiter: Option<u8>,
    /// Leave out lines of a CSV file that start with this character
    #[arg(long, value_name = "CHAR", value_parser = character, help_heading = READING)]
    comment: Option<u8>,
    /// Indices of a LIBSVM file count from 0
    #[arg(long, help_heading = READING)]
    zero_based: bool,
    /// Columns of a LIBSVM file, if there are more than occur in it
    #[arg(long, value_name = "N", help_heading = READING)]
    features: Option<usize>,
    /// Which array of an .npz file
    #[arg(long, value_name = "NAME", help_heading = READING)]
    array: Option<String>,
    /// Numbers of 32 or 64 bits; otherwise those of the file, and of texts 64
    #[arg(long, value_enum, help_heading = READING)]
    dtype: Option<DtypeArg>,
    /// Of pictures, take the brightness alone
    #[arg(long, help_heading = READING)]
    grey: bool,
    /// Bring pictures to one size, as in 32x32
    #[arg(long, value_name = "WxH", value_parser = size, help_heading = READING)]
    size: Option<(usize, usize)>,
    /// Cut squares of so many pixels a side out of pictures, every so many pixels, as in 8,4
    #[arg(long, value_name = "SIDE[,STEP]", value_parser = pair, help_heading = READING)]
    patches: Option<(usize, usize)>,
    /// Cut sounds into pieces of so many samples, every so many samples, as in 1024,512
    #[arg(long, value_name = "WINDOW[,STEP]", value_parser = pair, help_heading = READING)]
    frames: Option<(usize, usize)>,
    /// Of pieces of sound, take spectra
    #[arg(long, value_enum, help_heading = READING)]
    spectrum: Option<SpectrumArg>,
    /// Folder for what large files are converted to, which is used again the next time; otherwise in the cache folder
    #[arg(long, value_name = "FOLDER", help_heading = READING)]
    keep_in: Option<PathBuf>,
}

const READING: &str = "Reading DATA";

#[derive(Clone, Copy, Debug, ValueEnum)]
enum HeaderArg {
    /// Unless all of its fields are numbers
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
    /// How strong each frequency is
    Magnitude,
    /// The square of that
    Power,
    /// The logarithm of the power
    LogPower,
}

impl Data {
    /// The same for the readers, with a column of weights, which comes last. Columns that were asked for are named.
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

    /// What was typed about the file that another call has to type, too, for files like it. Columns go by the names that
    /// the model has.
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

    /// The column that is to be learnt.
    pub(crate) fn target(&self) -> Option<&str> {
        self.target.as_deref()
    }

    /// Whether nothing was said about which columns to read.
    pub(crate) fn takes_all_columns(&self) -> bool {
        self.columns.is_none() && self.without.is_empty() && self.target.is_none()
    }
}

/// What a value of an argument is called.
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

/// A length and a step, which is the length when nobody says.
fn pair(text: &str) -> Result<(usize, usize), String> {
    let number = |text: &str| text.parse().ok().filter(|n| *n > 0);
    let (length, step) = text.split_once(',').unwrap_or((text, text));
    number(length).zip(number(step)).ok_or_else(|| "give two numbers from 1, as in `8,4`, or one".into())
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
