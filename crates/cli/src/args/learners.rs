//! What can be typed about learners and their models. `qjam fit` has one subcommand for each table of options, made when
//! the program starts, so that a learner with a table is in the command.

use super::{Data, bytes};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, Subcommand, value_parser};
use qjam_algos::learner::{LEARNERS, find};
use qjam_algos::options::{Kind, Opt, Preset, Settings, Spelling, Table, Target, Value};
use std::path::PathBuf;

pub(super) const FIT_HELP: &str = "\
`qjam fit LEARNER --help` says what can be chosen.

Examples:
  qjam fit kmeans x.npy --k 20 --out x.model
  qjam fit ridge homes.csv --target price --alpha 10 --out homes.model
  qjam fit logistic mails.svm --c 0.5 --out mails.model
  qjam inspect x.model
  qjam predict x.model new.npy --out labels.npy";

pub(super) const PREDICT_HELP: &str = "\
Of a table, the columns are read that the model was fitted to, by their names, unless you name others.

Examples:
  qjam predict x.model new.npy --out labels.npy
  qjam predict homes.model homes.csv --missing mean --out labels.csv
  qjam predict x.model new.npy --transform --out distances.npy
  qjam predict mails.model new.svm --probabilities --out probabilities.csv";

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
    /// Column of weights, or their file.
    pub(crate) weights: Option<String>,
    /// File of what is to be learnt.
    pub(crate) labels: Option<PathBuf>,
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
    /// Say what was chosen and why: the solver, the work between two exchanges, and the number of workers if they are `auto`
    #[arg(long)]
    pub(crate) explain: bool,
    /// Print one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

const WEIGHTS: &str = "weights";
const LABELS: &str = "labels";

impl Subcommand for Fit {
    fn augment_subcommands(command: Command) -> Command {
        LEARNERS.iter().fold(command.subcommand_required(true), |command, learner| {
            command.subcommand(subcommand(learner.table()))
        })
    }

    fn augment_subcommands_for_update(command: Command) -> Command {
        Fit::augment_subcommands(command)
    }

    fn has_subcommand(name: &str) -> bool {
        find(name).is_some()
    }
}

impl FromArgMatches for Fit {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Fit, clap::Error> {
        let chosen = matches.subcommand().and_then(|(name, matches)| Some((find(name)?.table(), matches)));
        let Some((table, matches)) = chosen else {
            return Err(clap::Error::raw(clap::error::ErrorKind::MissingSubcommand, "which learner?\n"));
        };
        let refused = |e| clap::Error::raw(clap::error::ErrorKind::ValueValidation, format!("{e}\n"));
        let mut settings = Settings::new(table, Spelling::Command);
        for option in table.options {
            let value = match option.kind {
                // What is on if nobody says is turned off by its switch.
                Kind::Flag => Some(Value::Flag(matches.get_flag(option.name) != is_on(option))),
                _ => matches.get_one::<Value>(option.name).cloned(),
            };
            if let Some(value) = value {
                settings.set(option.name, value).map_err(refused)?;
            }
        }
        let weights = if table.weighted { matches.get_one::<String>(WEIGHTS).cloned() } else { None };
        let labels = if has_target(table) { matches.get_one::<PathBuf>(LABELS).cloned() } else { None };
        Ok(Fit { settings, weights, labels, args: FitArgs::from_arg_matches(matches)? })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Fit::from_arg_matches(matches)?;
        Ok(())
    }
}

fn subcommand(table: &'static Table) -> Command {
    let examples: Vec<String> = table.examples.iter().map(|example| format!("  qjam {example}")).collect();
    let command = Command::new(table.name).args(table.options.iter().map(argument));
    let command = match has_target(table) {
        true => command.arg(labels()),
        false => command,
    };
    let command = match (table.weighted, has_target(table)) {
        (true, false) => command.arg(Arg::new(WEIGHTS).long(WEIGHTS).value_name("COLUMN").help(
            "Column with the weights of rows: its name in a table, `label` in a LIBSVM file, else `last`",
        )),
        (true, true) => command.arg(Arg::new(WEIGHTS).long(WEIGHTS).value_name("COLUMN").help(
            "Weights of rows: the name of a table's column; for other data a file with a number for each row",
        )),
        (false, _) => command,
    };
    // Behind the arguments that all have, since these bring a description of their own.
    FitArgs::augment_args(command)
        .about(table.about)
        .long_about(format!("{}\n\n{}", table.about, table.detail.replace('\n', " ")))
        .after_help(format!("Examples:\n{}", examples.join("\n")))
}

fn labels() -> Arg {
    Arg::new(LABELS).long(LABELS).value_name("FILE").value_parser(value_parser!(PathBuf)).help(
        "What is to be learnt, a number for each row, as NumPy or a text has it; of a table --target names its column, and LIBSVM \
         files have it in them",
    )
}

/// Whether a learner needs a target for each row.
fn has_target(table: &Table) -> bool {
    table.target != Target::None
}

/// Whether something is on if nobody says.
fn is_on(option: &Opt) -> bool {
    option.default == Preset::Flag(true)
}

fn argument(option: &'static Opt) -> Arg {
    // Arguments are made once and live as long as the program.
    let switch: &'static str = Box::leak(option.switch().into_boxed_str());
    let argument = Arg::new(option.name).long(switch).help(help(option)).required(option.typed);
    // Who knows Python's name for it may type that; a switch that turns something off is not what Python calls it.
    let argument =
        if switch == option.name || is_on(option) { argument } else { argument.alias(option.name) };
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
    if is_on(option) {
        help.push_str("; this says no");
    }
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
    /// Of logistic regression, the probability of every class instead of the likeliest class
    #[arg(long, conflicts_with = "transform")]
    pub(crate) probabilities: bool,
    /// Of a linear classifier, what it decides by: a number for two classes, one for each of more
    #[arg(long, conflicts_with_all = ["transform", "probabilities"])]
    pub(crate) decisions: bool,
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
