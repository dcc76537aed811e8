//! What is needed of a system that runs tasks.

/// A system that runs the tasks of a job somewhere, each of them until it has answered.
///
/// It hands a task's request and supply to the worker process beside the one that runs the task, together with the order of the
/// job, and gives the worker's answer back. It may run a task several times; one answer of each counts.
pub trait Cluster: Send + Sync {
    /// What every worker process is told first.
    fn set_up(&self, setup: &[u8]) -> Result<(), String>;

    /// How many tasks run at once.
    fn slots(&self) -> Result<u32, String>;

    /// Runs a job. It is given up when `cancelled` returns true, and then nothing of it runs any more.
    fn run(&self, job: &Job<'_>, cancelled: &dyn Fn() -> bool) -> Result<Vec<Answer>, JobError>;
}

/// Tasks to be run.
pub struct Job<'a> {
    /// The round, for whoever looks at the system's own pages.
    pub round: u64,
    /// What the worker processes are told before the first task of the job.
    pub order: &'a [u8],
    /// The tasks.
    pub tasks: Vec<Task>,
}

/// A task.
pub struct Task {
    /// Its number in the round.
    pub number: u32,
    /// What the worker process is asked.
    pub request: Vec<u8>,
    /// What it is given for that, besides.
    pub supply: Vec<u8>,
    /// Where an earlier task of this number ran, in the words of [`Answer::place`]. It should run there again, and need not.
    pub place: Option<String>,
}

/// How a task ended.
pub struct Answer {
    /// The task's number.
    pub number: u32,
    /// What messages call the worker.
    pub worker: String,
    /// Where it ran, if another task can be run there; otherwise empty.
    pub place: String,
    /// What came of it.
    pub end: TaskEnd,
}

/// What came of a task.
pub enum TaskEnd {
    /// The worker process has answered.
    Answered(Vec<u8>),
    /// The worker process has ended, in this way.
    Died(String),
    /// No worker process can be had there, for this reason.
    Unusable(String),
}

/// Why a job has no answers.
pub enum JobError {
    /// It was cancelled.
    Cancelled,
    /// A process that ran tasks was lost too often. Another attempt may succeed.
    Lost(String),
    /// It cannot be run.
    Failed(String),
}
