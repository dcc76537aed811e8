//! The keys that files may have. To add one, add a line to [`KEYS`].

use qjam::engine::{WorkerString, provider};

/// A key of configuration files.
#[derive(Debug)]
pub struct Key {
    /// Its name, which is that of an option.
    pub name: &'static str,
    /// What it is for.
    pub help: &'static str,
    /// What holds if no file has it.
    pub default: &'static str,
    /// Whether a `qjam.toml` may have it.
    pub in_project: bool,
    /// What is wrong with a value.
    pub(crate) check: fn(&str) -> Result<(), String>,
}

/// All keys but those of clusters.
pub const KEYS: &[Key] = &[
    Key {
        name: "workers",
        help: "workers of `qjam fit` and `qjam predict` without --workers",
        default: "local",
        in_project: true,
        check: worker_string,
    },
    Key {
        name: "memory-limit",
        help: "memory limit of each worker process of `qjam fit` and `qjam predict` without --memory-limit",
        default: "none",
        in_project: true,
        check: |text| bytes(text).map(|_| ()),
    },
    Key {
        name: "host-cache",
        help: "most bytes of the cache on each host of `qjam fit` and `qjam predict` without --host-cache",
        default: "what `qjam cache --cap` has set there",
        in_project: true,
        check: |text| bytes(text).map(|_| ()),
    },
    Key {
        name: "tuning",
        help: "--tuning of `qjam fit` for learners that have it: `counted` or `clock`",
        default: "counted",
        in_project: true,
        check: |text| match text {
            "counted" | "clock" => Ok(()),
            _ => Err("write `counted` or `clock`".into()),
        },
    },
    Key {
        name: "cache",
        help: "most bytes of data that `qjam store serve` keeps open without --cache",
        default: "1G",
        in_project: true,
        check: |text| bytes(text).map(|_| ()),
    },
    Key {
        name: "ssh",
        help: "the ssh command, with options if needed; the variable QJAM_SSH comes first",
        default: "ssh",
        in_project: false,
        check: |text| match text.split_whitespace().next() {
            Some(_) => Ok(()),
            None => Err("write a command, for example `ssh -F my_config`".into()),
        },
    },
];

/// The key of this name.
pub(crate) fn key(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.name == name)
}

/// The names of all keys, for messages.
pub(crate) fn names(in_project: bool) -> String {
    let names = KEYS.iter().filter(|key| key.in_project || !in_project).map(|key| key.name);
    let mut names: Vec<&str> = names.collect();
    if !in_project {
        names.push("[clusters]");
    }
    names.join(", ")
}

/// Checks a worker string without opening the files of hosts that it names.
pub(crate) fn worker_string(text: &str) -> Result<(), String> {
    // What follows the word of such an engine is an address, which may have commas.
    if provider::is_address(text.trim_start()) {
        return Ok(());
    }
    let items: Vec<&str> = text.split(',').map(str::trim).collect();
    let is_file = |item: &&str| item.starts_with('@');
    if let Some(file) = items.iter().find(|item| item.starts_with('@') && !item.starts_with("@/")) {
        return Err(format!(
            "`{file}` would be looked for in whatever folder a command runs in; write its whole path, from / on"
        ));
    }
    let others: Vec<&str> = items.iter().copied().filter(|item| !is_file(item)).collect();
    if others.is_empty() && !items.is_empty() {
        return Ok(());
    }
    WorkerString::parse(&others.join(",")).map(|_| ()).map_err(|e| e.to_string())
}

/// Reads a number of bytes as people write it: `500M`, `20G`.
///
/// ```
/// assert_eq!(qjam_config::bytes("64K"), Ok(65_536));
/// assert!(qjam_config::bytes("much").is_err());
/// ```
pub fn bytes(text: &str) -> Result<u64, String> {
    const WRONG: &str = "write a number of bytes like `500M` or `20G`";
    let (digits, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let shift = match unit.to_ascii_uppercase().as_str() {
        "" | "B" => 0,
        "K" | "KB" | "KIB" => 10,
        "M" | "MB" | "MIB" => 20,
        "G" | "GB" | "GIB" => 30,
        "T" | "TB" | "TIB" => 40,
        _ => return Err(WRONG.into()),
    };
    let bytes = digits.parse::<u64>().ok().and_then(|n| n.checked_mul(1 << shift));
    bytes.ok_or_else(|| WRONG.into())
}
