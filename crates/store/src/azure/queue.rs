//! A queue of Azure's queue storage, over its REST interface.
//!
//! Requests are signed by the library that reads blobs, with the same credentials. The queue is made when the first message is sent,
//! so that whoever only looks leaves nothing behind.

use super::account::Account;
use crate::StoreError;
use crate::objects::{Connector, Objects, Queue, Refusal, StorageClock, Target};
use futures_util::TryStreamExt;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method, Request};
use object_store::ClientOptions;
use object_store::azure::{AzureAuthorizer, AzureCredentialProvider};
use object_store::client::{HttpClient, HttpConnector, HttpRequest, HttpRequestBody};
use qjam_core::bucket::Delivery;
use qjam_core::time::Span;
use serde::Deserialize;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

/// The longest name of a queue.
const NAME_BYTES_MAX: usize = 63;
/// How often a request is repeated that fails for a moment.
const RETRIES: u32 = 9;
/// The first pause before it is repeated, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));
/// The longest time for which a message can be hidden, in seconds.
const HIDDEN_S_MAX: u64 = 7 * 24 * 3600;

/// The queue of a job.
pub(crate) struct AzureQueue {
    client: Arc<Client>,
    /// The address of the queue.
    url: String,
    target: Target,
    clock: Arc<StorageClock>,
}

/// Who makes requests.
struct Client {
    http: HttpClient,
    account: String,
    credentials: AzureCredentialProvider,
}

/// A response.
struct Answer {
    status: u16,
    headers: HeaderMap,
    body: String,
}

/// Messages, as Azure lists them.
#[derive(Deserialize)]
struct Received {
    #[serde(rename = "QueueMessage", default)]
    messages: Vec<ReceivedMessage>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ReceivedMessage {
    message_id: String,
    pop_receipt: String,
    dequeue_count: u32,
    #[serde(default)]
    message_text: String,
}

impl AzureQueue {
    pub(super) fn open(
        account: &Account,
        credentials: AzureCredentialProvider,
        target: Target,
        (connector, clock): (&Connector, &Arc<StorageClock>),
        scope: &str,
        job: &str,
    ) -> Result<AzureQueue, StoreError> {
        // The one with which blobs are read.
        let http = connector.connect(&ClientOptions::new());
        let http = http.map_err(|e| target.explain("use the settings", &Refusal::of(&e), 0))?;
        let client = Arc::new(Client { http, account: account.name.clone(), credentials });
        let url = format!("{}/{}", account.queues, name_of(scope, job));
        Ok(AzureQueue { client, url, target, clock: clock.clone() })
    }

    fn failed(&self, what: &str, answer: &Answer) -> StoreError {
        self.explain(what, &Refusal::of_response(answer.status, &answer.body))
    }

    async fn request(
        &self,
        objects: &Objects,
        method: Method,
        rest: String,
        body: String,
    ) -> Result<Answer, StoreError> {
        let (client, url) = (self.client.clone(), format!("{}{rest}", self.url));
        let answer = objects.run(async move { client.request(&method, &url, &body).await }).await;
        answer.map_err(|refusal| self.explain("use the queue", &refusal))
    }

    fn explain(&self, what: &str, refusal: &Refusal) -> StoreError {
        self.target.explain(what, refusal, self.clock.own_lag_s())
    }
}

/// The queue of a job. Its name has to be short and may not have two hyphens in a row; a hash of what it is for tells queues apart.
fn name_of(scope: &str, job: &str) -> String {
    let hash = blake3::hash(format!("{scope} {job}").as_bytes()).to_hex();
    let words: Vec<&str> = job.split('-').filter(|word| !word.is_empty()).collect();
    let mut name = format!("qjam-{}", words.join("-"));
    name.truncate(NAME_BYTES_MAX - 17);
    format!("{}-{}", name.trim_end_matches('-'), &hash[..16])
}

/// Whole seconds, not fewer than asked for.
fn seconds(span: Span) -> u64 {
    span.0.div_ceil(1_000_000).min(HIDDEN_S_MAX)
}

/// A text as part of a URL.
fn encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |mut out, byte| {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(byte as char),
            _ => drop(write!(out, "%{byte:02X}")),
        }
        out
    })
}

