//! Clusters by name, and the word `spark` in worker strings.

use crate::{Cluster, SparkCrew};
use linkme::distributed_slice;
use qjam::engine::Crew;
use qjam::engine::provider::{CREWS, CrewError, CrewProvider, CrewSettings};
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

/// Clusters that no master has joined yet.
static OFFERED: LazyLock<Mutex<HashMap<String, Arc<dyn Cluster>>>> = LazyLock::new(Mutex::default);

#[distributed_slice(CREWS)]
static PROVIDER: CrewProvider = CrewProvider {
    word: "spark",
    example: "in Python, `Master(spark=sc)` takes a SparkContext, and `Master(spark=\"spark://host:7077\")` makes one",
    join,
};

/// Makes a cluster what the next master with the workers `spark:NAME` runs its rounds on.
pub fn offer(name: &str, cluster: Arc<dyn Cluster>) {
    OFFERED.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), cluster);
}

fn join(name: &str, settings: &CrewSettings<'_>) -> Result<Arc<dyn Crew>, CrewError> {
    let offered = OFFERED.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
    let Some(cluster) = offered else {
        return Err(format!(
            "spark:{name}: the driver of Spark is a Python program, and nobody in this process has brought one; write \
             `Master(spark=sc)` with a SparkContext, or `Master(spark=\"{name}\")` if that is the address of a cluster"
        )
        .into());
    };
    Ok(Arc::new(SparkCrew::new(name, cluster, settings.language_setup())?))
}
