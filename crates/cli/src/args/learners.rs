//! Arguments of the commands for learners and models.
//!
//! `qjam fit` has one subcommand per learner, built at start-up from the learner's table of options. Comes in: what the user
//! typed. Goes out: [`Fit`] with checked [`Settings`], [`Predict`], [`Inspect`], [`BenchKmeans`]. Reads no data.

use super::Data;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, Subcommand, value_parser};
use qjam_algos::options::{Kind, Opt, Preset, Settings, Spelling, Table, Target, Value};
use qjam_algos::preprocessing as scaling;
use qjam_algos::registry::{LEARNERS, find};
use qjam_config::bytes;
use std::path::PathBuf;

pub(super) const FIT_HELP: &str = "\
`qjam fit LEARNER --help` lists the options of a learner.

Examples:
  qjam fit kmeans x.npy --k 20 --out x.model
  qjam fit ridge homes.csv --target price --alpha 10 --out homes.model
  qjam fit logistic mails.svm --c 0.5 --out mails.model
  qjam fit ridge homes.csv --target price --alpha 1 --cv 5 --out homes.model
  qjam inspect x.model
  qjam predict x.model new.npy --out labels.npy";

pub(super) const PREDICT_HELP: &str = "\
From a table, the columns that the model was fitted to are read, by name, unless you name others.

Examples:
  qjam predict x.model new.npy --out labels.npy
  qjam predict homes.model homes.csv --missing mean --out labels.csv
  qjam predict x.model new.npy --transform --out distances.npy
  qjam predict mails.model new.svm --probabilities --out probabilities.parquet";

pub(super) const INSPECT_HELP: &str = "\
Examples:
  qjam inspect x.model
  qjam inspect x.model --json | jq .fitted.inertia";

pub(super) const BENCH_HELP: &str = "\
The time includes everything in the iterations, and excludes reading the data and starting the workers.

Iterations stop at the fixed point, where no centre moves, because further iterations would change nothing. `iterations` is \
the number computed and `iterations_asked` the number requested. `ms_per_iteration` is the total time divided by the number \
requested, since the centres are those of a program that computes all of them; `ms_per_iteration_made` is the total time \
divided by the number computed. With --no-pruning all iterations and all distances are computed.

Examples:
  qjam bench kmeans --data x.npy --init c.npy --iterations 20 --workers local:2 --json
  qjam bench kmeans --data x.npy --init c.npy --workers proc:2 --no-pruning --out c2.npy";

/// `qjam fit`: the settings of one learner, and the arguments that all learners share.
#[derive(Debug)]
pub(crate) struct Fit {
    pub(crate) settings: Settings,
    /// Column of row weights, or a file with them.
    pub(crate) weights: Option<String>,
    /// File with the targets.
    pub(crate) labels: Option<PathBuf>,
    /// What columns are brought to before the fit, and kept with the model.
    pub(crate) scaling: Option<scaling::Kind>,
    /// How many folds are fitted and measured, and the seed that chooses them.
    pub(crate) folds: Option<(u32, u64)>,
    pub(crate) args: FitArgs,
}

/// Arguments that all learners share.
#[derive(Debug, Args)]
pub(crate) struct FitArgs {
    #[command(flatten)]
    pub(crate) data: Data,
    /// File to write the model to
    #[arg(long, value_name = "MODEL", required_unless_present = "detach")]
    pub(crate) out: Option<PathBuf>,
    /// Put the fit into a bucket and return: its workers do all of it, and `qjam store attach` brings the model home. Needs
    /// `--workers store:URL`
    #[arg(long, conflicts_with_all = ["out", "explain", "dashboard", "events"])]
    pub(crate) detach: bool,
    /// Workers, as a worker string: see `qjam --help`
    #[arg(long, default_value = "local", value_name = "WORKERS")]
    pub(crate) workers: String,
    /// Memory limit of each worker process: a number, with K, M, G or T for powers of 1024. This process chooses how much it
    /// keeps of the data accordingly, but nothing holds it to the limit, nor the threads of `local`: use `proc` for that
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub(crate) memory_limit: Option<u64>,
    /// Most bytes that the cache on the disk of each host may take: a number, with K, M, G or T for powers of 1024; by default
    /// what `qjam cache --cap` has set there
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub(crate) host_cache: Option<u64>,
    /// Print what was chosen and why: the solver, the work between two exchanges, and with `auto` the number of workers
    #[arg(long)]
    pub(crate) explain: bool,
    /// Print one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Tell what happens while it works, one line of JSON for each event on standard error, which has nothing else
    #[arg(long)]
    pub(crate) events: bool,
    /// Serve a page about the run while it goes on, for a browser on this machine, and print its link
    #[arg(long)]
    pub(crate) dashboard: bool,
}

