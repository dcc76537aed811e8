//! A bucket by its address, of whatever kind, with every blob sealed.

#[cfg(feature = "azure")]
use crate::azure::{self, AzureQueue};
use crate::folder::Folder;
#[cfg(feature = "objects")]
use crate::objects::{Cloud, Queue};
#[cfg(feature = "s3")]
use crate::s3::{self, BucketQueue};
use crate::seal::{Broken, Seal};
use crate::{StoreError, address::Address};
use bytes::Bytes;
use qjam_core::bucket::{Delivery, Listed, Settings, Shape, Storage};
use qjam_core::chunk::ChunkId;
use qjam_core::time::Span;
use std::path::PathBuf;

/// Storage at some address, with the queue of one job.
pub struct Bucket {
    kind: Kind,
    seal: Seal,
    #[cfg(debug_assertions)]
    faults: crate::faults::Faults,
}

enum Kind {
    Folder(Folder),
    #[cfg(feature = "azure")]
    Azure(Cloud<AzureQueue>),
    #[cfg(feature = "s3")]
    S3(Cloud<BucketQueue>),
}

/// Chunks of data are here.
pub(crate) const CHUNKS: &str = "chunks/";

/// Does the same with a bucket of any kind.
macro_rules! of_any_kind {
    ($self:ident, $storage:ident => $do:expr) => {
        match &$self.kind {
            Kind::Folder($storage) => $do,
            #[cfg(feature = "azure")]
            Kind::Azure($storage) => $do,
            #[cfg(feature = "s3")]
            Kind::S3($storage) => $do,
        }
    };
}

impl Bucket {
    /// Opens the bucket at an address, with the queue of this job.
    pub fn open(address: &Address, job: &str, seal: Seal) -> Result<Bucket, StoreError> {
        let kind = match address {
            Address::Folder(path) => Kind::Folder(Folder::open(path, job)?),
            #[cfg(feature = "azure")]
            Address::Azure { container, prefix } => {
                Kind::Azure(azure::open(container, prefix, address.to_string(), job)?)
            }
            #[cfg(feature = "s3")]
            Address::S3 { bucket, prefix } => Kind::S3(s3::open(bucket, prefix, address.to_string(), job)?),
            #[cfg(not(feature = "azure"))]
            Address::Azure { .. } => {
                return Err(StoreError::NotBuilt { url: address.to_string(), kind: "the storage of Azure" });
            }
            #[cfg(not(feature = "s3"))]
            Address::S3 { .. } => {
                return Err(StoreError::NotBuilt { url: address.to_string(), kind: "the storage of S3" });
            }
        };
        Ok(Bucket {
            kind,
            seal,
            #[cfg(debug_assertions)]
            faults: crate::faults::Faults::of_environment(),
        })
    }

    /// Faults that a test has asked for.
    #[cfg(debug_assertions)]
    pub(crate) fn faults(&self) -> crate::faults::Faults {
        self.faults
    }

    /// Whether blobs are sealed with a key.
    pub fn has_key(&self) -> bool {
        self.seal.has_key()
    }

    /// The times that suit the storage.
    pub fn settings(&self) -> Settings {
        match &self.kind {
            Kind::Folder(_) => Settings::default(),
            #[cfg(feature = "objects")]
            _ => crate::objects::settings(),
        }
    }

    /// How results are merged. They are usually about as large as the parameters.
    pub(crate) fn shape(&self, parameter_bytes: usize) -> Shape {
        // In a folder every stage costs the same few cores.
        if matches!(self.kind, Kind::Folder(_)) {
            return Shape::SquareRoot;
        }
        Shape::over_links(parameter_bytes as u64)
    }

    /// Is told early of new blobs with this prefix, where that can be.
    pub fn attend(&self, prefix: &str) {
        match &self.kind {
            Kind::Folder(folder) => folder.attend(prefix),
            #[cfg(feature = "objects")]
            _ => {}
        }
    }

