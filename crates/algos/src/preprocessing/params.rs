//! What can be chosen of scalers, and the values that were checked.

use crate::options::{Kind as OptionKind, Opt, OptionError, Preset, Settings, Table, Target};

const CLIP: Opt = Opt {
    name: "clip",
    flag: "clip",
    kind: OptionKind::Flag,
    words: &[],
    default: Preset::Flag(false),
    typed: false,
    help: "Move numbers beyond the range of the fitted rows to its bounds",
    detail: "",
};

/// What can be chosen of standardising.
pub const STANDARD: Table = Table {
    name: "standard-scaler",
    class: "StandardScaler",
    about: "Bring columns to mean 0 and variance 1",
    detail: "\
One round over the rows finds mean and variance of every column, merged without losing digits. Columns in which all is the same
are not divided. `qjam predict` writes the scaled rows. `qjam fit LEARNER --standardize` does this before any other learner, and keeps
it with the model.",
    target: Target::None,
    weighted: true,
    sparse: true,
    dtype: None,
    options: &[
        Opt {
            name: "with_mean",
            flag: "center",
            kind: OptionKind::Flag,
            words: &[],
            default: Preset::Flag(true),
            typed: false,
            help: "Whether means are taken off",
            detail: "Sparse rows cannot be centred: their zeros would be other numbers.",
        },
        Opt {
            name: "with_std",
            flag: "scale",
            kind: OptionKind::Flag,
            words: &[],
            default: Preset::Flag(true),
            typed: false,
            help: "Whether columns are divided by their standard deviations",
            detail: "",
        },
    ],
    examples: &[
        "fit standard-scaler table.csv --out scaler.model",
        "fit standard-scaler words.svm --no-center --out scaler.model",
        "predict scaler.model table.csv --out scaled.npy",
    ],
};

/// What can be chosen of scaling between extremes.
pub const MIN_MAX: Table = Table {
    name: "minmax-scaler",
    class: "MinMaxScaler",
    about: "Bring columns to the range from 0 to 1",
    detail: "\
One round over the rows finds the smallest and the largest number of every column; these become 0 and 1. `qjam fit LEARNER
--minmax` does this before any other learner, and keeps it with the model.",
    target: Target::None,
    weighted: true,
    sparse: false,
    dtype: None,
    options: &[CLIP],
    examples: &[
        "fit minmax-scaler table.csv --out scaler.model",
        "predict scaler.model table.csv --out scaled.npy",
    ],
};

/// What can be chosen of scaling by the largest number.
pub const MAX_ABS: Table = Table {
    name: "maxabs-scaler",
    class: "MaxAbsScaler",
    about: "Divide columns by their largest absolute value",
    detail: "\
One round over the rows finds the largest absolute value of every column. Zeros stay zeros, so sparse rows stay sparse.",
    target: Target::None,
    weighted: true,
    sparse: true,
    dtype: None,
    options: &[CLIP],
    examples: &[
        "fit maxabs-scaler words.svm --out scaler.model",
        "predict scaler.model words.svm --out scaled.npy",
    ],
};

/// What columns are brought to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Mean 0 and variance 1.
    Standard,
    /// Extremes of a range.
    MinMax,
    /// A largest absolute value of 1.
    MaxAbs,
}

impl Kind {
    /// Its table of options.
    pub fn table(self) -> &'static Table {
        match self {
            Kind::Standard => &STANDARD,
            Kind::MinMax => &MIN_MAX,
            Kind::MaxAbs => &MAX_ABS,
        }
    }

    /// What the command and files call it.
    pub fn name(self) -> &'static str {
        self.table().name
    }
}

/// Values of the options. A value that exists is valid.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Params {
    kind: Kind,
    /// Whether means are taken off, and whether columns are divided by deviations.
    pub(super) standard: (bool, bool),
    pub(super) range: (f64, f64),
    pub(super) clip: bool,
}

impl Params {
    /// Everything as by default.
    pub fn new(kind: Kind) -> Params {
        Params { kind, standard: (true, true), range: (0.0, 1.0), clip: false }
    }

    /// The same without taking means off.
    pub fn uncentred(self) -> Params {
        Params { standard: (false, self.standard.1), ..self }
    }

    /// What settings of a scaler's table say.
    pub fn from_settings(kind: Kind, settings: &Settings) -> Result<Params, OptionError> {
        let by_default = Params::new(kind);
        Ok(match kind {
            Kind::Standard => {
                let standard = (settings.flag("with_mean")?, settings.flag("with_std")?);
                Params { standard, ..by_default }
            }
            Kind::MinMax | Kind::MaxAbs => Params { clip: settings.flag("clip")?, ..by_default },
        })
    }

    /// What columns are brought to.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Whether zeros become other numbers, so that sparse rows cannot be taken.
    pub(super) fn needs_full_rows(&self) -> bool {
        match self.kind {
            Kind::Standard => self.standard.0,
            Kind::MinMax => true,
            Kind::MaxAbs => false,
        }
    }
}
