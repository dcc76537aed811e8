//! Where tests put their buckets: in folders, or in a cloud that `QJAM_TEST_STORE` names.
//!
//! `cargo xtask test --only clouds` starts Azurite and moto and sets what they are reached by.

#![allow(dead_code, reason = "each test executable uses a part of it")]
#![allow(clippy::unwrap_used, reason = "all of this is test")]

use qjam_store::Address;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// `azure` or `s3`; without it, folders.
const STORE: &str = "QJAM_TEST_STORE";
/// An empty bucket of one test.
pub(crate) struct TestBucket {
    url: String,
    folder: Option<PathBuf>,
}

/// Which kind of storage is tested.
pub(crate) fn kind() -> String {
    std::env::var(STORE).unwrap_or_else(|_| "folder".into())
}

impl TestBucket {
    /// A new one.
    pub(crate) fn new(name: &str) -> TestBucket {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let name = format!("{name}-{}-{}", std::process::id(), MADE.fetch_add(1, Relaxed));
        match kind().as_str() {
            "folder" => {
                let path = std::env::temp_dir().join(format!("qjam-{name}"));
                let _ = std::fs::remove_dir_all(&path);
                std::fs::create_dir_all(&path).unwrap();
                TestBucket { url: format!("file://{}", path.display()), folder: Some(path) }
            }
            #[cfg(all(feature = "azure", feature = "s3"))]
            kind @ ("azure" | "s3") => {
                let bucket = format!("qjam-{name}");
                cloud::make_bucket_of(kind, &bucket);
                TestBucket { url: format!("{kind}://{bucket}/a-folder"), folder: None }
            }
            other => panic!("NOT TESTED: {STORE} is `{other}`, for which these tests were not built"),
        }
    }

    pub(crate) fn url(&self) -> String {
        self.url.clone()
    }

    pub(crate) fn address(&self) -> Address {
        Address::parse(&self.url).unwrap().0
    }
}

impl Drop for TestBucket {
    fn drop(&mut self) {
        if let Some(folder) = &self.folder {
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}

/// Containers and buckets are made by their owners, not by us; so tests ask the servers themselves.
#[cfg(all(feature = "azure", feature = "s3"))]
pub(crate) mod cloud {
    use futures_util::TryStreamExt;
    use object_store::ClientOptions;
    use object_store::azure::{AzureAccessKey, AzureAuthorizer, AzureCredential};
    use object_store::client::{HttpConnector, HttpRequest, HttpRequestBody, ReqwestConnector};

    /// A variable that the tests were started with.
    pub(crate) fn variable(name: &str) -> String {
        std::env::var(name)
            .unwrap_or_else(|_| panic!("NOT TESTED: {name} is not set; run `cargo xtask test --only clouds`"))
    }

    /// A part of the connection string.
    pub(crate) fn connection(part: &str) -> String {
        let text = variable("AZURE_STORAGE_CONNECTION_STRING");
        let found = text.split(';').find_map(|one| one.strip_prefix(part)?.strip_prefix('='));
        found.unwrap_or_else(|| panic!("NOT TESTED: the connection string has no {part}")).to_owned()
    }

    /// Makes a container or a bucket of this name, unless it is there.
    pub(crate) fn make_bucket_of(kind: &str, name: &str) {
        let (status, answer) = match kind {
            // The server that is tested with asks nobody for a signature.
            "s3" => request("PUT", &format!("{}/{name}", variable("AWS_ENDPOINT_URL")), false, ""),
            _ => {
                request("PUT", &format!("{}/{name}?restype=container", connection("BlobEndpoint")), true, "")
            }
        };
        assert!(matches!(status, 200..=299 | 409), "{status}: {answer}");
    }

    /// Makes a request, and gives status and answer.
    pub(crate) fn request(method: &str, url: &str, is_signed: bool, body: &'static str) -> (u16, String) {
        let (status, _, body) = answer(method, url, is_signed, body);
        (status, body)
    }

    /// The headers of the answer to a signed request.
    pub(crate) fn headers(method: &str, url: &str) -> Vec<(String, String)> {
        let (_, headers, _) = answer(method, url, true, "");
        headers
    }

    fn answer(
        method: &str,
        url: &str,
        is_signed: bool,
        body: &'static str,
    ) -> (u16, Vec<(String, String)>, String) {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let content = HttpRequestBody::from(body.to_owned());
            let mut request: HttpRequest =
                http::Request::builder().method(method).uri(url).body(content).unwrap();
            if !body.is_empty() {
                request.headers_mut().insert("content-length", body.len().into());
            }
            if is_signed {
                let key = AzureAccessKey::try_new(&connection("AccountKey")).unwrap();
                let credential = AzureCredential::AccessKey(key);
                let account = connection("AccountName");
                AzureAuthorizer::new(&credential, &account).try_authorize(&mut request).unwrap();
            }
            let options = ClientOptions::new().with_allow_http(true);
            let client = ReqwestConnector::default().connect(&options).unwrap();
            let (parts, body) = client.execute(request).await.unwrap().into_parts();
            let body: Vec<bytes::Bytes> = body.bytes_stream().try_collect().await.unwrap();
            let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
            let headers = parts.headers.iter().map(|(name, value)| (name.to_string(), text(value)));
            (parts.status.as_u16(), headers.collect(), String::from_utf8_lossy(&body.concat()).into_owned())
        })
    }
}