/// A message, for a request.
fn body_of(text: &str) -> String {
    format!("<QueueMessage><MessageText>{}</MessageText></QueueMessage>", quick_xml::escape::escape(text))
}

impl Client {
    async fn request(&self, method: &Method, url: &str, body: &str) -> Result<Answer, Refusal> {
        let mut pause = PAUSES.0;
        for _ in 0..RETRIES {
            match self.request_once(method, url, body).await {
                Ok(answer) if Refusal::of_response(answer.status, &answer.body).is_passing() => {}
                Err(refusal) if refusal.is_passing() => {}
                other => return other,
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSES.1);
        }
        self.request_once(method, url, body).await
    }

    async fn request_once(&self, method: &Method, url: &str, body: &str) -> Result<Answer, Refusal> {
        let request = Request::builder().method(method).uri(url).body(HttpRequestBody::from(body.to_owned()));
        let mut request: HttpRequest = request.map_err(|e| Refusal::of_error(&e))?;
        if !body.is_empty() {
            request.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
            request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/xml"));
        }
        let credential = self.credentials.get_credential().await.map_err(|e| Refusal::of(&e))?;
        let authorizer = AzureAuthorizer::new(&credential, &self.account);
        authorizer.try_authorize(&mut request).map_err(|e| Refusal::of(&e))?;
        let response = self.http.execute(request).await.map_err(|e| Refusal::of_error(&e))?;
        let (parts, body) = response.into_parts();
        let body: Vec<bytes::Bytes> =
            body.bytes_stream().try_collect().await.map_err(|e| Refusal::of_error(&e))?;
        let body = String::from_utf8_lossy(&body.concat()).into_owned();
        Ok(Answer { status: parts.status.as_u16(), headers: parts.headers, body })
    }
}

impl Queue for AzureQueue {
    async fn send(&self, objects: &Objects, message: &str, hidden: Span) -> Result<(), StoreError> {
        // Messages do not expire: jobs may wait for workers.
        let rest = format!("/messages?messagettl=-1&visibilitytimeout={}", seconds(hidden));
        let mut is_made = false;
        loop {
            let answer = self.request(objects, Method::POST, rest.clone(), body_of(message)).await?;
            match answer.status {
                200..=299 => return Ok(()),
                404 if !is_made => {
                    is_made = true;
                    let made = self.request(objects, Method::PUT, String::new(), String::new()).await?;
                    if !matches!(made.status, 200..=299) {
                        return Err(self.failed("make the queue", &made));
                    }
                }
                _ => return Err(self.failed("send a message", &answer)),
            }
        }
    }

    async fn receive(&self, objects: &Objects, hidden: Span) -> Result<Option<Delivery<String>>, StoreError> {
        let rest = format!("/messages?numofmessages=1&visibilitytimeout={}", seconds(hidden).max(1));
        let answer = self.request(objects, Method::GET, rest, String::new()).await?;
        match answer.status {
            200 => {}
            // Nobody has sent anything yet.
            404 => return Ok(None),
            _ => return Err(self.failed("receive a message", &answer)),
        }
        let received: Received = quick_xml::de::from_str(&answer.body).map_err(|_| {
            self.explain(
                "read what the queue says",
                &Refusal { text: answer.body.clone(), ..Refusal::default() },
            )
        })?;
        Ok(received.messages.into_iter().next().map(|message| Delivery {
            receipt: format!("{} {}", message.message_id, message.pop_receipt),
            text: message.message_text,
            count: message.dequeue_count,
        }))
    }

