//! What is wrong when a cloud refuses, in one sentence that says what to do.

use crate::StoreError;
use object_store::Error as ObjectError;
use std::error::Error;
use std::io;

/// A clock that differs by more is why a signature is refused: it says when it was made.
const SKEW_S_MAX: i64 = 300;
/// How much is told of what a storage says that is not known here.
const TOLD_BYTES_MAX: usize = 300;

/// A code of our own: nobody has any credentials.
const NO_CREDENTIALS: &str = "NoCredentials";

/// The words of a kind of cloud.
#[derive(Debug)]
pub(crate) struct Words {
    /// What a bucket is called there.
    pub(crate) bucket: &'static str,
    /// The command that makes one, up to its name.
    pub(crate) make: &'static str,
    /// The variables with credentials.
    pub(crate) credentials: &'static str,
    /// The variables that say where the storage is.
    pub(crate) endpoint: &'static str,
}

/// Which bucket requests are about.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) words: &'static Words,
    /// Its address.
    pub(crate) url: String,
    /// Its name.
    pub(crate) name: String,
    /// Where the storage is.
    pub(crate) endpoint: String,
}

/// What a storage has said.
#[derive(Debug, Default)]
pub(crate) struct Refusal {
    /// The status of the response, if there was one.
    pub(crate) status: Option<u16>,
    /// What kind of error it is, in the storage's own words.
    pub(crate) code: String,
    /// All that is known.
    pub(crate) text: String,
    /// Why there was no response.
    pub(crate) io: Option<io::ErrorKind>,
}

impl Refusal {
    /// Of a response.
    pub(crate) fn of_response(status: u16, body: &str) -> Refusal {
        Refusal { status: Some(status), code: code_in(body), text: format!("{status}: {body}"), io: None }
    }

    /// Of whatever ended a request.
    pub(crate) fn of_error(error: &(dyn Error + 'static)) -> Refusal {
        let chain = || causes(error);
        let texts: Vec<String> = chain().map(|error| error.to_string()).collect();
        // The innermost cause says most, unless it is a part of what another says.
        let text = texts.iter().find(|text| text.contains("status code")).or(texts.last());
        let text = text.cloned().unwrap_or_default();
        let io = chain().find_map(|error| error.downcast_ref::<io::Error>()).map(io::Error::kind);
        let unreachable = texts.iter().any(|text| {
            text.contains("error trying to connect")
                || text.contains("dns error")
                || text.contains("timed out")
        });
        // Where machines of the clouds ask for credentials of their own, when the environment has none.
        let has_no_credentials = texts.iter().any(|text| text.contains("169.254.169.254"));
        Refusal {
            status: status_in(&text),
            code: if has_no_credentials { NO_CREDENTIALS.into() } else { code_in(&text) },
            io: io.or(unreachable.then_some(io::ErrorKind::NotConnected)),
            text,
        }
    }

    pub(crate) fn of(error: &ObjectError) -> Refusal {
        Refusal::of_error(error)
    }

    /// Whether the bucket itself is not there.
    pub(crate) fn is_no_bucket(&self) -> bool {
        matches!(self.code.as_str(), "ContainerNotFound" | "NoSuchBucket" | "ContainerBeingDeleted")
    }

    /// Whether the storage asks for fewer requests.
    pub(crate) fn is_busy(&self) -> bool {
        matches!(self.status, Some(429 | 503)) || matches!(self.code.as_str(), "SlowDown" | "ServerBusy")
    }

    /// Whether the connection ended before there was a response.
    pub(crate) fn is_interrupted(&self) -> bool {
        use io::ErrorKind::*;
        matches!(self.io, Some(ConnectionReset | ConnectionAborted | BrokenPipe | UnexpectedEof | TimedOut))
    }

    /// Whether the same request may succeed later.
    pub(crate) fn is_passing(&self) -> bool {
        self.is_busy() || self.io.is_some() || matches!(self.status, Some(408 | 500..=599))
    }
}

impl Target {
    /// What is wrong, and what to do. `own_lag_s` is by how much our own clock is behind the storage's.
    pub(crate) fn explain(&self, what: &str, refusal: &Refusal, own_lag_s: i64) -> StoreError {
        let Target { words, url, name, endpoint } = self;
        let Words { bucket, make, credentials, endpoint: variables } = words;
        let is_refused = matches!(refusal.status, Some(401 | 403));
        let is_skewed = refusal.code == "RequestTimeTooSkewed" || own_lag_s.abs() > SKEW_S_MAX;
        let code = if refusal.code.is_empty() { String::new() } else { format!(" ({})", refusal.code) };
        let (problem, remedy) = if refusal.is_no_bucket() {
            (
                format!("there is no {bucket} `{name}` at {endpoint}"),
                format!("make it first, for example with `{make}{name}`"),
            )
        } else if refusal.code == NO_CREDENTIALS {
            (
                "there are no credentials in the environment, nor does this machine have any".into(),
                format!("set {credentials}"),
            )
        } else if is_refused && is_skewed {
            let (by, side) =
                (own_lag_s.unsigned_abs().div_ceil(60), if own_lag_s > 0 { "behind" } else { "ahead" });
            (
                format!(
                    "the storage refuses requests because the clock of this machine is {by} minutes {side}"
                ),
                "set the clock, for example with `timedatectl set-ntp true`".into(),
            )
        } else if is_refused {
            (
                format!("the storage at {endpoint} refuses the credentials{code}"),
                format!("check {credentials}, and that they may read, write, list and delete"),
            )
        } else if refusal.is_busy() {
            (
                format!(
                    "the storage at {endpoint} has asked to slow down for longer than requests are repeated{code}"
                ),
                "use fewer workers, or ask for a higher limit".into(),
            )
        } else if let Some(kind) = refusal.io {
            (format!("cannot reach {endpoint}: {kind}"), format!("check the network, and {variables}"))
        } else {
            (format!("cannot {what}: {}", shortened(&refusal.text)), format!("check {credentials}"))
        };
        StoreError::Cloud { url: url.clone(), problem, remedy }
    }
}

/// An error, what it came from, and so on.
fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    let mut next = Some(error);
    std::iter::from_fn(move || {
        let error = next?;
        next = error.source();
        Some(error)
    })
}

/// What stands between the tags of a code in an answer.
fn code_in(text: &str) -> String {
    let rest = text.split_once("<Code>").map(|(_, rest)| rest);
    rest.and_then(|rest| rest.split_once("</Code>")).map(|(code, _)| code.to_owned()).unwrap_or_default()
}

/// The status in the words of an error.
fn status_in(text: &str) -> Option<u16> {
    text.split_once("status code: ")?.1.get(..3)?.parse().ok()
}

fn shortened(text: &str) -> String {
    let line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(TOLD_BYTES_MAX) {
        Some((at, _)) => format!("{} …", &line[..at]),
        None => line,
    }
}
