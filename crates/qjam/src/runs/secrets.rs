//! Secrets in command lines, which run files do not store.
//!
//! What is known to be a secret by the name of its option, variable, field or header, or by its form, is replaced by [`MASK`]. Others
//! cannot be told from ordinary arguments: programs should take secrets from files or from the environment.
//!
//! Options of one letter are not known: `-pVALUE` is a password to some clients of databases, and a port, a path or a number of
//! processes to most other programs. To replace all of them would keep these from being resumed.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

/// Stands for a secret.
pub const MASK: &str = "<secret, not recorded>";

/// Options and variables with one of these names have a secret as their value; also those whose last words are one of these.
const NAMES: [&str; 14] = [
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
    "sessiontoken",
    "authorization",
];

/// The same, but only as the whole name: others that end with it are usually something else.
const WHOLE_NAMES: [&str; 8] =
    ["token", "apitoken", "hftoken", "githubtoken", "bearertoken", "refreshtoken", "idtoken", "pwd"];

/// Words with one of these beginnings are keys of well-known services, if they are as long as this.
const PREFIXES: [(&str, usize); 24] = [
    ("ghp_", 20),
    ("gho_", 20),
    ("ghu_", 20),
    ("ghs_", 20),
    ("ghr_", 20),
    ("github_pat_", 20),
    ("glpat-", 20),
    ("xoxa-", 20),
    ("xoxb-", 20),
    ("xoxp-", 20),
    ("xoxs-", 20),
    ("xapp-", 20),
    // Of Amazon: keys, and keys for a while. Their secret halves have no form of their own.
    ("AKIA", 20),
    ("ASIA", 20),
    // Of Google.
    ("AIza", 30),
    ("ya29.", 20),
    ("hf_", 30),
    // Of several services.
    ("sk-", 20),
    ("sk_live_", 20),
    ("rk_live_", 20),
    ("npm_", 30),
    ("pypi-", 30),
    ("dop_v1_", 30),
    // JSON Web Tokens.
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
        // Options, and a header whose words are arguments of their own.
        is_value = (text.starts_with('-') && is_secret(text.trim_start_matches('-'))) || is_scheme(text);
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

/// Whether a word says how a header proves who sends it: what follows is the proof.
fn is_scheme(word: &str) -> bool {
    word.eq_ignore_ascii_case("bearer")
}

/// An argument with its secrets replaced: `name=value` and `name: value`, also several; passwords in addresses; well-known keys.
fn masked_text(text: &str) -> String {
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find(['=', ':', ' ']) {
        let (before, value) = (&rest[..at], &rest[at + 1..]);
        out.push_str(&rest[..=at]);
        rest = value;
        let value = value.trim_start_matches([' ', '"', '\'', '=']);
        let end = match rest_is_secret(before, text.as_bytes()[text.len() - rest.len() - 1], value) {
            Some(Extent::Rest) => value.len(),
            Some(Extent::Word) => {
                value.find([' ', '\t', '\n', '&', ';', ',', '"', '\'', '}']).unwrap_or(value.len())
            }
            None => continue,
        };
        if end > 0 {
            out.push_str(&rest[..rest.len() - value.len()]);
            out.push_str(MASK);
            rest = &value[end..];
        }
    }
    out.push_str(rest);
    without_keys(&without_passwords(&out))
}

/// How much of what follows a name is a secret.
enum Extent {
    Word,
    Rest,
}

/// Whether what follows this text and this sign is a secret.
fn rest_is_secret(before: &str, sign: u8, value: &str) -> Option<Extent> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let before = before.trim_end_matches(['"', '\'']);
    let name = before.rsplit(|c| !is_word(c)).next().unwrap_or_default();
    let is_named = is_secret(name.trim_start_matches('-'));
    let is_option = name.len() == before.len() && name.starts_with("--");
    match sign {
        b' ' => is_scheme(name).then_some(Extent::Word),
        b'=' if is_option => is_named.then_some(Extent::Rest),
        b':' if name.to_ascii_lowercase().ends_with("authorization") => Some(Extent::Rest),
        // A name and a port.
        b':' if value.bytes().all(|b| b.is_ascii_digit()) && value.len() <= 5 => None,
        _ => is_named.then_some(Extent::Word),
    }
}

/// `scheme://user:password@host` without the password, wherever it is.
fn without_passwords(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else { return text.into() };
    let end = rest.find([' ', ',', ';', '"', '\'']).unwrap_or(rest.len());
    let (address, after) = rest.split_at(end);
    let after = without_passwords(after);
    // Passwords may hold what should have been escaped; but what comes after a port is a path.
    let secret = address.split_once(':').filter(|(user, _)| !user.contains(['/', '?', '#', '@']));
    let secret = secret.and_then(|(user, rest)| Some((user, rest.rsplit_once('@')?)));
    match secret {
        Some((user, (password, host))) if !is_port_and_path(password) => {
            format!("{scheme}://{user}:{MASK}@{host}{after}")
        }
        _ => format!("{scheme}://{address}{after}"),
    }
}

