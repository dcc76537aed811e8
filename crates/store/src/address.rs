//! Addresses of buckets.

use crate::StoreError;
use qjam_core::bucket::message::is_job;
use std::fmt;
use std::path::PathBuf;

/// What an address should look like.
const EXAMPLES: &str =
    "write for example `file:///mnt/share/qjam`, `s3://bucket`, `s3://bucket/folder` or `azure://container`";

/// Where a bucket is.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub enum Address {
    /// A folder, which all participants have mounted.
    Folder(PathBuf),
    /// A container of Azure's blob storage, in the account that the environment names.
    Azure {
        /// Its name.
        container: String,
        /// What the names of all blobs begin with; may be empty.
        prefix: String,
    },
    /// A bucket of S3, or of a storage that speaks like it.
    S3 {
        /// Its name.
        bucket: String,
        /// What the names of all blobs begin with; may be empty.
        prefix: String,
    },
}

impl Address {
    /// Reads an address, and the name of a job behind it: `file:///mnt/share?job=night-run`.
    pub fn parse(text: &str) -> Result<(Address, Option<String>), StoreError> {
        let wrong = |problem: &str| StoreError::Url {
            url: text.to_owned(),
            problem: problem.to_owned(),
            remedy: EXAMPLES,
        };
        let (place, question) = text.split_once('?').map_or((text, None), |(a, b)| (a, Some(b)));
        let job = match question.map(|q| q.strip_prefix("job=").ok_or(q)) {
            None => None,
            Some(Ok(job)) if is_job(job) => Some(job.to_owned()),
            Some(Ok(job)) => return Err(StoreError::JobName { job: job.to_owned() }),
            Some(Err(_)) => return Err(wrong("after `?` comes `job=` and a name")),
        };
        let address = match place.split_once("://") {
            Some(("file", path)) if path.starts_with('/') => Address::Folder(path.into()),
            Some(("file", _)) => {
                return Err(wrong("a folder is given by its whole path, with three slashes"));
            }
            Some(("azure", rest)) => {
                let (container, prefix) =
                    named(rest, "a container", "-").map_err(|problem| wrong(&problem))?;
                Address::Azure { container, prefix }
            }
            Some(("s3", rest)) => {
                let (bucket, prefix) = named(rest, "a bucket", "-.").map_err(|problem| wrong(&problem))?;
                Address::S3 { bucket, prefix }
            }
            Some((scheme, _)) => {
                return Err(wrong(&format!("`{scheme}` is no kind of storage that is known here")));
            }
            None if place.starts_with('/') => Address::Folder(place.into()),
            None => return Err(wrong("it has no kind")),
        };
        Ok((address, job))
    }
}

/// A bucket and what names in it begin with.
fn named(text: &str, kind: &str, signs: &str) -> Result<(String, String), String> {
    let (name, prefix) = text.split_once('/').unwrap_or((text, ""));
    let is_allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || signs.contains(c);
    let is_edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    if !(3..=63).contains(&name.len())
        || !name.chars().all(is_allowed)
        || !is_edge(name.chars().next())
        || !is_edge(name.chars().last())
    {
        return Err(format!("the name of {kind} has 3 to 63 small letters, digits and hyphens"));
    }
    let prefix = prefix.strip_suffix('/').unwrap_or(prefix);
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.=".contains(c);
    let is_folder = |part: &str| !part.is_empty() && part.chars().all(is_plain) && !part.starts_with('.');
    if !prefix.is_empty() && !prefix.split('/').all(is_folder) {
        return Err("a folder in it has letters, digits, hyphens and underscores".into());
    }
    Ok((name.to_owned(), prefix.to_owned()))
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, name, prefix) = match self {
            Address::Folder(path) => return write!(f, "file://{}", path.display()),
            Address::Azure { container, prefix } => ("azure", container, prefix),
            Address::S3 { bucket, prefix } => ("s3", bucket, prefix),
        };
        let slash = if prefix.is_empty() { "" } else { "/" };
        write!(f, "{scheme}://{name}{slash}{prefix}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_wrong_ones_explained() {
        let folder = |path: &str| Address::Folder(path.into());
        assert_eq!(Address::parse("file:///a/b").unwrap(), (folder("/a/b"), None));
        assert_eq!(Address::parse("/a/b?job=x-1").unwrap(), (folder("/a/b"), Some("x-1".into())));
        assert_eq!(folder("/a/b").to_string(), "file:///a/b");
        let s3 = Address::S3 { bucket: "b.c".into(), prefix: "x/y".into() };
        assert_eq!(Address::parse("s3://b.c/x/y/?job=j").unwrap(), (s3, Some("j".into())));
        for text in ["azure://con", "azure://con/a", "s3://buck-et", "s3://buck-et/a/b_c.d"] {
            assert_eq!(Address::parse(text).unwrap().0.to_string(), text);
        }
        for (text, words) in [
            ("s3://", "the name of a bucket"),
            ("s3://Bucket", "the name of a bucket"),
            ("azure://a.b", "the name of a container"),
            ("azure://-ab", "the name of a container"),
            ("s3://bucket//a", "a folder in it"),
            ("s3://bucket/../a", "a folder in it"),
            ("s3://bucket/a b", "a folder in it"),
            ("file://a/b", "three slashes"),
            ("ftp://a/b", "`ftp` is no kind of storage"),
            ("a/b", "it has no kind"),
            ("", "it has no kind"),
            ("/a?b", "comes `job=`"),
            ("/a?job=Night Run", "is no name of a job"),
        ] {
            let said = Address::parse(text).unwrap_err().to_string();
            assert!(said.contains(words), "{text}: {said}");
        }
    }
}
