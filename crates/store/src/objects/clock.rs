//! The time of the storage.
//!
//! Machines have clocks of their own, and some are wrong. Every response says what time it is where the storage is, in whole
//! seconds, cut off. So the storage's time is at least that when the response arrives; the largest such difference to our own clock
//! is the best that is known, and is less than a second and the way of a response behind.

use chrono::DateTime;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpRequest, HttpResponse, HttpService, ReqwestConnector,
};
use object_store::{ClientOptions, Result};
use qjam_core::time::{Span, Time};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Differences that were seen longer ago do not count: clocks drift.
const KNOWN_FOR: Duration = Duration::from_secs(300);

/// Knows the time of the storage.
#[derive(Debug)]
pub(crate) struct StorageClock {
    began: Instant,
    seen: Mutex<Option<Reading>>,
}

/// What responses have said.
#[derive(Clone, Copy, Debug)]
struct Reading {
    /// Microseconds since 1970 at the storage, less those since we began.
    ahead_us: u64,
    at: Instant,
}

impl StorageClock {
    pub(crate) fn new() -> Arc<StorageClock> {
        Arc::new(StorageClock { began: Instant::now(), seen: Mutex::default() })
    }

    fn seen(&self) -> MutexGuard<'_, Option<Reading>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A response has said what time it is.
    fn observe(&self, date: &str) {
        let Ok(date) = DateTime::parse_from_rfc2822(date) else { return };
        let us = u64::try_from(date.timestamp_micros()).unwrap_or(0);
        let ahead_us = us.saturating_sub(self.began.elapsed().as_micros() as u64);
        let mut seen = self.seen();
        if seen.is_none_or(|seen| ahead_us > seen.ahead_us || seen.at.elapsed() > KNOWN_FOR) {
            *seen = Some(Reading { ahead_us, at: Instant::now() });
        }
    }

    /// The time now, since 1970.
    pub(crate) fn now(&self) -> Time {
        match *self.seen() {
            Some(seen) => Time(seen.ahead_us + self.began.elapsed().as_micros() as u64),
            None => own_time(),
        }
    }

    /// How long ago something was written.
    pub(crate) fn age(&self, modified: &DateTime<chrono::Utc>) -> Span {
        self.now().since(Time(u64::try_from(modified.timestamp_micros()).unwrap_or(0)))
    }

    /// By how much our own clock is behind the storage's, in seconds; negative if it is ahead.
    pub(crate) fn own_lag_s(&self) -> i64 {
        let us = |time: Time| i64::try_from(time.0).unwrap_or(i64::MAX);
        (us(self.now()) - us(own_time())) / 1_000_000
    }
}

fn own_time() -> Time {
    Time(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros() as u64)
}

/// Gives all who speak with one storage the same HTTP client, which observes what time it is there.
#[derive(Clone, Debug)]
pub(crate) struct Connector {
    clock: Arc<StorageClock>,
    client: Arc<OnceLock<HttpClient>>,
}

impl Connector {
    pub(crate) fn new(clock: &Arc<StorageClock>) -> Connector {
        Connector { clock: clock.clone(), client: Arc::default() }
    }
}

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> Result<HttpClient> {
        if let Some(client) = self.client.get() {
            return Ok(client.clone());
        }
        // Without one, the client does not know which to take; a second call changes nothing.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = ReqwestConnector::default().connect(options)?;
        let client = HttpClient::new(ObservingClient { client, clock: self.clock.clone() });
        Ok(self.client.get_or_init(|| client).clone())
    }
}

#[derive(Debug)]
struct ObservingClient {
    client: HttpClient,
    clock: Arc<StorageClock>,
}

#[async_trait::async_trait]
impl HttpService for ObservingClient {
    async fn call(&self, request: HttpRequest) -> std::result::Result<HttpResponse, HttpError> {
        let response = self.client.execute(request).await?;
        if let Some(date) = response.headers().get("date").and_then(|date| date.to_str().ok()) {
            self.clock.observe(date);
        }
        Ok(response)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_is_that_of_the_storage_whatever_ours_is() {
        let clock = StorageClock::new();
        clock.observe("Wed, 18 Nov 2026 12:00:07 GMT");
        let after = |seconds: i64| DateTime::from_timestamp(1_795_003_200 + seconds, 0).unwrap();
        assert!(clock.age(&after(0)) >= Span(7_000_000));
        assert_eq!(clock.age(&after(3600)), Span(0), "what seems to be of the future is new");
        // A response that was on the way for longer says less.
        let before = clock.now();
        clock.observe("Wed, 18 Nov 2026 12:00:05 GMT");
        clock.observe("yesterday");
        assert!(clock.now() >= before);
        let lag = clock.own_lag_s();
        assert!((lag + own_time().0 as i64 / 1_000_000 - 1_795_003_207).abs() < 60, "{lag}");
    }
}