fn is_port_and_path(text: &str) -> bool {
    let port = text.split(['/', '?', '#']).next().unwrap_or_default();
    port.len() < text.len() && port.bytes().all(|b| b.is_ascii_digit())
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

    /// With every `M` that is no part of a word replaced.
    fn with_mask(text: &str) -> String {
        let chars: Vec<char> = text.chars().collect();
        let is_word = |at: usize| chars.get(at).is_some_and(|c| c.is_alphanumeric());
        let each = chars.iter().enumerate().map(|(at, c)| match c {
            'M' if !is_word(at + 1) && (at == 0 || !is_word(at - 1)) => MASK.to_owned(),
            c => c.to_string(),
        });
        each.collect()
    }

    #[test]
    fn secrets_are_masked_by_name_and_by_form_and_nothing_else_is() {
        let mask = |words: &[&str]| -> Vec<String> {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            masked(&words).into_iter().map(|word| String::from_utf8(word).unwrap()).collect()
        };
        for (given, left) in [
            // By the name of an option, a variable or a field.
            (&["--password", "hunter2", "x"][..], "--password|M|x"),
            (&["--password=hunter2"], "--password=M"),
            (&["--password=hun&ter, 2"], "--password=M"),
            (&["--db-password=hunter2"], "--db-password=M"),
            (&["--api-key", "abc"], "--api-key|M"),
            (&["API_KEY=abc"], "API_KEY=M"),
            (
                &["AWS_SECRET_ACCESS_KEY=abc", "AWS_SESSION_TOKEN=abc"],
                "AWS_SECRET_ACCESS_KEY=M|AWS_SESSION_TOKEN=M",
            ),
            (&["--token", "--verbose"], "--token|--verbose"),
            (&["host=db password=hunter2 user=ann"], "host=db password=M user=ann"),
            (&["--dsn=host=db password=hunter2 user=ann"], "--dsn=host=db password=M user=ann"),
            (&["{\"password\": \"hunter2\", \"k\": 8}"], "{\"password\": \"M\", \"k\": 8}"),
            (&["https://host/x?n=1&token=abc&z=2"], "https://host/x?n=1&token=M&z=2"),
            // Headers.
            (&["-H", "Authorization: Bearer abc.def"], "-H|Authorization: M"),
            (&["--header=Authorization: Basic YW5uOnB3"], "--header=Authorization: M"),
            (&["-H", "X-Api-Key: abc"], "-H|X-Api-Key: M"),
            (&["Authorization:", "Bearer", "abc"], "Authorization:|Bearer|M"),
            (&["say Bearer abc now"], "say Bearer M now"),
            // Addresses.
            (&["https://ann:pw@host/x?y=1"], "https://ann:M@host/x?y=1"),
            (&["postgresql://ann:p/w#1@host:5432/db"], "postgresql://ann:M@host:5432/db"),
            (&["a://u:p@h,b://v:q@i x"], "a://u:M@h,b://v:M@i x"),
            (
                &["https://host:80/ann@lab", "https://ann@host/x"],
                "https://host:80/ann@lab|https://ann@host/x",
            ),
            // Keys with a form of their own.
            (&["ghp_0123456789abcdefghij"], "M"),
            (&["AKIAIOSFODNN7EXAMPLE", "ASIAIOSFODNN7EXAMPLE"], "M|M"),
            (&["sk-proj-0123456789abcdef0123"], "M"),
            (&["key sk-ant-api03-0123456789abcdef, and"], "key M, and"),
            (&["AIzaSyA0123456789abcdefghijklmnopqrstuv"], "M"),
            (&["sk-learn", "sk-", "AIza", "hf_hub"], "sk-learn|sk-|AIza|hf_hub"),
            // One letter says nothing.
            (&["-phunter2", "-p8080", "-p", "4"], "-phunter2|-p8080|-p|4"),
            // What is none.
            (&["fit", "kmeans", "x.csv", "--k", "8"], "fit|kmeans|x.csv|--k|8"),
            (&["--pad-token", "0", "--max-tokens=5"], "--pad-token|0|--max-tokens=5"),
            (&["ann@lab3:2222", "a&b", "x=1", "secret:8080"], "ann@lab3:2222|a&b|x=1|secret:8080"),
            (&["a: b = c", "1:2:3", "==", "C:\\x"], "a: b = c|1:2:3|==|C:\\x"),
        ] {
            // `M` alone stands for a secret.
            let left: Vec<String> = left.split('|').map(with_mask).collect();
            assert_eq!(mask(given), left, "{given:?}");
        }
    }
}
