//! Clearing away a fused round that something has followed.
//!
//! Nobody else does that: there is no submitter. What stays says that the round is over, so that late messages about it are dropped,
//! and that it was sent, so that nobody sends it again. A worker that dies here leaves the rest to whoever removes the job.

use super::keys;
use super::race::for_each;
use super::round::{AT_ONCE, RoundAt};
use super::storage::Storage;

/// Names within a round that stay.
const KEPT: [&str; 4] = ["end/failed", "end/followed", "sending", "sent"];

/// Whether a blob of a round, by its name within the round, stays until the job is removed.
pub fn outlives_its_round(name: &str) -> bool {
    KEPT.contains(&name)
}

/// Removes what nobody needs of a round. Only when the next one has been sent, or the job has its result: until then the value is
/// needed. Returns false if somebody else has begun to.
pub(super) async fn clear<S: Storage>(storage: &S, at: &RoundAt) -> Result<bool, S::Error> {
    if !storage.create(&keys::followed(at), Vec::new().into()).await? {
        return Ok(false);
    }
    let prefix = keys::round(at);
    let mut listed = storage.list(&prefix).await?;
    listed.retain(|blob| !outlives_its_round(&blob.name));
    let delete = async |name: String| storage.delete(&format!("{prefix}{name}")).await;
    for_each(listed.into_iter().map(|blob| blob.name), AT_ONCE, delete).await?;
    Ok(true)
}
