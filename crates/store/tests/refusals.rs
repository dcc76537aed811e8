//! What goes wrong with clouds, made to happen on real servers: each is one sentence that says what to do, or passes by itself.
//!
//! A bucket takes its settings from the environment. So whoever opens one is a program of its own, which is this executable.
//! `cargo xtask test --only clouds` starts the servers and runs these; without the features there are none.

#![cfg(all(feature = "azure", feature = "s3"))]
#![allow(clippy::unwrap_used, reason = "all of this is test")]

use bytes::Bytes;
use place::cloud::{connection, make_bucket_of, request, variable};
use proxy::{Fault, Proxy};
use qjam::{DataSet, Dense, Master};
use qjam_conformance::program::{Program, Programs, command, say};
use qjam_conformance::support::wait_until;
use qjam_core::bucket::Storage;
use qjam_core::time::Span;
use qjam_store::run::block_on;
use qjam_store::serve::{ServeOptions, serve};
use qjam_store::{Address, Bucket, Seal, StoreError};

mod place;
mod proxy;

const PROGRAMS: Programs = &[("look", look), ("work", work)];

qjam_conformance::hook!(PROGRAMS);

/// Opens a bucket, and says what is wrong with it.
fn look(url: &str) {
    let looked = || -> Result<(), StoreError> {
        let bucket = Bucket::open(&Address::parse(url)?.0, "job", Seal::without_key())?;
        block_on(async {
            let is_new = bucket.create("a/blob", Bytes::from_static(b"content")).await?;
            assert!(is_new, "our own write was taken for somebody else's");
            assert_eq!(bucket.get("a/blob").await?.as_deref(), Some(&b"content"[..]));
            bucket.send("task", Span(0)).await?;
            let mut delivery = bucket.receive(Span::from_ms(60_000)).await?.expect("the message");
            assert!(bucket.extend(&mut delivery, Span::from_ms(60_000)).await?);
            bucket.acknowledge(delivery).await
        })
    };
    say(looked().map_or_else(|e| e.to_string(), |()| "fine".into()));
}

/// What the program says that opens a bucket with these variables.
fn looked_at(url: &str, variables: &[(&str, &str)]) -> String {
    let mut command = command("look", url);
    command.envs(variables.iter().copied());
    let (said, status) = Program::run(command).finish();
    assert!(status.success(), "{url}: {said:?}");
    said.join("\n")
}

/// A connection string with another account key or other places.
fn connection_with(key: &str, blobs: &str, queues: &str) -> String {
    let account = connection("AccountName");
    format!("AccountName={account};AccountKey={key};BlobEndpoint={blobs};QueueEndpoint={queues}")
}

/// A connection string for places in front of the real ones.
fn connection_by(blobs: &Proxy, queues: &Proxy) -> String {
    let by = |proxy: &Proxy| format!("http://127.0.0.1:{}/{}", proxy.port, connection("AccountName"));
    connection_with(&connection("AccountKey"), &by(blobs), &by(queues))
}

const CONNECTION: &str = "AZURE_STORAGE_CONNECTION_STRING";
const ENDPOINT: &str = "AWS_ENDPOINT_URL";

/// A container and a bucket of this name.
fn made(name: &str) -> String {
    let name = format!("qjam-{name}-{}", std::process::id());
    make_bucket_of("azure", &name);
    make_bucket_of("s3", &name);
    name
}

