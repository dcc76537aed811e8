//! A container of Azure's blob storage, with a queue of the same storage account for each job.

mod account;
mod queue;

use crate::StoreError;
use crate::objects::{CLIENT, Cloud, Connector, Objects, StorageClock, Target, Words};
use account::Account;
use object_store::ObjectStore;
use object_store::azure::AzureConfigKey;
pub(crate) use queue::AzureQueue;
use std::cell::OnceCell;
use std::sync::Arc;

const WORDS: Words = Words {
    bucket: "container",
    make: "az storage container create --name ",
    credentials: "AZURE_STORAGE_CONNECTION_STRING, or AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
    endpoint: "the endpoints in AZURE_STORAGE_CONNECTION_STRING",
};

/// Opens a container, which must be there.
pub(crate) fn open(
    container: &str,
    prefix: &str,
    url: String,
    job: &str,
) -> Result<Cloud<AzureQueue>, StoreError> {
    let clock = StorageClock::new();
    let connector = Connector::new(&clock);
    let account = Account::of_environment(&url, |name| std::env::var(name).ok())?;
    let target = |endpoint: &str| Target {
        words: &WORDS,
        url: url.clone(),
        name: container.to_owned(),
        endpoint: endpoint.to_owned(),
    };
    let credentials = OnceCell::new();
    let objects = Objects::open(target(&account.blobs), prefix, clock.clone(), |retries| {
        let mut builder = account
            .builder
            .clone()
            .with_account(&account.name)
            .with_endpoint(account.blobs.clone())
            .with_container_name(container)
            .with_http_connector(connector.clone())
            .with_retry(retries);
        if account.blobs.starts_with("http://") {
            // Whoever writes `http://` means it.
            builder = builder.with_allow_http(true);
        }
        for (key, variable, value) in CLIENT {
            if std::env::var_os(format!("AZURE_{variable}")).is_none() {
                builder = builder.with_config(AzureConfigKey::Client(key), value);
            }
        }
        let store = builder.build()?;
        let _ = credentials.set(store.credentials().clone());
        Ok(Arc::new(store) as Arc<dyn ObjectStore>)
    })?;
    let credentials = credentials.into_inner().expect("a store was built");
    let scope = format!("{container}/{prefix}");
    let queue =
        AzureQueue::open(&account, credentials, target(&account.queues), (&connector, &clock), &scope, job)?;
    Ok(Cloud { objects, queue })
}
