//! The entries of one file, checked one by one.

use crate::keys::{self, key};
use crate::{CLUSTERS, ConfigError, Entry, Layer};
use std::ops::Range;
use std::path::Path;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Reads a text.
pub(crate) fn entries(path: &Path, text: &str, layer: Layer) -> Result<Vec<Entry>, ConfigError> {
    let at = |span: Range<usize>| line(text, span.start);
    let wrong = |line: usize, what: String| ConfigError::Wrong { file: path.into(), line, what };
    let table = DeTable::parse(text).map_err(|e| {
        let what = e.message().lines().next().unwrap_or("it is not TOML").to_owned();
        wrong(e.span().map_or(1, at), what)
    })?;
    let mut entries = Vec::new();
    let mut keep = |name: String, line: usize, value: String| {
        entries.push(Entry { key: name, value, file: path.into(), line });
    };
    for (name, value) in table.get_ref() {
        let line = at(name.span());
        let name = name.get_ref().as_ref();
        if name == "clusters" {
            if layer == Layer::Project {
                let what = "clusters are named in the user's own file alone, which `qjam config path` prints; whoever wrote this \
                            one could send data to any host";
                return Err(wrong(line, what.into()));
            }
            let Some(clusters) = value.get_ref().as_table() else {
                return Err(wrong(
                    line,
                    "write `[clusters]`, and below it lines such as `lab = \"big*8, small\"`".into(),
                ));
            };
            for (name, value) in clusters {
                let line = at(name.span());
                let name = name.get_ref().as_ref();
                let value = string(value).ok_or("write a worker string, for example \"big*8, small\"".into());
                let value = value.and_then(|value| check_cluster(name, &value).map(|()| value));
                let value = value.map_err(|why| wrong(line, format!("cluster `{name}`: {why}")))?;
                keep(format!("{CLUSTERS}{name}"), line, value);
            }
            continue;
        }
        let Some(key) = key(name) else {
            let what =
                format!("there is no key `{name}`; the keys are {}", keys::names(layer == Layer::Project));
            return Err(wrong(line, what));
        };
        if layer == Layer::Project && !key.in_project {
            let what = format!(
                "`{name}` is believed in the user's own file alone, which `qjam config path` prints; whoever wrote this one could \
                 have any command started"
            );
            return Err(wrong(line, what));
        }
        let value = string(value).ok_or("write a text, in quotation marks".to_owned());
        let value = value.and_then(|value| (key.check)(&value).map(|()| value));
        let value = value.map_err(|why| wrong(line, format!("`{name}`: {why}")))?;
        keep(name.to_owned(), line, value);
    }
    Ok(entries)
}

/// What is wrong with a cluster.
pub(crate) fn check_cluster(name: &str, value: &str) -> Result<(), String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let is_name = (1..=64).contains(&name.len()) && name.chars().all(allowed);
    if !is_name || !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return Err(
            "a name is up to 64 letters, digits, hyphens and underscores, and begins with a letter".into()
        );
    }
    if qjam::engine::is_reserved_word(name) {
        return Err("worker strings have another meaning for this word; choose another name".into());
    }
    keys::worker_string(value)
}

/// Texts, and whole numbers without a sign.
fn string(value: &Spanned<DeValue<'_>>) -> Option<String> {
    let value = value.get_ref();
    if let Some(text) = value.as_str() {
        return Some(text.to_owned());
    }
    let number = value.as_integer().filter(|number| number.radix() == 10)?;
    Some(number.as_str().replace('_', ""))
}

/// The line of a byte, counted from 1.
pub(crate) fn line(text: &str, at: usize) -> usize {
    text.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count() + 1
}