/// A kind of cloud behind a proxy.
struct Behind {
    kind: &'static str,
    /// The variable by which it is found, and its value.
    variable: (&'static str, String),
    proxy: Proxy,
}

impl Behind {
    /// What the program says that opens a bucket there.
    fn looked_at(&self, name: &str) -> String {
        looked_at(&format!("{}://{name}", self.kind), &[(self.variable.0, &self.variable.1)])
    }
}

/// Both clouds behind a proxy each, which make this fault where blobs are.
fn behind(fault: &Fault) -> [Behind; 2] {
    let blobs = Proxy::start(&connection("BlobEndpoint"), fault.clone());
    let queues = Proxy::start(&connection("QueueEndpoint"), Fault::None);
    let s3 = Proxy::start(&variable(ENDPOINT), fault.clone());
    let by_azure = (CONNECTION, connection_by(&blobs, &queues));
    let by_s3 = (ENDPOINT, format!("http://127.0.0.1:{}", s3.port));
    [
        Behind { kind: "azure", variable: by_azure, proxy: blobs },
        Behind { kind: "s3", variable: by_s3, proxy: s3 },
    ]
}

#[test]
fn a_container_or_bucket_that_is_missing_is_named_with_the_command_that_makes_it() {
    let said = looked_at("azure://qjam-nowhere", &[]);
    assert!(
        said.starts_with("azure://qjam-nowhere: there is no container `qjam-nowhere` at http://"),
        "{said}"
    );
    assert!(said.contains("`az storage container create --name qjam-nowhere`"), "{said}");
    let said = looked_at("s3://qjam-nowhere/folder", &[]);
    assert!(
        said.starts_with("s3://qjam-nowhere/folder: there is no bucket `qjam-nowhere` at http://"),
        "{said}"
    );
    assert!(said.contains("`aws s3 mb s3://qjam-nowhere`"), "{said}");
}

#[test]
fn a_wrong_key_is_told_with_the_variables_to_check() {
    let name = made("key");
    let wrong = connection_with("d3Jvbmc=", &connection("BlobEndpoint"), &connection("QueueEndpoint"));
    let said = looked_at(&format!("azure://{name}"), &[(CONNECTION, &wrong)]);
    assert!(said.contains("refuses the credentials (Auth"), "{said}");
    assert!(said.contains("check AZURE_STORAGE_CONNECTION_STRING"), "{said}");
    // moto takes any key unless all of it is told otherwise.
    let proxy = Proxy::start(&variable(ENDPOINT), Fault::always(403, "InvalidAccessKeyId"));
    let endpoint = format!("http://127.0.0.1:{}", proxy.port);
    let said = looked_at(&format!("s3://{name}"), &[(ENDPOINT, &endpoint)]);
    assert!(said.contains("refuses the credentials (InvalidAccessKeyId); check AWS_ACCESS_KEY_ID"), "{said}");
    let said = looked_at(&format!("azure://{name}"), &[(CONNECTION, "AccountName=x;AccountKey=not base64")]);
    assert!(said.starts_with(&format!("azure://{name}: cannot use the settings")), "{said}");
}

#[test]
fn a_server_that_is_not_there_is_told_with_its_address() {
    let closed = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://127.0.0.1:{}", listener.local_addr().unwrap().port())
    };
    let said = looked_at("s3://bucket", &[(ENDPOINT, &closed)]);
    assert!(
        said.contains(&format!("cannot reach {closed}: connection refused; check the network")),
        "{said}"
    );
    assert!(said.contains("AWS_ENDPOINT_URL"), "{said}");
    let blobs = connection_with(&connection("AccountKey"), &closed, &closed);
    let said = looked_at("azure://container", &[(CONNECTION, &blobs)]);
    assert!(said.contains(&format!("cannot reach {closed}: connection refused")), "{said}");
}

#[test]
fn a_clock_that_is_wrong_is_told_with_its_difference() {
    for cloud in behind(&Fault::skewed("AuthenticationFailed")) {
        let said = cloud.looked_at("qjam-skew");
        assert!(
            said.contains("because the clock of this machine is ") && said.contains("minutes behind"),
            "{said}"
        );
        assert!(said.contains("set the clock"), "{said}");
    }
}

#[test]
fn a_storage_that_asks_to_slow_down_is_asked_again_later() {
    let name = made("slow");
    for (n, (code, word)) in
        [(503, "SlowDown"), (503, "ServerBusy"), (429, "TooManyRequests")].into_iter().enumerate()
    {
        for cloud in behind(&Fault::first(2, code, word)) {
            assert_eq!(cloud.looked_at(&format!("{name}/{n}")), "fine");
            assert_eq!(cloud.proxy.faults(), 2, "{word} of {}", cloud.kind);
        }
    }
    // The queue, too.
    let queues = Proxy::start(&connection("QueueEndpoint"), Fault::first(3, 503, "ServerBusy"));
    let blobs = Proxy::start(&connection("BlobEndpoint"), Fault::None);
    let said = looked_at(&format!("azure://{name}/queue"), &[(CONNECTION, &connection_by(&blobs, &queues))]);
    assert_eq!((said.as_str(), queues.faults()), ("fine", 3));
}

