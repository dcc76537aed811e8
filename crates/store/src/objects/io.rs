//! The thread on which requests are made.
//!
//! The protocol's futures run on the thread of their participant ([`crate::run`]), without a runtime. HTTP needs one. So a bucket in
//! a cloud has a thread with a small runtime, which ends with the bucket; whoever makes a request waits for what comes of it.

use crate::StoreError;
use std::io;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

/// A thread with a runtime.
#[derive(Debug)]
pub(crate) struct Io {
    handle: Handle,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Io {
    pub(crate) fn start() -> Result<Io, StoreError> {
        let failed = |source: io::Error| StoreError::System { what: "start a thread for requests", source };
        let runtime = Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        let serve = move || drop(runtime.block_on(stopped));
        let thread = std::thread::Builder::new().name("qjam-requests".into()).spawn(serve).map_err(failed)?;
        Ok(Io { handle, stop: Some(stop), thread: Some(thread) })
    }

    /// Runs a future on the thread, and waits for it.
    pub(crate) async fn run<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> T {
        match self.handle.spawn(work).await {
            Ok(value) => value,
            // Tasks are not cancelled while the thread is there.
            Err(e) => std::panic::resume_unwind(e.into_panic()),
        }
    }
}

impl Drop for Io {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
