//! Connections of browsers: one request each, on a thread of its own.
//!
//! A request must be complete within [`REQUEST_WITHIN`], and whoever is sent something must take it within [`WRITE_WITHIN`]. A connection
//! is closed after its answer.

use super::feed::{Feed, PAGES_MAX};
use super::request::{Answer, Gate, REQUEST_BYTES_MAX, TOO_LONG};
use crate::report::Parts;
use rustix::event::{PollFd, PollFlags, poll};
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

const REQUEST_WITHIN: Duration = Duration::from_secs(10);
const WRITE_WITHIN: Duration = Duration::from_secs(10);
/// What the system keeps of what was sent to a page and was not read.
const SEND_BUFFER_BYTES: usize = 256 << 10;
/// So many connections may be open: those of pages, and short ones.
const CONNECTIONS_MAX: usize = PAGES_MAX + 32;

/// What every answer says: nothing of it is kept, framed, guessed at, or shown to another origin.
const HEADERS: &str = "Connection: close\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n\
    Referrer-Policy: no-referrer\r\nCross-Origin-Resource-Policy: same-origin\r\n";

/// What runs in the page besides what a report has.
const LIVE: &str = include_str!("live.js");

/// Accepts connections until the other side of `end` is closed.
pub(super) fn run(
    listener: &TcpListener,
    end: &UnixStream,
    gate: &Arc<Gate>,
    feed: &Arc<Feed>,
    open: &Arc<AtomicUsize>,
) {
    loop {
        let mut fds = [PollFd::new(listener, PollFlags::IN), PollFd::new(end, PollFlags::IN)];
        match poll(&mut fds, None) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(_) => return,
        }
        if !fds[1].revents().is_empty() {
            return;
        }
        let Ok((stream, _)) = listener.accept() else {
            // Out of descriptors, or the client is gone; the pause keeps this from turning for nothing.
            std::thread::sleep(Duration::from_millis(10));
            continue;
        };
        let slot = Slot::take(open);
        if open.load(Relaxed) > CONNECTIONS_MAX {
            drop(stream);
            continue;
        }
        let (gate, feed) = (gate.clone(), feed.clone());
        let work = move || {
            // A client that is gone needs no answer.
            let _ = attend(&stream, &gate, &feed);
            drop(slot);
        };
        let _ = std::thread::Builder::new().name("qjam-dash-page".into()).stack_size(256 << 10).spawn(work);
    }
}

/// A connection that is counted.
struct Slot(Arc<AtomicUsize>);

impl Slot {
    fn take(open: &Arc<AtomicUsize>) -> Slot {
        open.fetch_add(1, Relaxed);
        Slot(open.clone())
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

fn attend(mut stream: &TcpStream, gate: &Gate, feed: &Feed) -> io::Result<()> {
    stream.set_write_timeout(Some(WRITE_WITHIN))?;
    // The system would let it grow to megabytes for a page that does not read.
    let _ = rustix::net::sockopt::set_socket_send_buffer_size(stream, SEND_BUFFER_BYTES);
    let Some(answer) = read(stream, gate)? else { return Ok(()) };
    match answer {
        Answer::Page => {
            let nonce = super::token()?;
            let policy = format!(
                "default-src 'none'; style-src 'nonce-{nonce}'; script-src 'nonce-{nonce}'; connect-src 'self'; base-uri 'none'; \
                 form-action 'none'; frame-ancestors 'none'"
            );
            // What only a header can say is left out of the page.
            let in_page = policy.replace("; frame-ancestors 'none'", "");
            let nonce = format!(" nonce=\"{nonce}\"");
            let page =
                Parts { id: feed.id(), json: "null", policy: &in_page, nonce: &nonce, main: LIVE }.render();
            let more = format!("Content-Security-Policy: {policy}\r\n");
            send(stream, "200 OK", "text/html; charset=utf-8", &more, &page)
        }
        Answer::Events => events(stream, feed),
        Answer::Redirect => {
            let more = format!("Location: {}/\r\n", gate.token());
            send(stream, "308 Permanent Redirect", "text/plain; charset=utf-8", &more, "")
        }
        Answer::Refused(status, why) => {
            let more = if status.starts_with("405") { "Allow: GET\r\n" } else { "" };
            send(stream, status, "text/plain; charset=utf-8", more, &format!("{why}\n"))?;
            // A client that is still sending would otherwise see a reset instead of the answer.
            let _ = stream.shutdown(std::net::Shutdown::Write);
            stream.set_read_timeout(Some(Duration::from_millis(200)))?;
            let _ = stream.read(&mut [0; REQUEST_BYTES_MAX]);
            Ok(())
        }
    }
}

/// Reads a request, and says what it gets; `None` if the client closed before.
fn read(mut stream: &TcpStream, gate: &Gate) -> io::Result<Option<Answer>> {
    let (start, mut bytes) = (Instant::now(), Vec::new());
    loop {
        let left = REQUEST_WITHIN.saturating_sub(start.elapsed());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        let mut piece = [0; 4096];
        let count = stream.read(&mut piece)?;
        if count == 0 {
            return Ok(None);
        }
        bytes.extend_from_slice(&piece[..count]);
        if let Some(answer) = gate.answer(&bytes) {
            return Ok(Some(answer));
        }
        if bytes.len() > REQUEST_BYTES_MAX {
            return Ok(Some(TOO_LONG));
        }
    }
}

fn send(mut stream: &TcpStream, status: &str, kind: &str, more: &str, body: &str) -> io::Result<()> {
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n{HEADERS}{more}\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())
}

/// Sends what the feed has until the page is gone, or does not read, or the server ends.
fn events(mut stream: &TcpStream, feed: &Feed) -> io::Result<()> {
    let Some(messages) = feed.connect() else {
        return send(
            stream,
            "503 Service Unavailable",
            "text/plain; charset=utf-8",
            "",
            "Too many pages are open.\n",
        );
    };
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nX-Accel-Buffering: no\r\n{HEADERS}\r\n"
    );
    stream.write_all(head.as_bytes())?;
    for message in messages {
        write_all_within(stream, message.as_bytes())?;
    }
    Ok(())
}

/// Writes all of a message within the limit, however slowly its reader takes single pieces.
fn write_all_within(mut stream: &TcpStream, mut bytes: &[u8]) -> io::Result<()> {
    let start = Instant::now();
    while !bytes.is_empty() {
        if start.elapsed() > WRITE_WITHIN {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let count = stream.write(bytes)?;
        if count == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        bytes = &bytes[count..];
    }
    Ok(())
}
