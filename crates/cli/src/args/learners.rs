//! What can be typed about learners and their models. `qjam fit` has one subcommand for each table of options, made when
//! the program starts, so that a learner with a table is in the command.

use super::{Data, bytes};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, Subcommand, value_parser};
use qjam_algos::options::{Kind, LEARNERS, Learner, Opt, Settings, Spelling, Value, learner};
use std::path::PathBuf;

pub(super) const FIT_HELP: &str = "\
`qjam fit LEARNER --help` says what can be chosen.

Examples:
  qjam fit kmeans x.npy --k 20 --out x.model
  qjam inspect x.model
  qjam predict x.model new.npy --out labels.npy";

pub(super) const PREDICT_HELP: &str = "\
Of a table, the columns are read that the model was fitted to, by their names, unless you name others.

Examples:
  qjam predict x.model new.npy --out labels.npy
  qjam predict homes.model homes.csv --missing mean --out labels.csv
  qjam predict x.model new.npy --transform --out distances.npy";

pub(super) const INSPECT_HELP: &str = "\
Examples:
  qjam inspect x.model
  qjam inspect x.model --json | jq .fitted.inertia";

pub(super) const BENCH_HELP: &str = "\
Reading the data and starting the workers is not measured; every distance and sum of the iterations is.

Iterations end at the fixed point, where no centre moves, since all that would follow are the same. `iterations` says how \
many were made and `iterations_asked` how many were asked for; `ms_per_iteration` is the whole time divided by those asked \
for, as the centres are those that a program has found which makes them all. `ms_per_iteration_made` is the time divided \
by those made. With --no-pruning all of them are made, and every distance is computed.

Examples:
  qjam bench kmeans --data x.npy --init c.npy --iterations 20 --workers local:2 --json
  qjam bench kmeans --data x.npy --init c.npy --workers proc:2 --no-pruning --out c2.npy";

/// `qjam fit`: of which learner, with what settings, and the rest.
#[derive(Debug)]
pub(crate) struct Fit {
    pub(crate) settings: Settings,
    /// Column of weights.
    pub(crate) weights: Option<String>,
    pub(crate) args: FitArgs,
}

/// What all learners have.
#[derive(Debug, Args)]
pub(crate) struct FitArgs {
    #[command(flatten)]
    pub(crate) data: Data,
    /// File for the model
    #[arg(long, value_name = "MODEL")]
    pub(crate) out: PathBuf,
    /// Where the work is done
    #[arg(long, default_value = "local", value_name = "WORKERS")]
    pub(crate) workers: String,
    /// Keep within so much memory, this process and each worker process: a number, with K, M, G or T for powers of 1024
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub(crate) memory_limit: Option<u64>,
    /// Say afterwards what was measured and how many workers follow from it, if they are `auto`
    #[arg(long)]
    pub(crate) explain: bool,
    /// Print one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

const WEIGHTS: &str = "weights";

impl Subcommand for Fit {
    fn augment_subcommands(command: Command) -> Command {
        LEARNERS.iter().fold(command.subcommand_required(true), |command, learner| {
            command.subcommand(subcommand(learner))
        })
    }

    fn augment_subcommands_for_update(command: Command) -> Command {
        Fit::augment_subcommands(command)
    }