    async fn extend(
        &self,
        objects: &Objects,
        delivery: &mut Delivery<String>,
        hidden: Span,
    ) -> Result<bool, StoreError> {
        let Some((id, pop)) = delivery.receipt.split_once(' ') else { return Ok(false) };
        let rest = format!(
            "/messages/{}?popreceipt={}&visibilitytimeout={}",
            encoded(id),
            encoded(pop),
            seconds(hidden)
        );
        let answer = self.request(objects, Method::PUT, rest, body_of(&delivery.text)).await?;
        if is_taken(&answer) {
            return Ok(false);
        }
        let pop = answer.headers.get("x-ms-popreceipt").and_then(|value| value.to_str().ok());
        match (answer.status, pop) {
            (200..=299, Some(pop)) => {
                delivery.receipt = format!("{id} {pop}");
                Ok(true)
            }
            _ => Err(self.failed("keep a message", &answer)),
        }
    }

    async fn acknowledge(&self, objects: &Objects, delivery: Delivery<String>) -> Result<(), StoreError> {
        let Some((id, pop)) = delivery.receipt.split_once(' ') else { return Ok(()) };
        let rest = format!("/messages/{}?popreceipt={}", encoded(id), encoded(pop));
        let answer = self.request(objects, Method::DELETE, rest, String::new()).await?;
        match answer.status {
            200..=299 => Ok(()),
            _ if is_taken(&answer) => Ok(()),
            _ => Err(self.failed("remove a message", &answer)),
        }
    }

    async fn remove(&self, objects: &Objects) -> Result<(), StoreError> {
        let answer = self.request(objects, Method::DELETE, String::new(), String::new()).await?;
        match answer.status {
            200..=299 | 404 => Ok(()),
            _ => Err(self.failed("remove the queue", &answer)),
        }
    }
}

/// Whether a message is somebody else's by now, or gone.
fn is_taken(answer: &Answer) -> bool {
    answer.status == 404 || (answer.status == 400 && answer.body.contains("PopReceiptMismatch"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_queues_are_allowed_and_differ() {
        let long = "x".repeat(64);
        let jobs = ["a", "a-b", "a--b", "-a-", "---", &long];
        let names: Vec<String> =
            jobs.iter().flat_map(|job| ["c/", "c/p"].map(|scope| name_of(scope, job))).collect();
        for name in &names {
            assert!((3..=NAME_BYTES_MAX).contains(&name.len()), "{name}");
            assert!(
                name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'),
                "{name}"
            );
            assert!(!name.contains("--") && !name.ends_with('-'), "{name}");
        }
        let different: std::collections::BTreeSet<&String> = names.iter().collect();
        assert_eq!(different.len(), names.len());
    }

    #[test]
    fn what_azure_says_is_read_and_what_is_said_is_escaped() {
        let text = "<?xml version=\"1.0\" encoding=\"utf-8\"?><QueueMessagesList><QueueMessage><MessageId>i</MessageId>\
            <InsertionTime>t</InsertionTime><ExpirationTime>t</ExpirationTime><PopReceipt>p+=</PopReceipt>\
            <TimeNextVisible>t</TimeNextVisible><DequeueCount>2</DequeueCount><MessageText>a &lt; b</MessageText>\
            </QueueMessage></QueueMessagesList>";
        let received: Received = quick_xml::de::from_str(text).unwrap();
        let message = &received.messages[0];
        assert_eq!((message.pop_receipt.as_str(), message.dequeue_count), ("p+=", 2));
        assert_eq!(message.message_text, "a < b");
        let none: Received = quick_xml::de::from_str("<QueueMessagesList />").unwrap();
        assert!(none.messages.is_empty());
        assert!(body_of("a < b").contains("a &lt; b"));
        assert_eq!(encoded("a+/= b"), "a%2B%2F%3D%20b");
        assert_eq!([seconds(Span(0)), seconds(Span(1)), seconds(Span(2_000_000))], [0, 1, 2]);
    }
}
