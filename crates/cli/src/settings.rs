//! What configuration files add to a command line: defaults of options, clusters in the place of their names, the ssh command.
//!
//! In: the words that the user typed, and the files. Out: the description of the command line with other defaults, and parsed
//! arguments without names of clusters. Every value that a file gave is told on standard error, with file and line.

use crate::args::{Args, Bench, Command};
use crate::output;
use clap::ArgMatches;
use clap::parser::ValueSource;
use qjam_config::Config;
use std::ffi::OsString;

/// Commands that name workers or hosts. All others read no file, so that a wrong one does not keep anybody from mending it.
const READERS: &[&str] =
    &["bench", "cache", "check", "clean", "demo", "evaluate", "fit", "graph", "predict", "store"];

/// Which options get their default from a file: command, subcommand (all if empty), argument, key.
const DEFAULTS: &[(&str, &str, &str, &str)] = &[
    ("fit", "", "workers", "workers"),
    ("fit", "", "memory_limit", "memory-limit"),
    ("fit", "", "host_cache", "host-cache"),
    ("fit", "", "tuning", "tuning"),
    ("predict", "", "workers", "workers"),
    ("predict", "", "memory_limit", "memory-limit"),
    ("predict", "", "host_cache", "host-cache"),
    ("evaluate", "", "workers", "workers"),
    ("evaluate", "", "memory_limit", "memory-limit"),
    ("evaluate", "", "host_cache", "host-cache"),
    ("graph", "", "workers", "workers"),
    ("store", "serve", "cache", "cache"),
];

/// What the files say to one command line.
pub(crate) struct Settings(Config);

impl Settings {
    /// Reads the files, if this command line asks for it.
    pub(crate) fn for_words(words: &[OsString]) -> anyhow::Result<Settings> {
        let words = || words.iter().skip(1).filter_map(|word| word.to_str());
        let reads = words().find(|word| !word.starts_with('-')).is_some_and(|word| READERS.contains(&word));
        let wants_help =
            words().take_while(|word| *word != "--").any(|word| word == "--help" || word == "-h");
        Ok(Settings(match (reads, wants_help) {
            (false, _) => Config::default(),
            (true, true) => Config::load().unwrap_or_default(),
            (true, false) => Config::load()?,
        }))
    }

    /// The description of the command line with the defaults of the files.
    pub(crate) fn in_command(&self, mut command: clap::Command) -> clap::Command {
        for (name, below, argument, key) in DEFAULTS {
            let Some(entry) = self.0.get(key) else { continue };
            // Leaked once: arguments live as long as the program.
            let value: &'static str = Box::leak(entry.value.clone().into_boxed_str());
            command = command.mut_subcommand(name, |mut command| {
                let names: Vec<String> =
                    command.get_subcommands().map(|sub| sub.get_name().to_owned()).collect();
                for name in names.iter().filter(|name| below.is_empty() || name == below) {
                    command = command.mut_subcommand(name, |command| with_default(command, argument, value));
                }
                with_default(command, argument, value)
            });
        }
        command
    }

    /// Puts clusters in the place of their names, and tells what came from a file.
    pub(crate) fn in_args(&self, matches: &ArgMatches, args: &mut Args) -> anyhow::Result<()> {
        self.0.ignored().iter().for_each(|why| output::note(&why.to_string()));
        for (name, below, argument, key) in DEFAULTS {
            let (Some(entry), Some(found)) = (self.0.get(key), matches.subcommand_matches(name)) else {
                continue;
            };
            let leaf = match found.subcommand() {
                Some((sub, leaf)) if below.is_empty() || sub == *below => leaf,
                Some(_) => continue,
                None => found,
            };
            let is_there = leaf.ids().any(|id| id == argument);
            if is_there && leaf.value_source(argument) == Some(ValueSource::DefaultValue) {
                output::note(&format!("--{key} {} ({})", entry.value, entry.source()));
            }
        }
        if let Some(ssh) = self.0.get("ssh") {
            qjam::hosts::use_ssh(&ssh.value);
        }
        if let Some(workers) = workers_of(&mut args.command) {
            *workers = self.expanded(workers)?;
        }
        if let Some(hosts) = hosts_of(&mut args.command).filter(|hosts| !hosts.is_empty()) {
            *hosts = vec![self.expanded(&hosts.join(","))?];
        }
        Ok(())
    }

    fn expanded(&self, text: &str) -> anyhow::Result<String> {
        let expanded = self.0.workers(text)?;
        for cluster in &expanded.clusters {
            let name = cluster.key.strip_prefix(qjam_config::CLUSTERS).unwrap_or(&cluster.key);
            output::note(&format!("{name} is {} ({})", cluster.value, cluster.source()));
        }
        Ok(expanded.text)
    }
}

fn with_default(command: clap::Command, argument: &str, value: &'static str) -> clap::Command {
    let has_it = command.get_arguments().any(|known| known.get_id() == argument);
    match has_it {
        true => command.mut_arg(argument, |argument| argument.default_value(value)),
        false => command,
    }
}

/// The worker string of a command that has one.
fn workers_of(command: &mut Command) -> Option<&mut String> {
    match command {
        Command::Demo(args) => Some(&mut args.workers),
        Command::Fit(args) => Some(&mut args.args.workers),
        Command::Predict(args) => Some(&mut args.workers),
        Command::Evaluate(args) => Some(&mut args.workers),
        Command::Graph(args) => Some(args.workers()),
        Command::Bench(Bench::Rounds(args)) => Some(&mut args.workers),
        Command::Bench(Bench::Transfer(args)) => Some(&mut args.workers),
        Command::Bench(Bench::Auto(args)) => Some(&mut args.workers),
        Command::Bench(Bench::Autoencoder(args)) => Some(&mut args.workers),
        Command::Bench(Bench::Kmeans(args)) => Some(&mut args.workers),
        Command::Bench(Bench::Cocoa(args)) => args.workers.as_mut(),
        _ => None,
    }
}

/// The hosts of a command that is about hosts.
fn hosts_of(command: &mut Command) -> Option<&mut Vec<String>> {
    match command {
        Command::Check(args) => Some(&mut args.hosts),
        Command::Cache(args) => Some(&mut args.hosts),
        Command::Clean(args) => Some(&mut args.hosts),
        _ => None,
    }
}