    fn has_subcommand(name: &str) -> bool {
        learner(name).is_some()
    }
}

impl FromArgMatches for Fit {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Fit, clap::Error> {
        let chosen = matches.subcommand().and_then(|(name, matches)| Some((learner(name)?, matches)));
        let Some((learner, matches)) = chosen else {
            return Err(clap::Error::raw(clap::error::ErrorKind::MissingSubcommand, "which learner?\n"));
        };
        let refused = |e| clap::Error::raw(clap::error::ErrorKind::ValueValidation, format!("{e}\n"));
        let mut settings = Settings::new(learner, Spelling::Command);
        for option in learner.options {
            let value = match option.kind {
                Kind::Flag => Some(Value::Flag(matches.get_flag(option.name))),
                _ => matches.get_one::<Value>(option.name).cloned(),
            };
            if let Some(value) = value {
                settings.set(option.name, value).map_err(refused)?;
            }
        }
        let weights = if learner.weighted { matches.get_one::<String>(WEIGHTS).cloned() } else { None };
        Ok(Fit { settings, weights, args: FitArgs::from_arg_matches(matches)? })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Fit::from_arg_matches(matches)?;
        Ok(())
    }
}

fn subcommand(learner: &'static Learner) -> Command {
    let examples: Vec<String> = learner.examples.iter().map(|example| format!("  qjam {example}")).collect();
    let command = Command::new(learner.name).args(learner.options.iter().map(argument));
    let command = match learner.weighted {
        true => command.arg(Arg::new(WEIGHTS).long(WEIGHTS).value_name("COLUMN").help(
            "Column with the weights of rows: its name in a table, `label` in a LIBSVM file, else `last`",
        )),
        false => command,
    };
    // Behind the arguments that all have, since these bring a description of their own.
    FitArgs::augment_args(command)
        .about(learner.about)
        .long_about(format!("{}\n\n{}", learner.about, learner.detail.replace('\n', " ")))
        .after_help(format!("Examples:\n{}", examples.join("\n")))
}

fn argument(option: &'static Opt) -> Arg {
    let argument = Arg::new(option.name).long(option.flag).help(help(option)).required(option.typed);
    // Who knows Python's name for it may type that.
    let argument = if option.flag == option.name { argument } else { argument.alias(option.name) };
    match option.kind {
        Kind::Flag => argument.action(ArgAction::SetTrue),
        _ => argument
            .value_name(option.value_name())
            .allow_negative_numbers(true)
            .value_parser(move |text: &str| option.parse(text).map_err(|allowed| format!("give {allowed}"))),
    }
}

fn help(option: &Opt) -> String {
    let mut help = String::from(option.help);
    if !option.words.is_empty() {
        help.push_str(&format!(": {}", option.allowed()));
    }
    match option.default_text() {
        Some(default) if !option.typed && option.kind != Kind::Flag => {
            help + &format!(" [default: {default}]")
        }
        _ => help,
    }
}

/// `qjam predict`.
#[derive(Debug, Args)]
pub(crate) struct Predict {
    /// The model
    #[arg(value_name = "MODEL")]
    pub(crate) model: PathBuf,
    #[command(flatten)]
    pub(crate) data: Data,
    /// File for the answers, .npy or .csv by its name; without one they are printed, one line for each row
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Of k-means, the distances to all centres instead of the number of the nearest
    #[arg(long)]
    pub(crate) transform: bool,
    /// Where the work is done
    #[arg(long, default_value = "local", value_name = "WORKERS")]
    pub(crate) workers: String,
    /// Keep within so much memory, this process and each worker process: a number, with K, M, G or T for powers of 1024
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub(crate) memory_limit: Option<u64>,
}

/// `qjam inspect`.
#[derive(Debug, Args)]
pub(crate) struct Inspect {
    /// The model
    #[arg(value_name = "MODEL")]
    pub(crate) model: PathBuf,
    /// Print one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `qjam bench kmeans`.
#[derive(Debug, Args)]
pub(crate) struct BenchKmeans {
    /// Rows: a matrix of 32- or 64-bit numbers that NumPy saved
    #[arg(long, value_name = "X.npy")]
    pub(crate) data: PathBuf,
    /// First centres, of the same type
    #[arg(long, value_name = "C.npy")]
    pub(crate) init: PathBuf,
    /// How many iterations
    #[arg(long, default_value_t = 10, value_name = "I", value_parser = value_parser!(u32).range(1..=1_000_000))]
    pub(crate) iterations: u32,
    /// Where the work is done
    #[arg(long, value_name = "WORKERS")]
    pub(crate) workers: String,
    /// Compute all distances, also those that cannot matter, and go on at the fixed point
    #[arg(long)]
    pub(crate) no_pruning: bool,
    /// File for the centres, as NumPy reads it
    #[arg(long, value_name = "C2.npy")]
    pub(crate) out: Option<PathBuf>,
    /// Print one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}
