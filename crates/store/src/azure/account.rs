//! Which storage account, where it is, and with which credentials: from the environment.
//!
//! A connection string says all of it, as the tools of Azure print it. Without one, the variables that the library reads are read
//! ([`MicrosoftAzureBuilder::from_env`]), among them those of service principals and of machines with an identity.

use crate::StoreError;
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};

/// A connection string.
pub(super) const CONNECTION: &str = "AZURE_STORAGE_CONNECTION_STRING";
/// The queues of an account, where they are not where Azure has them.
const QUEUES: &str = "AZURE_STORAGE_QUEUE_ENDPOINT";
/// The account that the emulator always has, and its key. Everybody knows both.
const EMULATOR_ACCOUNT: &str = "devstoreaccount1";
const EMULATOR_KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/// A storage account.
#[derive(Clone, Debug)]
pub(super) struct Account {
    pub(super) name: String,
    /// Where its blobs are, without a slash at the end.
    pub(super) blobs: String,
    /// Where its queues are.
    pub(super) queues: String,
    /// The library's settings, with the credentials.
    pub(super) builder: MicrosoftAzureBuilder,
}

impl Account {
    /// The account that the environment names. `variable` reads a variable.
    pub(super) fn of_environment(
        url: &str,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Account, StoreError> {
        let variable = |name: &str| variable(name).filter(|value| !value.is_empty());
        if let Some(text) = variable(CONNECTION) {
            return Account::of_connection(url, &text);
        }
        let builder = MicrosoftAzureBuilder::from_env();
        if variable("AZURE_STORAGE_USE_EMULATOR").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
            let name = variable("AZURE_STORAGE_ACCOUNT_NAME").unwrap_or_else(|| EMULATOR_ACCOUNT.into());
            let place =
                |name: &str, port: u16| variable(name).unwrap_or_else(|| format!("http://127.0.0.1:{port}"));
            let blobs = format!("{}/{name}", trimmed(&place("AZURITE_BLOB_STORAGE_URL", 10000)));
            let queues = format!("{}/{name}", trimmed(&place("AZURITE_QUEUE_STORAGE_URL", 10001)));
            let has_key = builder.get_config_value(&AzureConfigKey::AccessKey).is_some();
            let builder = builder.with_use_emulator(false);
            let builder = if has_key { builder } else { builder.with_access_key(EMULATOR_KEY) };
            return Ok(Account { name, blobs, queues, builder });
        }
        // The second is what Azure's own command reads.
        let name = variable("AZURE_STORAGE_ACCOUNT_NAME").or_else(|| variable("AZURE_STORAGE_ACCOUNT"));
        let name = name.ok_or_else(|| StoreError::Cloud {
            url: url.to_owned(),
            problem: "no storage account is named".into(),
            remedy: format!(
                "set {CONNECTION}, or AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY or other credentials"
            ),
        })?;
        let blobs = builder.get_config_value(&AzureConfigKey::Endpoint);
        let blobs = blobs.unwrap_or_else(|| format!("https://{name}.blob.core.windows.net"));
        let queues = variable(QUEUES).unwrap_or_else(|| blobs.replacen(".blob.", ".queue.", 1));
        Ok(Account { name, blobs: trimmed(&blobs).into(), queues: trimmed(&queues).into(), builder })
    }

