//! Where a host is: the `user@host:port` of a worker string.
//!
//! User and host become arguments of `ssh`, which gives some characters a meaning of its own, and so do shells that a
//! user's configuration may call with them. Only names made of harmless characters are accepted.

use std::fmt;

/// Longest host name; the domain name system has the same bound.
const HOST_BYTES_MAX: usize = 253;
/// Longest user name.
const USER_BYTES_MAX: usize = 64;

/// A host as `ssh` is told of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HostAddress {
    /// Whom to log in as; `None` leaves it to the configuration of `ssh`.
    pub user: Option<String>,
    /// A name, an alias of the configuration of `ssh`, or an address; IPv6 without brackets.
    pub host: String,
    /// Where it listens; `None` leaves it to the configuration of `ssh`.
    pub port: Option<u16>,
}

impl HostAddress {
    /// Reads `host`, `user@host`, `host:port` or all of it; an IPv6 address stands in brackets.
    ///
    /// An error is the part that is wrong, what is wrong with it, and what to write.
    pub(super) fn parse(text: &str) -> Result<Self, (&str, &'static str, &'static str)> {
        let (user, rest) = match text.rsplit_once('@') {
            Some((user, rest)) => (Some(check_user(user)?), rest),
            None => (None, text),
        };
        let (host, port) = match rest.strip_prefix('[') {
            Some(bracketed) => {
                let Some((inside, after)) = bracketed.split_once(']') else {
                    return Err((rest, "the bracket is not closed", "write for example `[fd00::7]:22`"));
                };
                if inside.parse::<std::net::Ipv6Addr>().is_err() {
                    return Err((inside, "not an IPv6 address", "write for example `[fd00::7]:22`"));
                }
                match after.strip_prefix(':') {
                    None if after.is_empty() => (inside, None),
                    None => return Err((after, "more than an address", "write for example `[fd00::7]:22`")),
                    Some(port) => (inside, Some(port)),
                }
            }
            None => {
                let (host, port) = rest.split_once(':').map_or((rest, None), |(h, p)| (h, Some(p)));
                if port.is_some_and(|p| p.contains(':')) {
                    return Err((rest, "too many colons", "put an IPv6 address in brackets: `[fd00::7]:22`"));
                }
                (check_host(host)?, port)
            }
        };
        let port = match port {
            None => None,
            Some(text) => Some(port_number(text).ok_or((
                text,
                "not a port",
                "a port is a number from 1 to 65535; slots are given by a star, for example `big*4`",
            ))?),
        };
        Ok(HostAddress { user, host: host.to_owned(), port })
    }
}

/// As it is written in a worker string.
impl fmt::Display for HostAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(user) = &self.user {
            write!(f, "{user}@")?;
        }
        if self.host.contains(':') {
            write!(f, "[{}]", self.host)?
        } else {
            f.write_str(&self.host)?
        }
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

const PLAIN: &str = "names consist of letters, digits, `.`, `_` and `-`, and do not begin with `-`";

/// A user's name that can go to `ssh`.
pub(super) fn check_user(user: &str) -> Result<String, (&str, &'static str, &'static str)> {
    if is_plain(user, USER_BYTES_MAX) { Ok(user.to_owned()) } else { Err((user, "not a user's name", PLAIN)) }
}

fn check_host(host: &str) -> Result<&str, (&str, &'static str, &'static str)> {
    if is_plain(host, HOST_BYTES_MAX) { Ok(host) } else { Err((host, "neither an engine nor a host", PLAIN)) }
}

fn is_plain(name: &str, bytes_max: usize) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
    (1..=bytes_max).contains(&name.len()) && !name.starts_with('-') && name.bytes().all(allowed)
}

fn port_number(text: &str) -> Option<u16> {
    // `+22` parses, but nobody means it.
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok()).flatten().filter(|port| *port > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_come_out_as_they_went_in() {
        let address = |user: Option<&str>, host: &str, port| HostAddress {
            user: user.map(Into::into),
            host: host.into(),
            port,
        };
        for (text, want) in [
            ("big", address(None, "big", None)),
            ("ann@big", address(Some("ann"), "big", None)),
            ("big.lan:2222", address(None, "big.lan", Some(2222))),
            ("ann_b.c-d@10.0.0.7:65535", address(Some("ann_b.c-d"), "10.0.0.7", Some(65535))),
            ("[fd00::7]", address(None, "fd00::7", None)),
            ("ann@[::1]:22", address(Some("ann"), "::1", Some(22))),
        ] {
            assert_eq!(HostAddress::parse(text).as_ref(), Ok(&want), "{text}");
            assert_eq!(want.to_string(), text);
        }
    }

    #[test]
    fn what_ssh_or_a_shell_could_misread_is_refused() {
        for text in [
            "",
            "@",
            "ann@",
            "@big",
            "-oProxyCommand=x",
            "-l@big",
            "a b",
            "big;ls",
            "$(ls)",
            "big%h",
            "a@b@c",
            "big:",
            "big:0",
            "big:65536",
            "big:+1",
            "::1",
            "fd00::7:22",
            "[::1",
            "[::1]x",
            "[big]",
            "[]",
            "b\u{7}g",
            "höst",
            "[fe80::1%-oX]",
        ] {
            assert!(HostAddress::parse(text).is_err(), "{text:?}");
        }
        assert!(HostAddress::parse(&"h".repeat(254)).is_err());
        assert!(HostAddress::parse(&format!("{}@h", "u".repeat(65))).is_err());
    }
}
