//! Arguments of `qjam store`.

use clap::{Args as ClapArgs, Subcommand, value_parser};
use std::path::PathBuf;

pub(crate) const HELP: &str = "\
URL is the address of a bucket: storage that submitter and workers share, and nothing else. `file:///mnt/share/qjam` is a \
folder that all machines have mounted; it must exist.

Workers are started with `qjam store serve URL`, on any machine and at any time. Programs use them with the worker string \
`store:URL`, or `store:URL?job=NAME` to give the job a name of your choice.

A key is a file that submitter and workers share out of sight of the bucket. With it, nothing is believed that was written \
without it. Functions in Python, and workers with another build of the program, need one.

Examples:
  qjam store key ~/.qjam-key
  qjam store serve file:///mnt/share/qjam --key ~/.qjam-key
  QJAM_STORE_KEY=~/.qjam-key qjam fit kmeans x.npy --k 10 --workers store:file:///mnt/share/qjam
  qjam store status file:///mnt/share/qjam";

const RESUME_HELP: &str = "\
The program of the job is started again, with the same arguments in the same folder. Rounds that have their value in the \
bucket are not run again; the round that was under way goes on. So the result is the same as if nothing had happened. The \
program may be started on another machine that has the same data and the same build.

The exit code is that of the program.";

const ATTACH_HELP: &str = "\
A job is detached by `qjam fit … --workers store:URL --detach`: its workers do all of it, and nobody needs to wait. This command \
follows it from any machine that has the same build of the program, until it has ended, and writes the model to --out. It only \
reads: several may follow a job, it goes on when they are ended, and one that has finished can be brought home again, until \
`qjam store gc` removes it.

The progress goes to the terminal, or line by line to where the output goes; with --json only the result is printed.";

const GC_HELP: &str = "\
A job whose submitter ends in order is removed by it. Other jobs are left for `qjam store resume`, until this command removes \
them: jobs that nobody has worked on for as long as --older-than says, detached jobs that ended before that, data and builds that were written before that and that no \
remaining job uses, and traces of workers that are gone.";

#[derive(Debug, Subcommand)]
pub(crate) enum Store {
    /// Work for the jobs in a bucket until this command is ended
    Serve(Serve),
    /// Show who works, what is worked on, and how far it is
    Status(Status),
    /// List the jobs in a bucket
    Ls(Status),
    /// Start the program of a job again whose submitter was killed, and go on from the last finished round
    #[command(after_help = RESUME_HELP)]
    Resume(Resume),
    /// Follow a detached job until it has ended, and bring its model home
    #[command(after_help = ATTACH_HELP)]
    Attach(Attach),
    /// Remove what nobody needs any more
    #[command(after_help = GC_HELP)]
    Gc(Gc),
    /// Make a key for submitter and workers
    Key(Key),
}

/// What all commands about a bucket need.
#[derive(Debug, ClapArgs)]
pub(crate) struct BucketAddress {
    /// The address of the bucket, for example `file:///mnt/share/qjam`
    #[arg(value_name = "URL")]
    pub(crate) url: String,
    /// The file of the key; by default what QJAM_STORE_KEY names
    #[arg(long, value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Serve {
    #[command(flatten)]
    pub(crate) place: BucketAddress,
    /// How many blocks to run at once; by default one per core
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..=1024))]
    pub(crate) slots: Option<u32>,
    /// What the worker is called; by default the host and the number of the process
    #[arg(long, value_name = "NAME", value_parser = name)]
    pub(crate) name: Option<String>,
    /// Most bytes of data kept open in memory: a number, with K, M, G or T for powers of 1024
    #[arg(long, value_name = "BYTES", default_value = "1G", value_parser = qjam_config::bytes)]
    pub(crate) cache: u64,
    /// End when there was no job for this many seconds
    #[arg(long, value_name = "S")]
    pub(crate) idle_exit: Option<u64>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Status {
    #[command(flatten)]
    pub(crate) place: BucketAddress,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Resume {
    #[command(flatten)]
    pub(crate) place: BucketAddress,
    /// The job, as `qjam store ls` prints it, or the name that was chosen for it
    #[arg(value_name = "JOB")]
    pub(crate) job: String,
    /// Go on even if the submitter may still be alive
    #[arg(long)]
    pub(crate) anyway: bool,
    /// Run what the bucket says although the job is not signed: whoever can write to the bucket chose the command
    #[arg(long)]
    pub(crate) trust: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Attach {
    #[command(flatten)]
    pub(crate) place: BucketAddress,
    /// The job, as `qjam store ls` prints it, or the name that was chosen for it
    #[arg(value_name = "JOB")]
    pub(crate) job: String,
    /// File to write the model to
    #[arg(long, value_name = "MODEL")]
    pub(crate) out: Option<PathBuf>,
    /// Print one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Gc {
    #[command(flatten)]
    pub(crate) place: BucketAddress,
    /// Remove what nobody has used for this long: a number with s, m, h or d
    #[arg(long, value_name = "AGE", default_value = "7d", value_parser = age)]
    pub(crate) older_than: std::time::Duration,
    /// Remove only this job, whatever its age; a detached job is given up
    #[arg(long, value_name = "JOB")]
    pub(crate) job: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Key {
    /// The file to write the key to; it must not exist
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
}

fn name(text: &str) -> Result<String, String> {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    let is_name = (1..=64).contains(&text.len()) && text.bytes().all(allowed) && !text.starts_with('.');
    is_name.then(|| text.to_owned()).ok_or_else(|| {
        "use up to 64 letters, digits, hyphens, underscores and dots, and no dot at the beginning".into()
    })
}

fn age(text: &str) -> Result<std::time::Duration, String> {
    const WRONG: &str = "write a time like `30m`, `12h` or `7d`";
    let (digits, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 24 * 3600,
        _ => return Err(WRONG.into()),
    };
    let number = digits.parse::<u64>().ok().and_then(|n| n.checked_mul(seconds)).filter(|s| *s < 1 << 40);
    number.map(std::time::Duration::from_secs).ok_or_else(|| WRONG.into())
}
