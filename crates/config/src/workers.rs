//! Names of clusters in worker strings.
//!
//! An item of a worker string that is the name of a cluster stands for the cluster's items. What a cluster stands for is not looked
//! up again, so a cluster may have a host of its own name.

use crate::{Config, ConfigError, Entry};
use qjam::engine::{WorkerString, is_reserved_word, provider};

/// A worker string without names of clusters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workers<'a> {
    /// The worker string.
    pub text: String,
    /// The clusters that stood in it.
    pub clusters: Vec<&'a Entry>,
}

/// Whether a worker string has items that are no workers of this machine: hosts, or names of clusters. Only then does a program
/// need the files.
pub fn names_others(text: &str) -> bool {
    let text = text.trim();
    let body = text.strip_prefix("auto:").unwrap_or(text);
    let word = |item: &str| item.trim().split([':', '*']).next().unwrap_or_default().to_owned();
    let is_here = |item: &str| is_reserved_word(&word(item)) && !item.trim().starts_with("ssh:");
    !provider::is_address(body) && body.split(',').any(|item| !is_here(item))
}

/// Puts the items of clusters in the place of their names.
pub(crate) fn expand<'a>(config: &'a Config, text: &str) -> Result<Workers<'a>, ConfigError> {
    let plain = || Workers { text: text.to_owned(), clusters: Vec::new() };
    // Such an address may have commas.
    if provider::is_address(text) {
        return Ok(plain());
    }
    let (mut is_auto, body) = match text.trim().strip_prefix("auto:") {
        Some(rest) => (true, rest),
        None => (false, text.trim()),
    };
    let items: Vec<&str> = body.split(',').map(str::trim).collect();
    let mut clusters = Vec::new();
    let mut found = Vec::new();
    for item in &items {
        let Some(cluster) = config.cluster(item) else {
            if let Some((name, _)) = item.split_once(['*', ':'])
                && let Some(cluster) = config.cluster(name)
            {
                return Err(ConfigError::Workers(format!(
                    "`{item}`: `{name}` is a cluster ({}), whose items have slots and ports of their own; a host of this name is \
                     `ssh://{item}`",
                    cluster.source()
                )));
            }
            found.push((*item).to_owned());
            continue;
        };
        clusters.push(cluster);
        let value = cluster.value.trim();
        match value.strip_prefix("auto:") {
            Some(rest) => {
                is_auto = true;
                found.push(tidy(rest));
            }
            None if provider::is_address(value) && items.len() > 1 => {
                return Err(ConfigError::Workers(format!(
                    "`{item}` is `{value}` ({}), beside which no other workers can be named",
                    cluster.source()
                )));
            }
            None if provider::is_address(value) => found.push(value.to_owned()),
            None => found.push(tidy(value)),
        }
    }
    if clusters.is_empty() {
        return Ok(plain());
    }
    let auto = if is_auto { "auto:" } else { "" };
    Ok(Workers { text: format!("{auto}{}", found.join(",")), clusters })
}

fn tidy(items: &str) -> String {
    items.split(',').map(str::trim).collect::<Vec<_>>().join(",")
}

/// Refuses workers of a `qjam.toml` that are elsewhere and not a cluster of the user's.
pub(crate) fn check_project(config: &Config) -> Result<(), ConfigError> {
    let Some(entry) = config.project.iter().find(|entry| entry.key == "workers") else { return Ok(()) };
    let body = entry.value.trim().strip_prefix("auto:").unwrap_or(entry.value.trim());
    let is_address = provider::is_address(body);
    for item in body.split(',').map(str::trim) {
        let is_here = || {
            let seats = WorkerString::parse(item).map(|parsed| parsed.seats).unwrap_or_default();
            !seats.is_empty() && seats.iter().all(|seat| !seat.is_elsewhere())
        };
        if is_address || item.starts_with('@') || (config.cluster(item).is_none() && !is_here()) {
            let what = format!(
                "`{item}` is neither on this machine nor a cluster of your own; whoever wrote this file could send your data there. If \
                 that is where it shall go, name it in your own file, which `qjam config path` prints: `qjam config set clusters.NAME \
                 '{item}'`"
            );
            return Err(ConfigError::Wrong { file: entry.file.clone(), line: entry.line, what });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_of_this_machine_need_no_files() {
        for text in [
            "local:4",
            "auto",
            "auto:proc:2, local",
            "proc:2*4",
            "inproc:2",
            "mpi",
            "store:file:///a,b",
            "spark://a:7077,b:7077",
        ] {
            assert!(!names_others(text), "{text}");
        }
        for text in ["lab", "proc:2,lab", "auto:lab", "ssh://local", "@/hosts", "ann@big*4"] {
            assert!(names_others(text), "{text}");
        }
    }
}
