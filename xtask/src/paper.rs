//! The study of what Spark costs beside MPI, and the jar that its variants in Scala are in.
//!
//! The jar is compiled by the Scala compiler among PySpark's own jars, so nothing is installed for it; the library that it loads is the
//! crate `qjam-spark-jni`. Both go to `spark` in the target folder.

use crate::failure::{AboutFile, Failure};
use crate::package;
use crate::setup;
use crate::step::StepResult;
use crate::workspace::Workspace;
use std::path::PathBuf;

/// Where the sources of the jar are.
const SCALA: &str = "crates/spark-jni/scala";

/// Builds `qjam-spark.jar` and its native library.
pub fn jar(workspace: &Workspace) -> StepResult {
    let (jar, native) = built(workspace, "release")?;
    Ok(format!("{}\n{}", jar.display(), native.display()))
}

/// Tests the jar and the study on a standalone cluster.
pub fn test(workspace: &Workspace) -> StepResult {
    setup::mpi(workspace)?;
    let (jar, native) = built(workspace, "debug")?;
    package::spark_study_tests(workspace, &jar, &native)
}

/// The jar, and the library of this build.
fn built(workspace: &Workspace, build: &str) -> Result<(PathBuf, PathBuf), Failure> {
    setup::spark(workspace)?;
    let folder = workspace.target.join("spark");
    std::fs::create_dir_all(&folder).about(&folder)?;
    let home = "import os, pyspark; print(os.path.dirname(pyspark.__file__))";
    let home = workspace.program(workspace.venv_program("python")?).args(["-c", home]).ask()?;
    let java = match std::env::var_os("JAVA_HOME") {
        Some(home) => PathBuf::from(home).join("bin/java"),
        None => "java".into(),
    };
    let mut sources: Vec<PathBuf> = Vec::new();
    let of_scala = workspace.root.join(SCALA);
    for entry in std::fs::read_dir(&of_scala).about(&of_scala)? {
        sources.push(entry.about(&of_scala)?.path());
    }
    sources.sort();
    let jar = folder.join("qjam-spark.jar");
    let compiler = workspace.program(java).args(["-Xmx1g", "-cp"]).arg(format!("{}/jars/*", home.trim()));
    let compiler =
        compiler.args(["scala.tools.nsc.Main", "-usejavacp", "-deprecation", "-Xlint", "-Werror", "-d"]);
    compiler.arg(&jar).args(sources).run()?;
    let option = if build == "release" { "--release" } else { "" };
    workspace.cargo(&format!("build {option} -p qjam-spark-jni")).run()?;
    let library = "libqjam_spark_jni.so";
    let native = folder.join(build).join(library);
    std::fs::create_dir_all(folder.join(build)).about(&folder)?;
    std::fs::copy(workspace.target.join(build).join(library), &native).about(&native)?;
    Ok((jar, native))
}

/// Builds all that the study needs and runs it with these options.
pub fn study(workspace: &Workspace, options: &[String]) -> StepResult {
    setup::paper(workspace)?;
    let (jar, native) = built(workspace, "release")?;
    package::install(workspace)?;
    let program = workspace.program(workspace.venv_program("python")?).arg("bench/paper/study.py");
    let program = program.arg("--jar").arg(jar).arg("--native").arg(native);
    let program = program.arg("--out").arg(workspace.target.join("paper")).args(options);
    program.limit_min(240).tee_and_leave_nothing()
}
