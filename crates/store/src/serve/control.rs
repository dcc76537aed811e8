//! What an executor tells its worker: which message it has.
//!
//! One line for each change, over a socket, so that the worker can put the message back when the executor dies. [`Noted`] is the
//! bucket with this noted along the way.

use crate::{Bucket, StoreError};
use bytes::Bytes;
use qjam_core::bucket::{Delivery, Listed, Storage};
use qjam_core::time::Span;
use std::fs::File;
use std::io::Write;
use std::sync::{Mutex, PoisonError};

/// The message that an executor has, as a line.
pub(super) fn line_of(delivery: Option<&Delivery<String>>) -> String {
    match delivery {
        Some(Delivery { text, count, receipt }) => {
            format!("{count}\t{receipt}\t{}\n", text.replace('\n', " "))
        }
        None => "\n".into(),
    }
}

/// What a line says.
pub(super) fn read_line(line: &str) -> Option<Delivery<String>> {
    let mut parts = line.trim_end_matches('\n').splitn(3, '\t');
    let (count, receipt, text) = (parts.next()?.parse().ok()?, parts.next()?, parts.next()?);
    Some(Delivery { text: text.to_owned(), count, receipt: receipt.to_owned() })
}

/// A bucket whose messages are noted.
pub(super) struct Noted<'a> {
    bucket: &'a Bucket,
    worker: Mutex<File>,
}

impl<'a> Noted<'a> {
    pub(super) fn new(bucket: &'a Bucket, worker: File) -> Self {
        Noted { bucket, worker: Mutex::new(worker) }
    }

    fn note(&self, delivery: Option<&Delivery<String>>) {
        let mut worker = self.worker.lock().unwrap_or_else(PoisonError::into_inner);
        // Without a worker this process is about to end.
        let _ = worker.write_all(line_of(delivery).as_bytes());
    }
}

impl Storage for Noted<'_> {
    type Blob = Bytes;
    type Receipt = String;
    type Error = StoreError;

    async fn get(&self, key: &str) -> Result<Option<Bytes>, StoreError> {
        self.bucket.get(key).await
    }

    async fn put(&self, key: &str, blob: Bytes) -> Result<(), StoreError> {
        self.bucket.put(key, blob).await
    }

    async fn create(&self, key: &str, blob: Bytes) -> Result<bool, StoreError> {
        self.bucket.create(key, blob).await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<Listed>, StoreError> {
        self.bucket.list(prefix).await
    }

    async fn delete(&self, key: &str) -> Result<(), StoreError> {
        self.bucket.delete(key).await
    }

    async fn send(&self, message: &str, hidden: Span) -> Result<(), StoreError> {
        self.bucket.send(message, hidden).await
    }

    async fn receive(&self, hidden: Span) -> Result<Option<Delivery<String>>, StoreError> {
        let received = self.bucket.receive(hidden).await?;
        if received.is_some() {
            self.note(received.as_ref());
        }
        Ok(received)
    }

    async fn extend(&self, delivery: &mut Delivery<String>, hidden: Span) -> Result<bool, StoreError> {
        let is_ours = self.bucket.extend(delivery, hidden).await?;
        self.note(if is_ours && hidden.0 > 0 { Some(delivery) } else { None });
        Ok(is_ours)
    }

    async fn acknowledge(&self, delivery: Delivery<String>) -> Result<(), StoreError> {
        let done = self.bucket.acknowledge(delivery).await;
        self.note(None);
        done
    }

    fn copies(&self, enough: u32) -> u32 {
        self.bucket.copies(enough)
    }

    async fn sleep(&self, span: Span) {
        self.bucket.sleep(span).await;
    }

    async fn idle(&self, span: Span) {
        self.bucket.idle(span).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_survives_the_trip() {
        let delivery = Delivery { text: "qjam1 map a 1 2".into(), count: 3, receipt: "r e c".into() };
        let back = read_line(&line_of(Some(&delivery))).unwrap();
        assert_eq!((back.text, back.count, back.receipt), (delivery.text, 3, delivery.receipt));
        assert!(read_line(&line_of(None)).is_none());
        assert!(read_line("x\ty\tz").is_none());
    }
}
