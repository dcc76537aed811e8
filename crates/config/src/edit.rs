//! Changing one value of a file. All other lines, comments included, stay as they are.
//!
//! The changed text is read again before it is written, so that no command leaves a file behind that the next one refuses.

use crate::{CLUSTERS, Config, ConfigError, Entry, Layer, Places, file, keys, trust, workers};
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use toml::de::DeTable;

/// Sets a key. `is_project` says whether the file is a `qjam.toml`.
pub fn set(path: &Path, key: &str, value: &str, is_project: bool) -> Result<(), ConfigError> {
    let refused = |why: String| ConfigError::Refused(format!("`{key}`: {why}"));
    let layer = layer(is_project);
    match (key.strip_prefix(CLUSTERS), keys::key(key)) {
        (Some(_), _) if is_project => {
            return Err(refused(
                "clusters are named in the user's own file alone; leave out --project".into(),
            ));
        }
        (Some(name), _) => file::check_cluster(name, value).map_err(refused)?,
        (None, Some(known)) if is_project && !known.in_project => {
            return Err(refused("it is believed in the user's own file alone; leave out --project".into()));
        }
        (None, Some(known)) => (known.check)(value).map_err(refused)?,
        (None, None) => {
            let known = keys::names(false).replace("[clusters]", "clusters.NAME");
            return Err(ConfigError::Refused(format!("there is no key `{key}`; the keys are {known}")));
        }
    }
    change(path, layer, (key, Some(value)), |text| with(text, key, value))
}

/// Removes a key. Returns false if the file does not have it.
pub fn unset(path: &Path, key: &str, is_project: bool) -> Result<bool, ConfigError> {
    let mut was_there = false;
    change(path, layer(is_project), (key, None), |text| {
        let found = place(text, key)?;
        was_there = found.is_some();
        Some(match found {
            None => text.to_owned(),
            Some(found) => {
                let start = text[..found.key.start].rfind('\n').map_or(0, |at| at + 1);
                let end =
                    text[found.value.end..].find('\n').map_or(text.len(), |at| found.value.end + at + 1);
                format!("{}{}", &text[..start], &text[end..])
            }
        })
    })?;
    Ok(was_there)
}

fn layer(is_project: bool) -> Layer {
    if is_project { Layer::Project } else { Layer::User }
}

/// Reads a file, changes its text, looks at what came of it, and writes it. `to` is what must have changed: a key and its new value,
/// `None` if it goes.
fn change(
    path: &Path,
    layer: Layer,
    to: (&str, Option<&str>),
    edit: impl FnOnce(&str) -> Option<String>,
) -> Result<(), ConfigError> {
    let text = match layer {
        Layer::User => trust::read_user(path)?.unwrap_or_default(),
        Layer::Project if path.symlink_metadata().is_err() => String::new(),
        Layer::Project => match trust::read_project(path)? {
            None => String::new(),
            Some(text) => text.map_err(ConfigError::NotTrusted)?,
        },
    };
    let before = file::entries(path, &text, layer)?;
    let by_hand = || {
        ConfigError::Refused(format!(
            "{} is written in a way that this command cannot change; edit it, and see what `qjam config check` says",
            path.display()
        ))
    };
    let changed = edit(&text).ok_or_else(by_hand)?;
    let entries = file::entries(path, &changed, layer).map_err(|_| by_hand())?;
    if values(&entries) != expected(&before, to) {
        return Err(by_hand());
    }
    if layer == Layer::Project {
        let places = Places { project: None, ..Places::here() };
        let config = Config { project: entries, ..Config::read(&places)? };
        workers::check_project(&config)?;
    }
    write(path, &changed).map_err(|source| ConfigError::Unwritable { file: path.into(), source })
}

/// What a file says, wherever it says it.
fn values(entries: &[Entry]) -> BTreeMap<&str, &str> {
    entries.iter().map(|entry| (entry.key.as_str(), entry.value.as_str())).collect()
}

/// What a file must say after one key has changed.
fn expected<'a>(before: &'a [Entry], (key, value): (&'a str, Option<&'a str>)) -> BTreeMap<&'a str, &'a str> {
    let mut expected = values(before);
    match value {
        Some(value) => drop(expected.insert(key, value)),
        None => drop(expected.remove(key)),
    }
    expected
}

