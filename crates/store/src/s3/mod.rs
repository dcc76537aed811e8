//! A bucket of S3, or of a storage that speaks like it, with a queue in the bucket itself.
//!
//! Credentials, region and endpoint are taken from the environment as by the library (`AWS_…`). What is needed of the storage are
//! writes under a condition: `If-None-Match: *` and `If-Match`, which S3, MinIO, R2 and others have.

mod queue;

use crate::StoreError;
use crate::objects::{CLIENT, Cloud, Connector, Objects, StorageClock, Target, Words};
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey, S3ConditionalPut};
use object_store::{ClientConfigKey, ObjectStore};
pub(crate) use queue::BucketQueue;
use std::sync::Arc;

const WORDS: Words = Words {
    bucket: "bucket",
    make: "aws s3 mb s3://",
    credentials: "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and, if they are temporary, AWS_SESSION_TOKEN",
    endpoint: "AWS_ENDPOINT_URL and AWS_REGION",
};

/// Opens a bucket, which must be there.
pub(crate) fn open(
    bucket: &str,
    prefix: &str,
    url: String,
    job: &str,
) -> Result<Cloud<BucketQueue>, StoreError> {
    let clock = StorageClock::new();
    let connector = Connector::new(&clock);
    let settings = AmazonS3Builder::from_env();
    let endpoint = [AmazonS3ConfigKey::S3Endpoint, AmazonS3ConfigKey::Endpoint]
        .iter()
        .find_map(|key| settings.get_config_value(key));
    let is_plain = endpoint.as_ref().is_some_and(|endpoint| endpoint.starts_with("http://"));
    let region = settings.get_config_value(&AmazonS3ConfigKey::Region).unwrap_or_else(|| "us-east-1".into());
    let target = Target {
        words: &WORDS,
        url,
        name: bucket.to_owned(),
        endpoint: endpoint.unwrap_or_else(|| format!("https://s3.{region}.amazonaws.com")),
    };
    let objects = Objects::open(target, prefix, clock, |retries| {
        let mut builder = AmazonS3Builder::from_env()
            .with_bucket_name(bucket)
            .with_conditional_put(S3ConditionalPut::ETagMatch)
            .with_http_connector(connector.clone())
            .with_retry(retries);
        if is_plain {
            // Whoever writes `http://` means it.
            builder = builder.with_config(AmazonS3ConfigKey::Client(ClientConfigKey::AllowHttp), "true");
        }
        for (key, variable, value) in CLIENT {
            if std::env::var_os(format!("AWS_{variable}")).is_none() {
                builder = builder.with_config(AmazonS3ConfigKey::Client(key), value);
            }
        }
        Ok(Arc::new(builder.build()?) as Arc<dyn ObjectStore>)
    })?;
    Ok(Cloud { objects, queue: BucketQueue::new(job) })
}
