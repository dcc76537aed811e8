//! Tests Spark as workers, with PySpark on this machine: in one process of Java, and on a standalone cluster that the tests start.

use crate::package;
use crate::setup;
use crate::step::StepResult;
use crate::workspace::Workspace;

/// The tests of the Python package that need Spark.
pub fn python_test(workspace: &Workspace) -> StepResult {
    setup::spark(workspace)?;
    package::spark_tests(workspace)
}
