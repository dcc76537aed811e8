//! Tests Spark as workers, with PySpark on this machine: in one process of Java, and on a standalone cluster that the tests start.

use crate::package;
use crate::paper;
use crate::setup;
use crate::step::StepResult;
use crate::workspace::Workspace;

/// The tests of the Python package that need Spark, and those of the jar and the study.
pub fn python_test(workspace: &Workspace) -> StepResult {
    setup::spark(workspace)?;
    // Whoever reads the failures wants all of them.
    let (package, study) = (package::spark_tests(workspace), paper::test(workspace));
    Ok(format!("{}; the study {}", package?, study?))
}