const WEIGHTS: &str = "weights";
const LABELS: &str = "labels";
const STANDARDIZE: &str = "standardize";
/// The same, as many spell it.
const STANDARDISE: &str = "standardise";
const MINMAX: &str = "minmax";
const FOLDS: &str = "cv";
const FOLDS_SEED: &str = "cv-seed";

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
                // The switch of an option that is on by default turns it off.
                Kind::Flag => Some(Value::Flag(matches.get_flag(option.name) != is_on(option))),
                _ => matches.get_one::<Value>(option.name).cloned(),
            };
            if let Some(value) = value {
                settings.set(option.name, value).map_err(refused)?;
            }
        }
        let weights = if table.weighted { matches.get_one::<String>(WEIGHTS).cloned() } else { None };
        let labels = if has_target(table) { matches.get_one::<PathBuf>(LABELS).cloned() } else { None };
        let folds = match has_target(table) {
            true => matches.get_one(FOLDS).copied().zip(matches.get_one(FOLDS_SEED).copied()),
            false => None,
        };
        let is_typed = |flag: &str| can_be_scaled(table, flag) && matches.get_flag(flag);
        let scaling = match (is_typed(STANDARDIZE), is_typed(MINMAX)) {
            (true, _) => Some(scaling::Kind::Standard),
            (false, true) => Some(scaling::Kind::MinMax),
            (false, false) => None,
        };
        Ok(Fit { settings, weights, labels, scaling, folds, args: FitArgs::from_arg_matches(matches)? })
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
        true => command.arg(labels()).args(folds()),
        false => command,
    };
    let command = match (table.weighted, has_target(table)) {
        (true, false) => command.arg(Arg::new(WEIGHTS).long(WEIGHTS).value_name("COLUMN").help(
            "Column with row weights: its name in a table, `label` in a LIBSVM file, otherwise `last`",
        )),
        (true, true) => command.arg(Arg::new(WEIGHTS).long(WEIGHTS).value_name("COLUMN").help(
            "Row weights: the name of a table's column; for other data a file with one number per row",
        )),
        (false, _) => command,
    };
    let scaling = [standardize(), minmax()].into_iter();
    let command = command.args(scaling.filter(|argument| can_be_scaled(table, argument.get_id().as_str())));
    // After the shared arguments, which set a description of their own.
    FitArgs::augment_args(command)
        .about(table.about)
        .long_about(format!("{}\n\n{}", table.about, table.detail.replace('\n', " ")))
        .after_help(format!("Examples:\n{}", examples.join("\n")))
}

fn labels() -> Arg {
    Arg::new(LABELS).long(LABELS).value_name("FILE").value_parser(value_parser!(PathBuf)).help(
        "The targets: an .npy or text file with one number per row. For a table use --target instead; LIBSVM files \
         contain them",
    )
}

fn folds() -> [Arg; 2] {
    [
        Arg::new(FOLDS).long(FOLDS).value_name("K").value_parser(value_parser!(u32).range(2..=1_000)).help(
            "Before the fit, cross-validate: fit K times, each time without one of K folds of the rows, and measure on that \
             fold. Classes have the same share of every fold",
        ),
        Arg::new(FOLDS_SEED)
            .long(FOLDS_SEED)
            .value_name("SEED")
            .value_parser(value_parser!(u64))
            .default_value("0")
            .requires(FOLDS)
            .help("Chooses the rows of the folds"),
    ]
}

/// Whether the rows of a learner can be scaled by this flag. Scalers do nothing else, and some learners have an option of that name.
fn can_be_scaled(table: &Table, flag: &str) -> bool {
    let is_scaler =
        [scaling::Kind::Standard, scaling::Kind::MinMax, scaling::Kind::MaxAbs].map(scaling::Kind::name);
    !is_scaler.contains(&table.name) && table.option(flag).is_none()
}

