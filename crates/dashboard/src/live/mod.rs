//! The page of a run while it goes on, for a browser on this machine.
//!
//! ```text
//!   run file ──▶ Summary ──▶ feed: all of it once, then changes ──▶ one queue per page ──▶ its connection
//!     (read by a thread of its own, and only while somebody looks)          (bounded)
//! ```
//!
//! The server reads the run file and nothing else, so the loop of the master does not know of it, and the run of another program of the
//! same user is watched in the same way. It listens on one port of the loopback interface that the system chooses, understands GET
//! alone, and answers only requests whose path has the token of the link, whose `Host` is this machine, and whose `Origin`, if there is
//! one, is the page itself ([`request`]). Clients and what is kept for each are limited ([`feed`]).
//!
//! All links in the page are relative, so it works below a path prefix, as the proxies of notebook servers have one.
//! [`LINK`] names such a prefix.

mod feed;
mod request;
mod serve;

use feed::Feed;
use request::Gate;
use std::io::{self, Read};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use thiserror::Error;

/// Names the address under which a browser reaches the dashboard, if that is not the loopback interface: a URL in which `{port}` and
/// variables of the environment such as `{JUPYTERHUB_SERVICE_PREFIX}` are replaced. Requests for its host are answered, too.
pub const LINK: &str = "QJAM_DASHBOARD_LINK";

/// So long the end of a server waits for pages to take the last changes.
const FAREWELL: Duration = Duration::from_millis(500);

/// Why there is no dashboard.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DashboardError {
    /// The run file cannot be read.
    #[error("the dashboard cannot read the run file: {0}")]
    Run(#[from] qjam::runs::RunError),
    /// The system refuses a port, a thread or a random number.
    #[error("the dashboard cannot be started: {0}")]
    Io(#[from] io::Error),
    /// The variable is not a URL.
    #[error("{LINK} is {0:?}; write a URL such as https://hub.example.org/user/ann/proxy/{{port}}/")]
    Link(String),
}

/// A server of the page of one run. It ends when it is dropped, or with its process.
pub struct Dashboard {
    link: String,
    port: u16,
    feed: Arc<Feed>,
    /// How many connections are open.
    open: Arc<AtomicUsize>,
    /// Closed to end the server.
    alarm: Option<UnixStream>,
    threads: Vec<JoinHandle<()>>,
}

impl Dashboard {
    /// Serves the page of a run file, complete or growing.
    pub fn start(run_file: &Path) -> Result<Dashboard, DashboardError> {
        let token = token()?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = listener.local_addr()?.port();
        let (base, host) = base(port, std::env::var(LINK).ok(), |name| std::env::var(name).ok())?;
        let gate = Arc::new(Gate::new(&token, host));
        let feed = Arc::new(Feed::open(run_file)?);
        let (alarm, end) = UnixStream::pair()?;
        let (reading, serving) = (feed.clone(), feed.clone());
        let open = Arc::new(AtomicUsize::new(0));
        let counted = open.clone();
        let reader = spawn("qjam-dash-feed", move || reading.run())?;
        let server = spawn("qjam-dash-serve", move || serve::run(&listener, &end, &gate, &serving, &counted));
        let link = format!("{base}{token}/");
        let mut dashboard = Dashboard { link, port, feed, open, alarm: Some(alarm), threads: vec![reader] };
        // If this thread cannot be had, dropping what is there ends the other.
        dashboard.threads.push(server?);
        Ok(dashboard)
    }

    /// The address of the page. Whoever has it can see the run, so it should not be published.
    pub fn link(&self) -> &str {
        &self.link
    }

    /// The port on the loopback interface.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// How many pages are connected.
    pub fn pages(&self) -> usize {
        self.feed.pages()
    }
}

impl Drop for Dashboard {
    fn drop(&mut self) {
        self.alarm = None;
        self.feed.end();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
        // Pages that read are told how the run ended; who does not read keeps nobody from ending.
        let start = Instant::now();
        while self.open.load(Relaxed) > 0 && start.elapsed() < FAREWELL {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name(name.into()).spawn(work)
}

/// Sixteen random bytes as text.
fn token() -> io::Result<String> {
    let mut bytes = [0; 16];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The address before the token, and the host in it if it is another one.
fn base(
    port: u16,
    link: Option<String>,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<(String, Option<String>), DashboardError> {
    let Some(link) = link.filter(|link| !link.is_empty()) else {
        return Ok((format!("http://127.0.0.1:{port}/"), None));
    };
    let wrong = || DashboardError::Link(link.clone());
    let (mut url, mut rest) = (String::new(), link.as_str());
    while let Some((before, after)) = rest.split_once('{') {
        let (name, after) = after.split_once('}').ok_or_else(wrong)?;
        url.push_str(before);
        match name {
            "port" => url.push_str(&port.to_string()),
            name => {
                url.push_str(variable(name).ok_or_else(wrong)?.trim_start_matches('/').trim_end_matches('/'))
            }
        }
        rest = after;
    }
    url.push_str(rest);
    let schemes = [("https://", ":443"), ("http://", ":80")];
    let of_scheme = |(scheme, port)| Some((url.strip_prefix(scheme)?, port));
    let (after_scheme, usual_port) = schemes.into_iter().find_map(of_scheme).ok_or_else(wrong)?;
    let host = after_scheme.split('/').next().unwrap_or_default().to_ascii_lowercase();
    // Browsers leave out the usual port of a scheme.
    let host = host.strip_suffix(usual_port).unwrap_or(&host).to_owned();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | ':' | '[' | ']');
    if host.is_empty()
        || !host.chars().all(is_plain)
        || url.chars().any(|c| c.is_control() || c.is_whitespace())
    {
        return Err(wrong());
    }
    if !url.ends_with('/') {
        url.push('/');
    }
    Ok((url, Some(host)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_link_is_on_the_loopback_unless_the_environment_says_otherwise() {
        let plain = base(81, None, |_| None).expect("a link");
        assert_eq!(plain, ("http://127.0.0.1:81/".into(), None));
        let prefix = |name: &str| (name == "PREFIX").then(|| "/user/ann/".to_owned());
        let hub = base(81, Some("https://hub.example.org:8443/{PREFIX}/proxy/{port}".into()), prefix);
        let (url, host) = hub.expect("a link");
        assert_eq!(url, "https://hub.example.org:8443/user/ann/proxy/81/");
        assert_eq!(host.as_deref(), Some("hub.example.org:8443"));
        for (link, expected) in [
            ("https://Hub.example.org:443/", "hub.example.org"),
            ("http://hub.example.org:80", "hub.example.org"),
            ("http://hub.example.org:443/", "hub.example.org:443"),
            ("https://[::1]:8443/", "[::1]:8443"),
        ] {
            let (_, host) = base(81, Some(link.into()), |_| None).expect("a link");
            assert_eq!(host.as_deref(), Some(expected), "{link}");
        }
        for wrong in [
            "https://:443/",
            "hub.example.org/",
            "https://",
            "https://a b/",
            "https://h/{PORT}/",
            "https://h/{port",
            "ftp://h/",
        ] {
            assert!(
                matches!(base(81, Some(wrong.into()), |_| None), Err(DashboardError::Link(_))),
                "{wrong}"
            );
        }
    }

    #[test]
    fn tokens_are_long_and_differ() {
        let (first, second) = (token().expect("random bytes"), token().expect("random bytes"));
        assert!(first.len() == 32 && first != second);
    }
}