    /// The account of a connection string.
    fn of_connection(url: &str, text: &str) -> Result<Account, StoreError> {
        let wrong = |problem: &str| StoreError::Cloud {
            url: url.to_owned(),
            problem: format!("{CONNECTION} is no connection string: {problem}"),
            remedy: "copy it from the page `Access keys` of the storage account, or from \
                     `az storage account show-connection-string`"
                .into(),
        };
        let parts = text.split(';').map(str::trim).filter(|part| !part.is_empty());
        let parts: Option<Vec<(&str, &str)>> = parts.map(|part| part.split_once('=')).collect();
        let parts = parts.ok_or_else(|| wrong("its parts are not `name=value`, with `;` between them"))?;
        let part = |name: &str| {
            let found = parts.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
            found.map(|(_, value)| *value).filter(|value| !value.is_empty())
        };
        let is_emulator =
            part("UseDevelopmentStorage").is_some_and(|value| value.eq_ignore_ascii_case("true"));
        let name = part("AccountName").or(is_emulator.then_some(EMULATOR_ACCOUNT));
        let name = name.ok_or_else(|| wrong("it has no `AccountName`"))?;
        let protocol = part("DefaultEndpointsProtocol").unwrap_or("https");
        let suffix = part("EndpointSuffix").unwrap_or("core.windows.net");
        let place = |own: Option<&str>, kind: &str, port: u16| match own {
            Some(own) => trimmed(own).to_owned(),
            None if is_emulator => format!("http://127.0.0.1:{port}/{name}"),
            None => format!("{protocol}://{name}.{kind}.{suffix}"),
        };
        let builder = MicrosoftAzureBuilder::new();
        let key = part("AccountKey").or(is_emulator.then_some(EMULATOR_KEY));
        let builder = match (key, part("SharedAccessSignature")) {
            (Some(key), _) => builder.with_access_key(key),
            (None, Some(sas)) => builder.with_config(AzureConfigKey::SasKey, sas),
            (None, None) => return Err(wrong("it has neither `AccountKey` nor `SharedAccessSignature`")),
        };
        Ok(Account {
            name: name.to_owned(),
            blobs: place(part("BlobEndpoint"), "blob", 10000),
            queues: place(part("QueueEndpoint"), "queue", 10001),
            builder,
        })
    }
}

fn trimmed(url: &str) -> &str {
    url.trim_end_matches('/')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)]) -> Result<Account, String> {
        let variable = |name: &str| {
            let found = variables.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        Account::of_environment("azure://c", variable).map_err(|e| e.to_string())
    }

    #[test]
    fn accounts_come_from_connection_strings_and_variables() {
        let places = |variables: &[(&str, &str)]| {
            let account = of(variables).unwrap();
            (account.name, account.blobs, account.queues)
        };
        let azure = |name: &str| {
            let place = |kind: &str| format!("https://{name}.{kind}.core.windows.net");
            (name.to_owned(), place("blob"), place("queue"))
        };
        let whole = "DefaultEndpointsProtocol=https;AccountName=me;AccountKey=a+b/c==;EndpointSuffix=core.windows.net";
        assert_eq!(places(&[(CONNECTION, whole)]), azure("me"));
        assert_eq!(
            places(&[(CONNECTION, "AccountName=me;SharedAccessSignature=sv=1&sig=a%3D;")]),
            azure("me")
        );
        assert_eq!(places(&[("AZURE_STORAGE_ACCOUNT_NAME", "me")]), azure("me"));
        assert_eq!(places(&[("AZURE_STORAGE_ACCOUNT", "me")]), azure("me"));
        let local = |blobs: u16, queues: u16| {
            let place = |port: u16| format!("http://127.0.0.1:{port}/devstoreaccount1");
            ("devstoreaccount1".to_owned(), place(blobs), place(queues))
        };
        assert_eq!(places(&[(CONNECTION, "UseDevelopmentStorage=true")]), local(10000, 10001));
        assert_eq!(places(&[("AZURE_STORAGE_USE_EMULATOR", "true")]), local(10000, 10001));
        let emulator =
            [("AZURE_STORAGE_USE_EMULATOR", "true"), ("AZURITE_QUEUE_STORAGE_URL", "http://127.0.0.1:7/")];
        assert_eq!(places(&emulator), local(10000, 7));
        let own = "AccountName=me;AccountKey=aa==;BlobEndpoint=http://h/me/;QueueEndpoint=http://q/me";
        assert_eq!(places(&[(CONNECTION, own)]), ("me".into(), "http://h/me".into(), "http://q/me".into()));
    }

    #[test]
    fn what_is_missing_is_named() {
        for (variables, words) in [
            (&[][..], "no storage account is named; set AZURE_STORAGE_CONNECTION_STRING"),
            (&[(CONNECTION, "hello")][..], "its parts are not `name=value`"),
            (&[(CONNECTION, "AccountKey=x")][..], "it has no `AccountName`"),
            (&[(CONNECTION, "AccountName=me")][..], "neither `AccountKey` nor"),
        ] {
            let said = of(variables).unwrap_err();
            assert!(said.contains(words), "{said}");
        }
    }
}
