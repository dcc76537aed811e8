//! Stands between a client and a real server, and makes what a cloud does now and then: it refuses, throttles, or loses a response.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

/// What goes wrong.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    None,
    /// So many requests are answered like this, and do not reach the server.
    Answer {
        times: u32,
        status: u16,
        code: &'static str,
        date: Option<&'static str>,
    },
    /// Of so many requests of this method, which reach the server, the response is lost.
    Cut {
        method: &'static str,
        times: u32,
    },
}

impl Fault {
    /// All requests are answered like this.
    pub(crate) fn always(status: u16, code: &'static str) -> Fault {
        Fault::first(u32::MAX, status, code)
    }

    /// The first requests are answered like this.
    pub(crate) fn first(times: u32, status: u16, code: &'static str) -> Fault {
        Fault::Answer { times, status, code, date: None }
    }

    /// All requests are refused by somebody whose clock is far ahead.
    pub(crate) fn skewed(code: &'static str) -> Fault {
        Fault::Answer { times: u32::MAX, status: 403, code, date: Some("Thu, 01 Jan 2099 00:00:00 GMT") }
    }

    /// The responses to the first requests of this method are lost.
    pub(crate) fn cut_after(method: &'static str, times: u32) -> Fault {
        Fault::Cut { method, times }
    }
}

/// A proxy that listens on a port of its own, for as long as the tests run.
pub(crate) struct Proxy {
    pub(crate) port: u16,
    faults: Arc<AtomicU32>,
}

impl Proxy {
    /// In front of the server at this address.
    pub(crate) fn start(url: &str, fault: Fault) -> Proxy {
        let server = url.strip_prefix("http://").unwrap().split('/').next().unwrap().to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let faults = Arc::new(AtomicU32::new(0));
        let count = faults.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let (server, fault, count) = (server.clone(), fault.clone(), count.clone());
                std::thread::spawn(move || drop(pass(client, &server, &fault, &count)));
            }
        });
        Proxy { port, faults }
    }

    /// How often something went wrong.
    pub(crate) fn faults(&self) -> u32 {
        self.faults.load(SeqCst)
    }
}

/// Passes one request on, and its response back.
fn pass(mut client: TcpStream, server: &str, fault: &Fault, count: &AtomicU32) -> std::io::Result<()> {
    let Some((head, body)) = read_request(&mut client)? else { return Ok(()) };
    let is_due = |times: u32| count.fetch_update(SeqCst, SeqCst, |n| (n < times).then_some(n + 1)).is_ok();
    if let Fault::Answer { times, status, code, date } = fault
        && is_due(*times)
    {
        let text =
            format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>told so</Message></Error>");
        let date = date.map_or(String::new(), |date| format!("Date: {date}\r\n"));
        return write!(
            client,
            "HTTP/1.1 {status} Refused\r\n{date}Content-Type: application/xml\r\nContent-Length: {}\r\n\
             Connection: close\r\n\r\n{text}",
            text.len()
        );
    }
    let mut upstream = TcpStream::connect(server)?;
    let mut lines: Vec<&str> = head.split("\r\n").filter(|line| !line.is_empty()).collect();
    lines.retain(|line| !line.to_ascii_lowercase().starts_with("connection:"));
    upstream.write_all(format!("{}\r\nConnection: close\r\n\r\n", lines.join("\r\n")).as_bytes())?;
    upstream.write_all(&body)?;
    let mut response = Vec::new();
    upstream.read_to_end(&mut response)?;
    match fault {
        Fault::Cut { method, times } if head.starts_with(method) && is_due(*times) => {
            // With what has not been sent the connection is reset, not closed.
            rustix::net::sockopt::set_socket_linger(&client, Some(std::time::Duration::ZERO))?;
            Ok(())
        }
        _ => client.write_all(&response),
    }
}

/// The head and the body of a request; `None` if there is none.
fn read_request(client: &mut TcpStream) -> std::io::Result<Option<(String, Vec<u8>)>> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 16 << 10];
    loop {
        let read = client.read(&mut buffer)?;
        if read == 0 {
            return Ok(None);
        }
        bytes.extend_from_slice(&buffer[..read]);
        let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
        });
        let mut body = bytes.split_off(end + 4);
        let mut rest = vec![0; length.unwrap_or(0).saturating_sub(body.len())];
        client.read_exact(&mut rest)?;
        body.extend(rest);
        return Ok(Some((head, body)));
    }
}
