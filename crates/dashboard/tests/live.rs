//! The server of live pages, asked over its port as browsers would, about a run file that grows.

use qjam::runs::Written;
use qjam_dashboard::live::Dashboard;
use serde_json::Value;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::Duration;

/// Whoever waits longer waits for ever.
const HANG: Duration = Duration::from_secs(180);

/// A run file of a master that does not exist, locked as by one.
struct Run {
    path: PathBuf,
    file: File,
    written: Written,
}

impl Run {
    fn new(name: &str, workers: u32) -> Run {
        let path = std::env::temp_dir().join(format!("qjam-live-{}-{name}.run", std::process::id()));
        let (bytes, written) = Written::begin(workers, 1000);
        let mut file = File::create(&path).expect("a file");
        rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive).expect("its lock");
        file.write_all(&bytes).expect("its beginning");
        Run { path, file, written }
    }

    fn grow(&mut self, rounds: u32) {
        let bytes: Vec<u8> = (0..rounds).flat_map(|_| self.written.round()).collect();
        self.file.write_all(&bytes).expect("more rounds");
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// A page's connection.
struct Page(BufReader<TcpStream>);

impl Page {
    fn connect(dashboard: &Dashboard) -> Page {
        let mut stream = TcpStream::connect(("127.0.0.1", dashboard.port())).expect("a connection");
        stream.set_read_timeout(Some(HANG)).expect("a limit");
        let path = dashboard.link().splitn(4, '/').last().expect("a path");
        let request = format!("GET /{path}events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("the request is sent");
        let mut page = Page(BufReader::new(stream));
        let head = page.lines();
        assert!(
            head[0].starts_with("HTTP/1.1 200") && head.iter().any(|line| line.contains("text/event-stream"))
        );
        page
    }

    /// Lines up to an empty one.
    fn lines(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            let count = self.0.read_line(&mut line).expect("a line");
            let line = line.trim_end();
            if count == 0 || line.is_empty() {
                return lines;
            }
            lines.push(line.to_owned());
        }
    }

    /// The next event and its data; `None` at the end.
    fn event(&mut self) -> Option<(String, Value)> {
        loop {
            let lines = self.lines();
            let [event, data] = lines.as_slice() else {
                match lines.first() {
                    None => return None,
                    Some(comment) => assert_eq!(comment, ":"),
                }
                continue;
            };
            let name = event.strip_prefix("event: ").expect("an event").to_owned();
            let data = data.strip_prefix("data: ").expect("its data");
            return Some((name, serde_json::from_str(data).expect("JSON")));
        }
    }
}

#[test]
fn pages_get_all_of_the_run_and_then_what_is_new() {
    let mut run = Run::new("pages", 3);
    run.grow(10);
    let dashboard = Dashboard::start(&run.path).expect("a dashboard");
    let mut pages: Vec<Page> = (0..40).map(|_| Page::connect(&dashboard)).collect();
    for page in &mut pages {
        let (name, data) = page.event().expect("an event");
        assert_eq!((name.as_str(), &data["facts"]["counts"]["finished"]), ("whole", &Value::from(10)));
        assert_eq!(data["lanes"]["lanes"][2]["cells"].as_array().map(Vec::len), Some(10));
    }
    run.grow(5);
    for page in &mut pages {
        // What is new may come in several messages.
        let (mut counted, mut finished) = (0, Value::Null);
        while finished != 15 {
            let (name, data) = page.event().expect("an event");
            assert_eq!(name, "more");
            let from = data["columns"]["from"].as_u64().expect("a place");
            let new = data["columns"]["count"].as_array().expect("columns").len() as u64;
            (counted, finished) = (from + new, data["facts"]["counts"]["finished"].clone());
            let lanes = data["lanes"]["more"]["tails"].as_array().expect("lanes");
            assert!(lanes.len() == 3 && lanes[0].as_array().is_some_and(|lane| lane.len() > 4));
        }
        assert_eq!(counted, 15);
    }
    let port = dashboard.port();
    drop(dashboard);
    for page in &mut pages {
        while page.event().is_some() {}
    }
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err(), "nobody listens any more");
}

#[test]
fn the_end_of_a_run_is_told_before_the_server_ends() {
    let mut run = Run::new("end", 2);
    let dashboard = Dashboard::start(&run.path).expect("a dashboard");
    let mut page = Page::connect(&dashboard);
    assert_eq!(page.event().expect("an event").1["facts"]["state"], "running");
    run.grow(3);
    rustix::fs::flock(&run.file, rustix::fs::FlockOperation::Unlock).expect("the lock goes");
    drop(dashboard);
    let mut last = Value::Null;
    while let Some((_, data)) = page.event() {
        last = data["facts"].clone();
    }
    assert_eq!((&last["state"], &last["counts"]["finished"]), (&"killed".into(), &3.into()));
}

#[test]
fn a_page_that_does_not_read_is_dropped_and_the_others_go_on() {
    let mut run = Run::new("slow", 2000);
    run.grow(30);
    let dashboard = Dashboard::start(&run.path).expect("a dashboard");
    let slow = Page::connect(&dashboard);
    let _ = rustix::net::sockopt::set_socket_recv_buffer_size(slow.0.get_ref(), 16 << 10);
    let mut good = Page::connect(&dashboard);
    // Every message is some 50 kB, so that the system's buffers fill up.
    let mut messages = 0;
    while dashboard.pages() > 1 || messages == 0 {
        run.grow(1);
        assert!(good.event().is_some(), "who reads is not dropped");
        messages += 1;
        assert!(messages < 5_000, "the slow page is never dropped");
    }
    drop(slow);
    run.grow(1);
    assert!(good.event().is_some());
}

#[test]
fn nothing_is_read_while_nobody_looks_and_too_many_pages_are_refused() {
    let mut run = Run::new("many", 1);
    run.grow(1);
    let dashboard = Dashboard::start(&run.path).expect("a dashboard");
    assert_eq!(dashboard.pages(), 0);
    let pages: Vec<Page> = (0..64).map(|_| Page::connect(&dashboard)).collect();
    let mut stream = TcpStream::connect(("127.0.0.1", dashboard.port())).expect("a connection");
    let path = dashboard.link().splitn(4, '/').last().expect("a path");
    stream
        .write_all(format!("GET /{path}events HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes())
        .expect("it is sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    drop(pages);
}