#[test]
fn a_storage_that_never_stops_asking_to_slow_down_is_told() {
    for cloud in behind(&Fault::always(503, "SlowDown")) {
        let said = cloud.looked_at("bucket");
        assert!(said.contains("has asked to slow down") && said.contains("use fewer workers"), "{said}");
        assert!(cloud.proxy.faults() > 1, "it was not asked again");
    }
}

#[test]
fn a_write_whose_response_was_lost_is_ours() {
    let name = made("cut");
    for cloud in behind(&Fault::cut_after("PUT", 1)) {
        assert_eq!(cloud.looked_at(&format!("{name}/cut")), "fine");
        assert_eq!(cloud.proxy.faults(), 1);
    }
}

#[qjam::map]
fn sums(by: &f64, x: &Dense<f64>) -> Vec<f64> {
    let mut sums = vec![0.0; 3];
    for row in x.rows_iter() {
        sums.iter_mut().zip(row).for_each(|(sum, v)| *sum += v * by);
    }
    sums
}

/// Serves a bucket until its parent closes it, and says what a person should know.
fn work(url: &str) {
    let options = ServeOptions {
        address: Address::parse(url).unwrap().0,
        key: None,
        slots: 1,
        cache_bytes: 1 << 26,
        name: "worker".into(),
        idle_exit: None,
    };
    serve(&options, || true, |text| say(text)).unwrap();
}

#[test]
fn a_foreign_message_in_the_queue_is_removed_and_harms_nobody() {
    let values = (0..3000).map(|n| (f64::from(n) * 0.37).sin() * 1e3).collect();
    let data = DataSet::dense(values, 3).unwrap().partitions(8).unwrap();
    let wanted = Master::builder().no_run_file().connect("local:1").unwrap().run(sums, &3.0, &data).unwrap();
    let name = made("foreign");
    for kind in ["azure", "s3"] {
        let url = format!("{kind}://{name}");
        let job = format!("foreign-{}", std::process::id());
        let m = Master::builder().no_run_file().connect(&format!("store:{url}?job={job}")).unwrap();
        let _worker = Program::start("work", &url);
        assert_eq!(m.run(sums, &3.0, &data).unwrap(), wanted);
        let queue = put_foreign(kind, &name, &job);
        assert_eq!(m.run(sums, &3.0, &data).unwrap(), wanted);
        wait_until("the message is removed", || !is_there(kind, &queue));
        assert_eq!(m.run(sums, &3.0, &data).unwrap(), wanted);
    }
}

/// Puts somebody else's message into the queue of a job. Returns where it is.
fn put_foreign(kind: &str, bucket: &str, job: &str) -> String {
    if kind == "s3" {
        let listed = format!("{}/{bucket}/queues/", variable(ENDPOINT));
        let (_, text) =
            request("GET", &format!("{}/{bucket}?list-type=2&prefix=jobs/", variable(ENDPOINT)), false, "");
        let id = text.split("<Key>jobs/").nth(1).and_then(|rest| rest.split('/').next()).unwrap();
        assert!(id.contains(job), "{id}");
        let url = format!("{listed}{id}/foreign");
        assert_eq!(request("PUT", &url, false, "hello").0, 200);
        return url;
    }
    let queues = connection("QueueEndpoint");
    let (_, text) = request("GET", &format!("{queues}?comp=list&prefix=qjam-{job}"), true, "");
    let name = text.split("<Name>").nth(1).and_then(|rest| rest.split("</Name>").next()).unwrap();
    let url = format!("{queues}/{name}/messages");
    let body = "<QueueMessage><MessageText>hello</MessageText></QueueMessage>";
    assert_eq!(request("POST", &url, true, body).0, 201);
    url
}

/// Whether there is somebody else's message.
fn is_there(kind: &str, url: &str) -> bool {
    match kind {
        "s3" => request("GET", url, false, "").0 == 200,
        _ => {
            // Taken messages are not shown, but counted.
            let url = url.strip_suffix("/messages").unwrap();
            let answer = place::cloud::headers("HEAD", &format!("{url}?comp=metadata"));
            answer.iter().any(|(name, value)| name == "x-ms-approximate-messages-count" && value != "0")
        }
    }
}
