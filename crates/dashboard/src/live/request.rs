//! Which requests are answered, and with what.
//!
//! Comes in: the bytes of a request. Goes out: an [`Answer`]. Everything in a request is a claim of whoever reached the port: other users of
//! this machine, and any page in the user's browser. So the path must begin with the token; `Host` must be this machine or the host
//! of the link, which a page whose name was pointed at this machine (DNS rebinding) does not have; and `Origin`, which browsers send when
//! a script asks, must be the page's own.

/// A request has at most so many bytes and headers.
pub(super) const REQUEST_BYTES_MAX: usize = 16 << 10;
const HEADERS_MAX: usize = 64;

/// What a request gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The page.
    Page,
    /// The page's connection.
    Events,
    /// The page's address with its final slash.
    Redirect,
    /// A status, and why.
    Refused(&'static str, &'static str),
}

/// Knows the token and the hosts.
pub(super) struct Gate {
    token: String,
    /// A host of requests besides those of the loopback interface.
    host: Option<String>,
}

const NO_TOKEN: Answer = Answer::Refused(
    "403 Forbidden",
    "This address has no token, or a wrong one. Open the whole link that qjam printed.",
);
const FOREIGN_HOST: Answer = Answer::Refused(
    "403 Forbidden",
    "The request is for another host than this machine. Behind a proxy, QJAM_DASHBOARD_LINK names the host.",
);
const FOREIGN_ORIGIN: Answer =
    Answer::Refused("403 Forbidden", "The request was made by a page of another origin.");
const BAD: Answer = Answer::Refused("400 Bad Request", "This is not a request of HTTP/1.1.");
const NOT_GET: Answer = Answer::Refused("405 Method Not Allowed", "Only GET is understood.");
const NOTHING: Answer = Answer::Refused("404 Not Found", "There is nothing at this address.");
pub(super) const TOO_LONG: Answer =
    Answer::Refused("431 Request Header Fields Too Large", "The request is too long.");

impl Gate {
    pub(super) fn new(token: &str, host: Option<String>) -> Gate {
        Gate { token: token.to_owned(), host }
    }

    /// The token, for the redirect.
    pub(super) fn token(&self) -> &str {
        &self.token
    }

    /// What a request gets; `None` if it is not complete yet.
    pub(super) fn answer(&self, bytes: &[u8]) -> Option<Answer> {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut request = httparse::Request::new(&mut headers);
        match request.parse(bytes) {
            Ok(httparse::Status::Complete(_)) => {}
            Ok(httparse::Status::Partial) => return None,
            Err(httparse::Error::TooManyHeaders) => return Some(TOO_LONG),
            Err(_) => return Some(BAD),
        }
        Some(self.judge(&request))
    }

    fn judge(&self, request: &httparse::Request<'_, '_>) -> Answer {
        // A header that is there twice is read differently by different programs.
        let header = |name: &str| -> Result<Option<&[u8]>, Answer> {
            let mut all = request.headers.iter().filter(|header| header.name.eq_ignore_ascii_case(name));
            match (all.next(), all.next()) {
                (_, Some(_)) => Err(BAD),
                (first, None) => Ok(first.map(|header| header.value)),
            }
        };
        let (host, origin) = match (header("host"), header("origin")) {
            (Ok(Some(host)), Ok(origin)) => (host, origin),
            (Ok(None), _) | (Err(_), _) | (_, Err(_)) => return BAD,
        };
        let host = String::from_utf8_lossy(host).to_ascii_lowercase();
        if !self.is_host(&host) {
            return FOREIGN_HOST;
        }
        if let Some(origin) = origin {
            let origin = String::from_utf8_lossy(origin).to_ascii_lowercase();
            let of_origin = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
            if of_origin != Some(host.as_str()) {
                return FOREIGN_ORIGIN;
            }
        }
        let path = request.path.unwrap_or_default();
        let path = path.split_once('?').map_or(path, |(path, _)| path);
        let Some(path) = path.strip_prefix('/') else { return BAD };
        let (token, rest) = path.split_once('/').map_or((path, None), |(token, rest)| (token, Some(rest)));
        if !is_equal(token.as_bytes(), self.token.as_bytes()) {
            return NO_TOKEN;
        }
        if request.method != Some("GET") {
            return NOT_GET;
        }
        match rest {
            None => Answer::Redirect,
            Some("") => Answer::Page,
            Some("events") => Answer::Events,
            Some(_) => NOTHING,
        }
    }

