//! Values of options: read from text, and compared with what an option allows.

use super::{Kind, Opt, Preset};
use std::fmt;

/// A value of an option.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A whole number, or a seed.
    Integer(u64),
    /// A number.
    Real(f64),
    /// Yes or no.
    Flag(bool),
    /// A word, or the path of a file.
    Text(String),
}

impl From<Preset> for Option<Value> {
    fn from(preset: Preset) -> Self {
        Some(match preset {
            Preset::Needed => return None,
            Preset::Integer(n) => Value::Integer(n),
            Preset::Real(x) => Value::Real(x),
            Preset::Flag(yes) => Value::Flag(yes),
            Preset::Word(word) => Value::Text(word.into()),
        })
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Integer(n) => write!(f, "{n}"),
            Value::Real(x) => write!(f, "{}", shown(*x)),
            Value::Flag(yes) => write!(f, "{yes}"),
            Value::Text(text) => write!(f, "{text}"),
        }
    }
}

/// A number as people write it: small ones by powers of ten.
pub(super) fn shown(x: f64) -> String {
    match x == 0.0 || !x.is_finite() || (1e-3..1e7).contains(&x.abs()) {
        true => x.to_string(),
        false => format!("{x:e}"),
    }
}

impl Opt {
    /// The value that a text says; otherwise what would be allowed, to be read behind "give".
    pub fn parse(&self, text: &str) -> Result<Value, String> {
        let wrong = || self.allowed();
        if self.words.iter().any(|(word, _)| *word == text) {
            return Ok(Value::Text(text.into()));
        }
        let value = match self.kind {
            Kind::Integer { .. } | Kind::Seed => Value::Integer(text.parse().map_err(|_| wrong())?),
            Kind::Real { .. } => Value::Real(text.parse().map_err(|_| wrong())?),
            Kind::Flag => Value::Flag(text.parse().map_err(|_| wrong())?),
            Kind::Word | Kind::File | Kind::Integers { .. } => Value::Text(text.into()),
        };
        self.check(value)
    }

    /// The value, if it is allowed; otherwise what would be. Whole numbers are taken where others are asked for.
    pub fn check(&self, value: Value) -> Result<Value, String> {
        let (value, fits) = match (self.kind, value) {
            (_, Value::Text(word)) => {
                let fits = match self.kind {
                    Kind::File => !word.is_empty(),
                    Kind::Integers { min, max } => {
                        integers(&word).is_some_and(|numbers| numbers.iter().all(|n| (min..=max).contains(n)))
                    }
                    _ => self.words.iter().any(|(known, _)| *known == word),
                };
                (Value::Text(word), fits)
            }
            (Kind::Integers { min, max }, Value::Integer(n)) => {
                (Value::Text(n.to_string()), (min..=max).contains(&n))
            }
            (Kind::Integer { min, max }, Value::Integer(n)) => (Value::Integer(n), (min..=max).contains(&n)),
            (Kind::Seed, Value::Integer(n)) => (Value::Integer(n), true),
            (Kind::Real { min, max, open }, Value::Integer(n)) => {
                (Value::Real(n as f64), within(n as f64, min, max, open))
            }
            (Kind::Real { min, max, open }, Value::Real(x)) => (Value::Real(x), within(x, min, max, open)),
            (Kind::Flag, Value::Flag(yes)) => (Value::Flag(yes), true),
            (_, other) => (other, false),
        };
        if fits { Ok(value) } else { Err(self.allowed()) }
    }
}

/// The numbers of a list with commas between them; none is the empty text.
pub(super) fn integers(text: &str) -> Option<Vec<u64>> {
    match text.trim() {
        "" => Some(vec![]),
        list => list.split(',').map(|number| number.trim().parse().ok()).collect(),
    }
}

fn within(x: f64, min: f64, max: f64, open: bool) -> bool {
    x.is_finite() && if open { min < x && x < max } else { (min..=max).contains(&x) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn option(kind: Kind) -> Opt {
        let words = &[("auto", "")];
        Opt {
            name: "o",
            flag: "o",
            kind,
            words,
            default: Preset::Needed,
            typed: false,
            help: "h",
            detail: "",
        }
    }

    #[test]
    fn lists_of_whole_numbers_are_read_and_compared_one_by_one() {
        let sizes = option(Kind::Integers { min: 1, max: 9 });
        assert_eq!(sizes.parse("3, 4"), Ok(Value::Text("3, 4".into())));
        assert_eq!(sizes.check(Value::Integer(7)), Ok(Value::Text("7".into())));
        assert_eq!(sizes.parse(""), Ok(Value::Text(String::new())));
        assert_eq!(integers("3, 4"), Some(vec![3, 4]));
        for text in ["0", "3,10", "3,,4", "3;4", "-1", "2.5", "many"] {
            assert!(sizes.parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn values_outside_the_bounds_and_of_other_kinds_are_refused() {
        let count = option(Kind::Integer { min: 1, max: 9 });
        for text in ["0", "10", "-1", "2.5", "", "many", "18446744073709551616"] {
            assert_eq!(count.parse(text), Err("auto or a whole number from 1 to 9".into()), "{text}");
        }
        assert_eq!(count.parse("9"), Ok(Value::Integer(9)));
        assert_eq!(count.parse("auto"), Ok(Value::Text("auto".into())));
        assert!(count.check(Value::Real(2.0)).is_err());
        let share = option(Kind::Real { min: 0.0, max: 1.0, open: true });
        for text in ["0", "1", "NaN", "inf", "-0.5", "half"] {
            assert!(share.parse(text).is_err(), "{text}");
        }
        assert_eq!(share.parse("5e-1"), Ok(Value::Real(0.5)));
        let any = option(Kind::Real { min: 0.0, max: f64::INFINITY, open: false });
        assert_eq!(any.check(Value::Integer(3)), Ok(Value::Real(3.0)));
        assert!(any.parse("inf").is_err());
        assert!(option(Kind::Word).parse("other").is_err());
        assert!(option(Kind::File).parse("").is_err());
        assert!(option(Kind::Seed).parse("18446744073709551615").is_ok());
        assert!(option(Kind::Flag).check(Value::Integer(1)).is_err());
    }
}