/// Where a key and its value stand in a text.
struct KeySpan {
    key: std::ops::Range<usize>,
    value: std::ops::Range<usize>,
}

/// `None` if the text cannot be read; the inner one if it does not have the key.
fn place(text: &str, key: &str) -> Option<Option<KeySpan>> {
    let table = DeTable::parse(text).ok()?;
    let table = table.get_ref();
    let find = |table: &DeTable<'_>, name: &str| {
        let (key, value) = table.iter().find(|(key, _)| key.get_ref().as_ref() == name)?;
        Some(KeySpan { key: key.span(), value: value.span() })
    };
    Some(match key.strip_prefix(CLUSTERS) {
        None => find(table, key),
        Some(name) => {
            table.get("clusters").and_then(|value| value.get_ref().as_table()).and_then(|t| find(t, name))
        }
    })
}

/// A text with a value.
fn with(text: &str, key: &str, value: &str) -> Option<String> {
    let quoted = quoted(value);
    if let Some(found) = place(text, key)? {
        return Some(format!("{}{quoted}{}", &text[..found.value.start], &text[found.value.end..]));
    }
    let Some(name) = key.strip_prefix(CLUSTERS) else {
        // Before all tables, after the last value that is in none.
        let after =
            keys::KEYS.iter().filter_map(|key| place(text, key.name)?).map(|found| found.value.end).max();
        let at = after.map_or(0, |end| text[end..].find('\n').map_or(text.len(), |n| end + n + 1));
        let line = if at > 0 && !text[..at].ends_with('\n') { "\n" } else { "" };
        return Some(format!("{}{line}{key} = {quoted}\n{}", &text[..at], &text[at..]));
    };
    let line = format!("{name} = {quoted}\n");
    let table = DeTable::parse(text).ok()?;
    let Some(clusters) = table.get_ref().get("clusters") else {
        let gap = match text {
            "" => "",
            _ if text.ends_with('\n') => "\n",
            _ => "\n\n",
        };
        return Some(format!("{text}{gap}[clusters]\n{line}"));
    };
    let ends = clusters.get_ref().as_table()?.iter().map(|(_, value)| value.span().end);
    let end = ends.max().unwrap_or(clusters.span().end);
    Some(match text[end..].find('\n') {
        Some(n) => format!("{}{line}{}", &text[..end + n + 1], &text[end + n + 1..]),
        None => format!("{text}\n{line}"),
    })
}

/// A string of TOML.
fn quoted(value: &str) -> String {
    let mut out = String::from("\"");
    for c in value.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => out.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Writes a file beside it and renames it, so that nobody reads half of one. A link stays one.
fn write(path: &Path, text: &str) -> io::Result<()> {
    let real: PathBuf = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    if let Some(folder) = real.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    let mode = fs::metadata(&real)
        .map_or(0o600, |about| std::os::unix::fs::PermissionsExt::mode(&about.permissions()) & 0o755);
    let beside = real.with_extension(format!("toml.new-{}", std::process::id()));
    let written = (|| {
        let mut out = fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(&beside)?;
        out.write_all(text.as_bytes())?;
        out.sync_all()?;
        fs::rename(&beside, &real)
    })();
    if written.is_err() {
        let _ = fs::remove_file(&beside);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_changes_and_comments_stay() {
        let text = "# mine\nworkers = \"lab\" # all\n\n[clusters]\n# two\nlab = \"a,b\"\n";
        assert_eq!(with(text, "workers", "proc:2").unwrap(), text.replace("\"lab\"", "\"proc:2\""));
        let more = with(text, "tuning", "clock").unwrap();
        assert_eq!(more, text.replace("# all\n", "# all\ntuning = \"clock\"\n"));
        assert_eq!(with(text, "clusters.lab", "c").unwrap(), text.replace("a,b", "c"));
        assert_eq!(with(text, "clusters.far", "f").unwrap(), format!("{text}far = \"f\"\n"));
        assert_eq!(with("", "clusters.far", "f").unwrap(), "[clusters]\nfar = \"f\"\n");
        assert_eq!(with("# x", "ssh", "a \"b\"").unwrap(), "ssh = \"a \\\"b\\\"\"\n# x");
    }
}
