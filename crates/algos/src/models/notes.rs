//! What a file says of its model besides the numbers, and how it is written as JSON.

use crate::options::{Settings, Value};
use serde_json::{Map, Value as Json};

/// What a file says of its model besides the numbers. All of it may be empty.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Notes {
    /// What it was fitted with, by the names that Python has.
    pub options: Vec<(String, Value)>,
    /// Names of the columns of the data, if they had any.
    pub columns: Vec<String>,
    /// What fitting came to: iterations, inertia and the like.
    pub fitted: Vec<(String, Value)>,
}

impl Notes {
    /// Notes of settings and of what came of them.
    pub fn new(settings: &Settings, columns: Vec<String>, fitted: &[(&str, Value)]) -> Notes {
        let options = settings.iter().map(|(option, value)| (option.name.to_string(), value.clone()));
        let fitted = fitted.iter().map(|(name, value)| ((*name).to_string(), value.clone()));
        Notes { options: options.collect(), columns, fitted: fitted.collect() }
    }

    pub(super) fn to_json(&self, kind: &str, version: u32, numbers: &str) -> String {
        let object = |pairs: &[(String, Value)]| {
            Json::Object(pairs.iter().map(|(name, value)| (name.clone(), json(value))).collect())
        };
        let mut all = Map::new();
        all.insert("kind".into(), kind.into());
        all.insert("version".into(), version.into());
        all.insert("options".into(), object(&self.options));
        all.insert("columns".into(), self.columns.clone().into());
        all.insert("fitted".into(), object(&self.fitted));
        all.insert("blake3".into(), numbers.into());
        Json::Object(all).to_string()
    }

    pub(super) fn of_json(all: &Map<String, Json>) -> Notes {
        let pairs = |key: &str| {
            let object = all.get(key).and_then(Json::as_object).into_iter().flatten();
            object.filter_map(|(name, json)| Some((name.clone(), value(json)?))).collect()
        };
        let columns = all.get("columns").and_then(Json::as_array).into_iter().flatten();
        let columns = columns.filter_map(|name| name.as_str().map(String::from)).collect();
        Notes { options: pairs("options"), columns, fitted: pairs("fitted") }
    }
}

fn json(value: &Value) -> Json {
    match value {
        Value::Integer(n) => (*n).into(),
        Value::Real(x) => (*x).into(),
        Value::Flag(yes) => (*yes).into(),
        Value::Text(text) => text.clone().into(),
    }
}

/// What JSON has for a value; things that later versions may put there are passed over.
fn value(json: &Json) -> Option<Value> {
    match json {
        Json::Number(n) => Some(n.as_u64().map_or(Value::Real(n.as_f64()?), Value::Integer)),
        Json::Bool(yes) => Some(Value::Flag(*yes)),
        Json::String(text) => Some(Value::Text(text.clone())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_to_the_bit() {
        // Numbers of all sizes and signs, from their bits.
        let mut state = 1_u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            f64::from_bits(state ^ (state >> 29))
        };
        let numbers: Vec<f64> =
            std::iter::repeat_with(&mut next).filter(|x| x.is_finite()).take(10_000).collect();
        let fitted = numbers.iter().enumerate().map(|(n, x)| (format!("{n:05}"), Value::Real(*x))).collect();
        let notes = Notes { fitted, ..Notes::default() };
        let text = notes.to_json("kmeans", 1, "");
        let Json::Object(all) = serde_json::from_str(&text).unwrap() else { panic!("{text}") };
        assert_eq!(Notes::of_json(&all), notes);
    }
}
