//! Configuration files: what they say, where they are, whether they are right, and changing them.

use crate::args::{Config as ConfigCommand, Set};
use crate::output;
use anyhow::{Context, bail};
use qjam_config::{Config, KEYS, PROJECT_FILE, Places, VARIABLE};
use serde::Serialize;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Serialize)]
struct Report {
    values: Vec<Value>,
    /// Keys that no file has, with what holds instead.
    defaults: Vec<Default>,
    user_file: Option<PathBuf>,
    project_file: Option<PathBuf>,
    ignored: Vec<String>,
}

#[derive(Serialize)]
struct Value {
    key: String,
    value: String,
    file: PathBuf,
    line: usize,
}

#[derive(Serialize)]
struct Default {
    key: &'static str,
    value: &'static str,
}

/// Runs the command.
pub(crate) fn run(args: &ConfigCommand) -> anyhow::Result<ExitCode> {
    match args {
        ConfigCommand::Show(args) => show(args.json)?,
        ConfigCommand::Path => output::line(own_file()?.display().to_string()),
        ConfigCommand::Check => return check(),
        ConfigCommand::Set(args) => set(args)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn own_file() -> anyhow::Result<PathBuf> {
    let nowhere = format!(
        "there is no place for a file: {VARIABLE} is `off`, or neither HOME nor XDG_CONFIG_HOME is set"
    );
    Places::here().user.context(nowhere)
}

fn show(as_json: bool) -> anyhow::Result<()> {
    let places = Places::here();
    let config = Config::read(&places)?;
    let unset = KEYS.iter().filter(|key| config.get(key.name).is_none());
    if as_json {
        let value = |entry: &qjam_config::Entry| {
            let qjam_config::Entry { key, value, file, line } = entry.clone();
            Value { key, value, file, line }
        };
        return output::json(&Report {
            values: config.entries().into_iter().map(value).collect(),
            defaults: unset.map(|key| Default { key: key.name, value: key.default }).collect(),
            user_file: places.user,
            project_file: places.project,
            ignored: config.ignored().iter().map(ToString::to_string).collect(),
        });
    }
    let set = config.entries().into_iter();
    let set = set.map(|entry| [entry.key.clone(), entry.value.clone(), entry.source()]);
    let unset = unset.map(|key| [key.name.to_owned(), key.default.to_owned(), "built in".to_owned()]);
    output::table(["key", "value", "from"], set.chain(unset));
    config.ignored().iter().for_each(|why| output::note(&why.to_string()));
    Ok(())
}

fn check() -> anyhow::Result<ExitCode> {
    let places = Places::here();
    let config = match Config::read(&places) {
        Ok(config) => config,
        Err(e) => {
            output::line(format!("  {} {e}", output::bad()));
            return Ok(ExitCode::FAILURE);
        }
    };
    let mut is_right = true;
    for (path, what) in [(&places.user, "your own file"), (&places.project, "the file of this folder")] {
        let Some(path) = path else { continue };
        let is_ignored = places.project.as_ref() == Some(path) && !config.ignored().is_empty();
        let values = config.entries().iter().filter(|entry| &entry.file == path).count() as u64;
        let shown = path.display();
        if is_ignored {
            is_right = false;
            config.ignored().iter().for_each(|why| output::line(format!("  {} {why}", output::bad())));
        } else if path.exists() {
            output::line(format!(
                "  {} {shown}, {what}: {} in force",
                output::good(),
                output::count(values, "value")
            ));
        } else {
            output::line(format!("  {} {shown}, {what}, is not there", output::good()));
        }
    }
    // Files of hosts are read now; other commands would find out when they connect.
    for entry in
        config.entries().into_iter().filter(|entry| entry.key == "workers" || entry.key.contains('.'))
    {
        let workers = config.workers(&entry.value)?;
        if let Err(e) = qjam::engine::WorkerString::parse(&workers.text) {
            is_right = false;
            output::line(format!("  {} {}: {e}", output::bad(), entry.source()));
        }
    }
    Ok(if is_right { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn set(args: &Set) -> anyhow::Result<()> {
    let path = match args.project {
        true => std::env::current_dir().context("the working folder is gone")?.join(PROJECT_FILE),
        false => own_file()?,
    };
    match &args.value {
        Some(value) => qjam_config::set(&path, &args.key, value, args.project)?,
        None if !qjam_config::unset(&path, &args.key, args.project)? => {
            bail!("{} does not have the key `{}`", path.display(), args.key)
        }
        None => {}
    }
    output::line(format!("{} is changed", path.display()));
    Ok(())
}
