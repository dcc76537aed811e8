//! The command line. Comes in: the words after `cargo xtask`. Goes out: a [`Request`], or what is wrong. Carries nothing out.

use crate::hosts::Order;
use crate::step::{Step, Tier};
use crate::steps::{CHECKS, SETUP};
use std::fmt;
use std::path::PathBuf;

/// An internal command, not shown in the help.
pub const STEP: &str = "one-step";

/// A parsed command line.
pub enum Request {
    /// Print the help.
    Help,
    /// Print the steps.
    List,
    /// Build the portable executable.
    Dist,
    /// Build the Python package for release.
    Wheel,
    /// Build the documentation site.
    Site,
    /// Do all of a release but publishing it, or one part of that.
    Release(Option<String>),
    /// Run the study of Spark and MPI with these options of its own.
    Paper(Vec<String>),
    /// Build the jar for users of Spark in Scala.
    SparkJar,
    /// Print the dependencies between crates and modules.
    Rooms,
    /// Start, remove or inspect test hosts.
    Hosts(Order),
    /// Run one step for a parent process, and write its result to this file.
    Step { name: String, outcome: PathBuf },
    /// Run the steps of these lists and tiers.
    Run { lists: &'static [&'static [Step]], tiers: &'static [Tier], only: Option<String> },
}

/// Why a command line is invalid.
#[derive(Debug, PartialEq, Eq)]
pub enum Usage {
    NoSuchCommand(String),
    NoSuchOption { command: String, option: String },
    OnlyWhat,
    ReleaseHow,
    NoSuchStep(String),
    HostsWhat,
}

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Usage::NoSuchCommand(word) => write!(f, "there is no command '{word}'"),
            Usage::NoSuchOption { command, option } => write!(f, "'{command}' has no option '{option}'"),
            Usage::OnlyWhat => write!(f, "--only wants the name of a step: `cargo xtask list` names them"),
            Usage::ReleaseHow => {
                write!(f, "'release' wants --dry-run: publishing is what the workflow `release` does")
            }
            Usage::HostsWhat => write!(f, "'hosts' wants one of: up, down, status, shell NAME"),
            Usage::NoSuchStep(name) => {
                write!(f, "no step '{name}' in this command's tier: `cargo xtask list` names them")
            }
        }
    }
}

/// Parses the words after `cargo xtask`.
pub fn parse(words: &[String]) -> Result<Request, Usage> {
    let Some((command, options)) = words.split_first() else { return Ok(Request::Help) };
    if command == "hosts" {
        return order(options).map(Request::Hosts).ok_or(Usage::HostsWhat);
    }
    if let [word, name, outcome] = words
        && word == STEP
    {
        return Ok(Request::Step { name: name.clone(), outcome: outcome.into() });
    }
    if command == "paper" {
        return Ok(Request::Paper(options.to_vec()));
    }
    let (mut full, mut only, mut is_rehearsal) = (false, None, false);
    let mut options = options.iter();
    while let Some(option) = options.next() {
        match (command.as_str(), option.as_str()) {
            ("test" | "setup", "--full") => full = true,
            ("release", "--dry-run") => is_rehearsal = true,
            ("test" | "bench" | "release", "--only") => {
                only = Some(options.next().ok_or(Usage::OnlyWhat)?.clone())
            }
            _ => return Err(Usage::NoSuchOption { command: command.clone(), option: option.clone() }),
        }
    }
    let quick: &[Tier] = &[Tier::Quick];
    let tiers: &[Tier] = if full { &[Tier::Quick, Tier::Full, Tier::Bench] } else { quick };
    match command.as_str() {
        "test" => Ok(Request::Run { lists: &[SETUP, CHECKS], tiers, only }),
        "bench" => Ok(Request::Run { lists: &[SETUP, CHECKS], tiers: &[Tier::Bench], only }),
        "setup" => Ok(Request::Run { lists: &[SETUP], tiers, only: None }),
        "dist" => Ok(Request::Dist),
        "wheel" => Ok(Request::Wheel),
        "site" => Ok(Request::Site),
        "release" if is_rehearsal => Ok(Request::Release(only)),
        "release" => Err(Usage::ReleaseHow),
        "spark-jar" => Ok(Request::SparkJar),
        "rooms" => Ok(Request::Rooms),
        "list" => Ok(Request::List),
        "help" | "--help" | "-h" => Ok(Request::Help),
        _ => Err(Usage::NoSuchCommand(command.clone())),
    }
}

/// Parses the command about test hosts.
fn order(words: &[String]) -> Option<Order> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["up"] => Some(Order::Up),
        ["down"] => Some(Order::Down),
        ["status"] => Some(Order::Status),
        ["shell", name] => Some(Order::Shell(name.to_string())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Request, Usage> {
        parse(&line.split_whitespace().map(String::from).collect::<Vec<_>>())
    }

    #[test]
    fn full_adds_the_long_tiers() {
        let Ok(Request::Run { tiers, .. }) = parsed("test") else { panic!("not a run") };
        assert_eq!(tiers, [Tier::Quick]);
        let Ok(Request::Run { tiers, .. }) = parsed("test --full") else { panic!("not a run") };
        assert_eq!(tiers, [Tier::Quick, Tier::Full, Tier::Bench]);
    }

    #[test]
    fn a_shell_is_on_a_named_host() {
        let Ok(Request::Hosts(order)) = parsed("hosts shell a") else { panic!("not about hosts") };
        assert_eq!(order, Order::Shell("a".into()));
    }

    #[test]
    fn options_of_the_study_are_its_own() {
        let Ok(Request::Paper(options)) = parsed("paper --quick --lam 2") else { panic!("not the study") };
        assert_eq!(options, ["--quick", "--lam", "2"]);
    }

    #[test]
    fn wrong_words_are_named() {
        assert_eq!(parsed("tset").err(), Some(Usage::NoSuchCommand("tset".into())));
        let no_option = Usage::NoSuchOption { command: "bench".into(), option: "--full".into() };
        assert_eq!(parsed("bench --full").err(), Some(no_option));
        assert_eq!(parsed("test --only").err(), Some(Usage::OnlyWhat));
        assert_eq!(parsed("hosts").err(), Some(Usage::HostsWhat));
        assert_eq!(parsed("release").err(), Some(Usage::ReleaseHow));
        assert!(
            matches!(parsed("release --dry-run --only wheel"), Ok(Request::Release(Some(part))) if part == "wheel")
        );
        assert_eq!(parsed("hosts shell").err(), Some(Usage::HostsWhat));
        assert_eq!(parsed("hosts up now").err(), Some(Usage::HostsWhat));
    }

    #[test]
    fn workflows_call_commands_that_there_are() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../.github/workflows");
        let mut count = 0;
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            let text = std::fs::read_to_string(entry.path()).unwrap();
            let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
            for (_, rest) in lines.filter_map(|line| line.split_once("cargo xtask ")) {
                let words: Vec<&str> = rest.split_whitespace().take_while(|word| *word != "&&").collect();
                assert!(parsed(&words.join(" ")).is_ok(), "{:?}: {rest}", entry.path());
                count += 1;
            }
        }
        assert!(count >= 5);
    }
}
