//! Secrets in command lines, which run files do not store.
//!
//! What is known to be a secret by the name of its option or by its form is replaced by [`MASK`]. Others cannot be told from
//! ordinary arguments: programs should take secrets from files or from the environment.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

/// Stands for a secret.
pub const MASK: &str = "<secret, not recorded>";

/// Options and variables with one of these names have a secret as their value; also those whose last words are one of these.
const NAMES: [&str; 12] = [
    "password",
    "passwd",
    "passphrase",
    "secret",
    "secretkey",
    "apikey",
    "accesskey",
    "privatekey",
    "credential",
    "credentials",
    "authtoken",
    "accesstoken",
];

/// The same, but only as the whole name: others that end with it are usually something else.
const WHOLE_NAMES: [&str; 8] =
    ["token", "apitoken", "hftoken", "githubtoken", "bearertoken", "sessiontoken", "refreshtoken", "pwd"];

/// Words with one of these beginnings are keys of well-known services, if they are as long as this.
const PREFIXES: [(&str, usize); 10] = [
    ("ghp_", 20),
    ("gho_", 20),
    ("ghs_", 20),
    ("github_pat_", 20),
    ("glpat-", 20),
    ("xoxb-", 20),
    ("xoxp-", 20),
    ("AKIA", 20),
    ("hf_", 30),
    ("eyJ", 60),
];

/// The arguments with known secrets replaced.
pub(super) fn masked(arguments: &[OsString]) -> Vec<Vec<u8>> {
    let mut is_value = false;
    let mask = |argument: &OsString| {
        let was_named = std::mem::take(&mut is_value);
        // What is no text has no names in it.
        let Some(text) = argument.to_str() else { return argument.clone().into_vec() };
        if was_named && !text.starts_with("--") {
            return MASK.into();
        }
        is_value = text.starts_with('-') && is_secret(text.trim_start_matches('-'));
        masked_text(text).into_bytes()
    };
    arguments.iter().map(mask).collect()
}

/// Whether an option or variable of this name has a secret.
fn is_secret(name: &str) -> bool {
    let plain: String = name.chars().filter(|c| c.is_ascii_alphanumeric()).collect();
    let plain = plain.to_ascii_lowercase();
    WHOLE_NAMES.contains(&plain.as_str()) || NAMES.iter().any(|known| plain.ends_with(known))
}

/// An argument with its secrets replaced: `name=value`, also several joined by `&`; passwords in addresses; well-known keys.
fn masked_text(text: &str) -> String {
    let is_word = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let mut out = String::with_capacity(text.len());
    for (at, part) in text.split('&').enumerate() {
        out.push_str(if at > 0 { "&" } else { "" });
        let named = part.split_once('=').filter(|(name, value)| {
            let name = name.rsplit(|c| !is_word(c)).next().unwrap_or_default();
            !value.is_empty() && is_secret(name.trim_start_matches('-'))
        });
        match named {
            Some((name, _)) => out.extend([name, "=", MASK]),
            None => out.push_str(&without_keys(&without_password(part))),
        }
    }
    out
}

/// `scheme://user:password@host` without the password.
fn without_password(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else { return text.into() };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    match authority.rsplit_once('@').and_then(|(user, host)| Some((user.split_once(':')?.0, host))) {
        Some((user, host)) => format!("{scheme}://{user}:{MASK}@{host}{}", &rest[authority.len()..]),
        None => text.into(),
    }
}

fn without_keys(text: &str) -> String {
    let is_key = |word: &str| {
        PREFIXES.iter().any(|(prefix, length)| word.starts_with(prefix) && word.len() >= *length)
    };
    let ends = |c: char| !(c.is_ascii_alphanumeric() || "-_.".contains(c));
    text.split_inclusive(ends)
        .map(|piece| {
            let word = piece.trim_end_matches(ends);
            if is_key(word) { piece.replacen(word, MASK, 1) } else { piece.to_owned() }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_masked_by_name_and_by_form_and_nothing_else_is() {
        let mask = |words: &[&str]| -> Vec<String> {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            masked(&words).into_iter().map(|word| String::from_utf8(word).unwrap()).collect()
        };
        for (given, left) in [
            (&["--password", "hunter2", "x"][..], vec!["--password", MASK, "x"]),
            (&["--db-password=hunter2"], vec![&*format!("--db-password={MASK}")]),
            (&["API_KEY=abc"], vec![&*format!("API_KEY={MASK}")]),
            (&["--token", "--verbose"], vec!["--token", "--verbose"]),
            (&["https://ann:pw@host/x?y=1"], vec![&*format!("https://ann:{MASK}@host/x?y=1")]),
            (&["https://host/x?n=1&token=abc&z=2"], vec![&*format!("https://host/x?n=1&token={MASK}&z=2")]),
            (&["ghp_0123456789abcdefghij"], vec![MASK]),
            (&["fit", "kmeans", "x.csv", "--k", "8"], vec!["fit", "kmeans", "x.csv", "--k", "8"]),
            (&["--pad-token", "0", "--max-tokens=5"], vec!["--pad-token", "0", "--max-tokens=5"]),
            (&["ann@lab3:2222", "a&b", "x=1"], vec!["ann@lab3:2222", "a&b", "x=1"]),
        ] {
            assert_eq!(mask(given), left, "{given:?}");
        }
    }
}