    /// Whether a `Host` is this machine, on whatever port: a tunnel may have another.
    fn is_host(&self, host: &str) -> bool {
        if self.host.as_deref() == Some(host) {
            return true;
        }
        let (name, port) = match host.rsplit_once(':') {
            Some((name, port)) if !port.ends_with(']') => (name, Some(port)),
            _ => (host, None),
        };
        let is_port = port.is_none_or(|port| port.parse::<u16>().is_ok());
        is_port && matches!(name, "127.0.0.1" | "localhost" | "[::1]")
    }
}

/// Compares in a time that says nothing about where the texts differ.
fn is_equal(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gate() -> Gate {
        Gate::new("0123abcd", Some("hub.example.org".into()))
    }

    fn asked(line: &str, headers: &[&str]) -> Option<Answer> {
        let text: String = std::iter::once(&line).chain(headers).map(|line| format!("{line}\r\n")).collect();
        gate().answer(format!("{text}\r\n").as_bytes())
    }

    const HOST: &str = "Host: 127.0.0.1:81";

    #[test]
    fn the_token_opens_the_page_and_its_connection_and_nothing_else() {
        let get = |path: &str| asked(&format!("GET {path} HTTP/1.1"), &[HOST]);
        assert_eq!(get("/0123abcd/"), Some(Answer::Page));
        assert_eq!(get("/0123abcd/?x=1"), Some(Answer::Page));
        assert_eq!(get("/0123abcd/events"), Some(Answer::Events));
        assert_eq!(get("/0123abcd"), Some(Answer::Redirect));
        for nothing in ["/0123abcd/other", "/0123abcd/../events", "/0123abcd//events"] {
            assert_eq!(get(nothing), Some(NOTHING), "{nothing}");
        }
        for refused in
            ["/", "/events", "/0123abce/", "/0123abcd0/", "/0123abc/", "//0123abcd/", "/?token=0123abcd"]
        {
            assert_eq!(get(refused), Some(NO_TOKEN), "{refused}");
        }
        for method in ["POST", "PUT", "DELETE", "OPTIONS", "HEAD", "CONNECT", "get"] {
            assert_eq!(asked(&format!("{method} /0123abcd/ HTTP/1.1"), &[HOST]), Some(NOT_GET), "{method}");
        }
    }

    #[test]
    fn foreign_hosts_and_origins_are_refused() {
        let with = |headers: &[&str]| asked("GET /0123abcd/events HTTP/1.1", headers);
        for host in ["127.0.0.1:81", "localhost", "LOCALHOST:9999", "[::1]:81", "hub.example.org"] {
            assert_eq!(with(&[&format!("Host: {host}")]), Some(Answer::Events), "{host}");
        }
        let foreign = [
            "evil.example",
            "127.0.0.1.evil.example:81",
            "localhost:x",
            "",
            "127.0.0.2",
            "hub.example.org:1",
        ];
        for host in foreign {
            assert_eq!(with(&[&format!("Host: {host}")]), Some(FOREIGN_HOST), "{host}");
        }
        assert_eq!(with(&[HOST, "Origin: http://127.0.0.1:81"]), Some(Answer::Events));
        for origin in
            ["http://evil.example", "null", "http://127.0.0.1:82", "http://localhost:81", "127.0.0.1:81", ""]
        {
            assert_eq!(with(&[HOST, &format!("Origin: {origin}")]), Some(FOREIGN_ORIGIN), "{origin}");
        }
        assert_eq!(with(&[]), Some(BAD), "no host");
        assert_eq!(with(&[HOST, "Host: evil.example"]), Some(BAD), "two hosts");
        assert_eq!(with(&[HOST, "Origin: http://127.0.0.1:81", "Origin: null"]), Some(BAD), "two origins");
    }

    #[test]
    fn what_is_no_request_is_refused_and_what_is_not_complete_waits() {
        assert_eq!(gate().answer(b"GET /0123abcd/ HTTP/1.1\r\nHost: lo"), None);
        assert_eq!(gate().answer(b""), None);
        for bad in [
            &b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[..],
            b"GET / HTTP/9\r\n\r\n",
            b"\xff\xff\r\n\r\n",
        ] {
            assert_eq!(gate().answer(bad), Some(BAD));
        }
        let many = "X: y\r\n".repeat(HEADERS_MAX + 1);
        assert_eq!(gate().answer(format!("GET / HTTP/1.1\r\n{many}\r\n").as_bytes()), Some(TOO_LONG));
    }
}