    /// Removes the queue of the job.
    pub async fn remove_queue(&self) -> Result<(), StoreError> {
        match &self.kind {
            Kind::Folder(folder) => folder.remove_queue(),
            #[cfg(feature = "azure")]
            Kind::Azure(cloud) => cloud.queue.remove(&cloud.objects).await,
            #[cfg(feature = "s3")]
            Kind::S3(cloud) => cloud.queue.remove(&cloud.objects).await,
        }
    }

    /// Removes what processes that were killed have left half done.
    pub fn tidy(&self) -> Result<(), StoreError> {
        match &self.kind {
            Kind::Folder(folder) => folder.tidy(),
            // A cloud has no half of a blob.
            #[cfg(feature = "objects")]
            _ => Ok(()),
        }
    }

    /// Removes the blobs below a prefix that are to go. Returns how many.
    pub(crate) async fn remove(
        &self,
        prefix: &str,
        goes: impl Fn(&Listed) -> bool,
    ) -> Result<u64, StoreError> {
        let mut removed = 0;
        for blob in self.list(prefix).await?.iter().filter(|blob| goes(blob)) {
            self.delete(&format!("{prefix}{}", blob.name)).await?;
            removed += 1;
        }
        Ok(removed)
    }

    // ---- blobs that are named by their content, and need no seal ----------------------------------------------

    /// The longest blob of small chunks that travel together; 0 where blobs are files, which are mapped as they are.
    pub(crate) fn piece_bytes_max(&self) -> u64 {
        match &self.kind {
            Kind::Folder(_) => 0,
            #[cfg(feature = "objects")]
            _ => 1 << 20,
        }
    }

    /// Puts a chunk, or a piece of several, into the bucket, unless it is there. Returns whether it was not.
    pub async fn put_chunk(&self, id: &ChunkId, content: Bytes) -> Result<bool, StoreError> {
        of_any_kind!(self, storage => storage.create(&chunk_key(id), content).await)
    }

    /// Whether a chunk is there.
    pub async fn has_chunk(&self, id: &ChunkId) -> Result<bool, StoreError> {
        let key = chunk_key(id);
        match &self.kind {
            Kind::Folder(folder) => Ok(folder.file_of(&key).exists()),
            #[cfg(feature = "azure")]
            Kind::Azure(cloud) => cloud.objects.has(&key).await,
            #[cfg(feature = "s3")]
            Kind::S3(cloud) => cloud.objects.has(&key).await,
        }
    }

    /// The content of a chunk. Whoever uses it compares it with its name.
    pub async fn chunk(&self, id: &ChunkId) -> Result<Option<Bytes>, StoreError> {
        of_any_kind!(self, storage => storage.get(&chunk_key(id)).await)
    }

    /// The file that has a chunk, where blobs are files.
    pub fn chunk_file(&self, id: &ChunkId) -> Option<PathBuf> {
        match &self.kind {
            Kind::Folder(folder) => Some(folder.file_of(&chunk_key(id))),
            #[cfg(feature = "objects")]
            _ => None,
        }
    }
}

/// Chunks are spread over folders, so that none has very many.
fn chunk_key(id: &ChunkId) -> String {
    let name = blake3::Hash::from_bytes(id.0).to_hex();
    format!("{CHUNKS}{}/{name}", &name[..2])
}

impl Storage for Bucket {
    type Blob = Bytes;
    type Receipt = String;
    type Error = StoreError;

    async fn get(&self, key: &str) -> Result<Option<Bytes>, StoreError> {
        #[cfg(debug_assertions)]
        if self.faults.hides() && !self.list(key).await?.iter().any(|blob| blob.name.is_empty()) {
            return Ok(None);
        }
        let Some(blob) = of_any_kind!(self, storage => storage.get(key).await)? else { return Ok(None) };
        match self.seal.open(key, &blob) {
            Ok(content) => Ok(Some(content)),
            // It is made again if it is not there.
            Err(Broken::Damaged) => {
                of_any_kind!(self, storage => storage.delete(key).await)?;
                Ok(None)
            }
            Err(Broken::Forged) => Err(StoreError::Forged { name: key.to_owned() }),
            Err(Broken::Signed) => Err(StoreError::Signed { name: key.to_owned() }),
        }
    }