fn standardize() -> Arg {
    Arg::new(STANDARDIZE).long(STANDARDIZE).alias(STANDARDISE).action(ArgAction::SetTrue).help(
        "Bring columns to mean 0 and variance 1 before the fit, of sparse rows only to variance 1. The scaling is kept with the \
         model, and applied to whatever it is asked about",
    )
}

fn minmax() -> Arg {
    Arg::new(MINMAX).long(MINMAX).action(ArgAction::SetTrue).conflicts_with(STANDARDIZE).help(
        "Bring columns to the range from 0 to 1 before the fit. The scaling is kept with the model, and applied to whatever it is \
         asked about",
    )
}

/// Whether a learner needs a target for each row.
fn has_target(table: &Table) -> bool {
    table.target != Target::None
}

/// Whether an option is on by default.
fn is_on(option: &Opt) -> bool {
    option.default == Preset::Flag(true)
}

fn argument(option: &'static Opt) -> Arg {
    // Leaked once: arguments live as long as the program.
    let switch: &'static str = Box::leak(option.switch().into_boxed_str());
    let argument = Arg::new(option.name).long(switch).help(help(option)).required(option.typed);
    // Python's name is an alias, except for a switch that turns something off, which means the opposite.
    let argument =
        if switch == option.name || is_on(option) { argument } else { argument.alias(option.name) };
    let argument = if switch == STANDARDIZE { argument.alias(STANDARDISE) } else { argument };
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
        help.push_str("; this turns it off");
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
    /// The model file
    #[arg(value_name = "MODEL")]
    pub(crate) model: PathBuf,
    #[command(flatten)]
    pub(crate) data: Data,
    /// File to write the predictions to, .npy, .csv or .parquet; without it they are printed, one line per row
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// For k-means: the distances to all centres instead of the index of the nearest. Computed by threads of this process, one per
    /// core or as many as `--workers local:N` says, and written as they come
    #[arg(long)]
    pub(crate) transform: bool,
    /// For logistic regression: the probability of every class instead of the most likely class
    #[arg(long, conflicts_with = "transform")]
    pub(crate) probabilities: bool,
    /// For a linear classifier: the decision values, one per row for two classes, otherwise one per class
    #[arg(long, conflicts_with_all = ["transform", "probabilities"])]
    pub(crate) decisions: bool,
    /// Workers, as a worker string: see `qjam --help`
    #[arg(long, default_value = "local", value_name = "WORKERS")]
    pub(crate) workers: String,
    /// Memory limit of each worker process: a number, with K, M, G or T for powers of 1024. This process chooses how much it
    /// keeps of the data accordingly, but nothing holds it to the limit, nor the threads of `local`: use `proc` for that
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub(crate) memory_limit: Option<u64>,
    /// Most bytes that the cache on the disk of each host may take: a number, with K, M, G or T for powers of 1024; by default
    /// what `qjam cache --cap` has set there
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub(crate) host_cache: Option<u64>,
    /// Tell what happens while it works, one line of JSON for each event on standard error, which has nothing else
    #[arg(long)]
    pub(crate) events: bool,
}

/// `qjam inspect`.
#[derive(Debug, Args)]
pub(crate) struct Inspect {
    /// The model file
    #[arg(value_name = "MODEL")]
    pub(crate) model: PathBuf,
    /// Print one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `qjam bench kmeans`.
#[derive(Debug, Args)]
pub(crate) struct BenchKmeans {
    /// The rows: an .npy matrix of 32- or 64-bit floating-point numbers
    #[arg(long, value_name = "X.npy")]
    pub(crate) data: PathBuf,
    /// The initial centres, of the same type
    #[arg(long, value_name = "C.npy")]
    pub(crate) init: PathBuf,
    /// Number of iterations
    #[arg(long, default_value_t = 10, value_name = "I", value_parser = value_parser!(u32).range(1..=1_000_000))]
    pub(crate) iterations: u32,
    /// Workers, as a worker string: see `qjam --help`
    #[arg(long, value_name = "WORKERS")]
    pub(crate) workers: String,
    /// Compute every distance, without pruning, and do not stop at the fixed point
    #[arg(long)]
    pub(crate) no_pruning: bool,
    /// .npy file to write the centres to
    #[arg(long, value_name = "C2.npy")]
    pub(crate) out: Option<PathBuf>,
    /// Print one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Serve a page about the run while it goes on, for a browser on this machine, and print its link
    #[arg(long)]
    pub(crate) dashboard: bool,
}