    async fn put(&self, key: &str, blob: Bytes) -> Result<(), StoreError> {
        match &self.kind {
            Kind::Folder(folder) => {
                folder.write_parts(key, &[&self.seal.head(key, &blob), &blob], false).map(|_| ())
            }
            #[cfg(feature = "azure")]
            Kind::Azure(cloud) => cloud.put(key, self.seal.seal(key, &blob)).await,
            #[cfg(feature = "s3")]
            Kind::S3(cloud) => cloud.put(key, self.seal.seal(key, &blob)).await,
        }
    }

    async fn create(&self, key: &str, blob: Bytes) -> Result<bool, StoreError> {
        match &self.kind {
            Kind::Folder(folder) => folder.write_parts(key, &[&self.seal.head(key, &blob), &blob], true),
            #[cfg(feature = "azure")]
            Kind::Azure(cloud) => cloud.create(key, self.seal.seal(key, &blob)).await,
            #[cfg(feature = "s3")]
            Kind::S3(cloud) => cloud.create(key, self.seal.seal(key, &blob)).await,
        }
    }

    async fn list(&self, prefix: &str) -> Result<Vec<Listed>, StoreError> {
        let listed = of_any_kind!(self, storage => storage.list(prefix).await)?;
        #[cfg(debug_assertions)]
        let listed = {
            let is_seen = |blob: &Listed| !self.faults.is_hidden(&format!("{prefix}{}", blob.name), blob.age);
            listed.into_iter().filter(is_seen).collect()
        };
        Ok(listed)
    }

    async fn delete(&self, key: &str) -> Result<(), StoreError> {
        of_any_kind!(self, storage => storage.delete(key).await)
    }

    async fn send(&self, message: &str, hidden: Span) -> Result<(), StoreError> {
        #[cfg(debug_assertions)]
        if self.faults.doubles(message) {
            of_any_kind!(self, storage => storage.send(message, hidden).await)?;
        }
        of_any_kind!(self, storage => storage.send(message, hidden).await)
    }

    async fn receive(&self, hidden: Span) -> Result<Option<Delivery<String>>, StoreError> {
        of_any_kind!(self, storage => storage.receive(hidden).await)
    }

    async fn extend(&self, delivery: &mut Delivery<String>, hidden: Span) -> Result<bool, StoreError> {
        of_any_kind!(self, storage => storage.extend(delivery, hidden).await)
    }

    async fn acknowledge(&self, delivery: Delivery<String>) -> Result<(), StoreError> {
        of_any_kind!(self, storage => storage.acknowledge(delivery).await)
    }

    fn copies(&self, enough: u32) -> u32 {
        of_any_kind!(self, storage => storage.copies(enough))
    }

    async fn sleep(&self, span: Span) {
        of_any_kind!(self, storage => storage.sleep(span).await)
    }

    async fn idle(&self, span: Span) {
        of_any_kind!(self, storage => storage.idle(span).await)
    }
}

#[cfg(all(test, not(feature = "objects")))]
mod tests {
    use super::*;

    #[test]
    fn a_kind_that_was_not_built_is_told_with_how_to_build_it() {
        for (url, kind) in [("azure://container", "Azure"), ("s3://bucket/folder", "S3")] {
            let (address, _) = Address::parse(url).unwrap();
            let said = Bucket::open(&address, "job", Seal::without_key()).err().unwrap().to_string();
            assert!(said.contains(url) && said.contains(kind), "{said}");
            assert!(said.contains("`--features cloud`"), "{said}");
        }
    }
}
