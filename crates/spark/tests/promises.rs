//! The promises of all engines, for the crew and its worker processes, on a cluster that is this machine: tasks are handed to any
//! worker that is free, and with three of them, processes die. That Spark is such a cluster is tested from Python
//! (`python/tests/test_spark.py`).

#![allow(clippy::unwrap_used, reason = "all of this is test")]

use qjam_conformance::{Engine, run};
use qjam_spark::{Answer, Cluster, Job, JobError, Task, TaskEnd, offer};
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

qjam_conformance::hook!();

fn main() -> ExitCode {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let engine = Engine::with(
        "spark",
        &["spark:1", "spark:2", "spark:3"],
        |n| format!("spark:{n}"),
        |builder, shape| {
            let name = format!("machine-{}", COUNT.fetch_add(1, Relaxed));
            offer(&name, Arc::new(Machine::new(&name, shape.trim_start_matches("spark:").parse().unwrap())));
            builder.connect(&format!("spark:{name}"))
        },
    );
    run(&[engine], &[])
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Workers of this machine, as a cluster.
struct Machine {
    folder: PathBuf,
    slots: u32,
    setup: Mutex<Vec<u8>>,
    /// Worker processes without a task.
    idle: Mutex<Vec<Worker>>,
    /// How many tasks were run.
    tasks: AtomicU32,
}

struct Worker {
    child: Child,
    /// The round of the order that it was told last.
    round: Option<u64>,
}

impl Worker {
    fn frame(&mut self, letter: u8, parts: &[&[u8]]) -> io::Result<()> {
        let input = self.child.stdin.as_mut().unwrap();
        let length: usize = parts.iter().map(|part| part.len()).sum();
        input.write_all(&[letter])?;
        input.write_all(&(length as u64).to_le_bytes())?;
        parts.iter().try_for_each(|part| input.write_all(part))
    }

    fn answer(&mut self) -> io::Result<Vec<u8>> {
        let output = self.child.stdout.as_mut().unwrap();
        let mut length = [0; 8];
        output.read_exact(&mut length)?;
        let mut answer = vec![0; u64::from_le_bytes(length) as usize];
        output.read_exact(&mut answer)?;
        Ok(answer)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts a process by a thread that ends with this program: a worker ends with the thread that started it.
fn started(command: Command) -> Child {
    type Wish = (Command, Sender<Child>);
    static STARTER: LazyLock<Mutex<Sender<Wish>>> = LazyLock::new(|| {
        let (starter, wishes) = channel::<Wish>();
        std::thread::spawn(move || {
            for (mut command, child) in wishes {
                child.send(command.spawn().unwrap()).unwrap();
            }
        });
        Mutex::new(starter)
    });
    let (child, started) = channel();
    lock(&STARTER).send((command, child)).unwrap();
    started.recv().unwrap()
}

impl Machine {
    fn new(name: &str, slots: u32) -> Machine {
        let folder = std::env::temp_dir().join(format!("qjam-spark-test-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Machine { folder, slots, setup: Mutex::default(), idle: Mutex::default(), tasks: AtomicU32::new(0) }
    }

    /// A worker without a task: not the one that had the last, if there are others.
    fn worker(&self) -> Worker {
        let mut idle = lock(&self.idle);
        if !idle.is_empty() {
            return idle.remove(0);
        }
        drop(idle);
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.env("QJAM_SPARK_WORKER", format!("{}:{}", std::process::id(), self.folder.display()));
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut worker = Worker { child: started(command), round: None };
        worker.frame(b'S', &[&lock(&self.setup)]).unwrap();
        worker
    }

    /// Hands a task to a worker. Where there are three slots, every seventh is killed with its task.
    fn hand_over(&self, job: &Job<'_>, task: &Task, busy: &Mutex<Vec<u32>>) -> io::Result<Vec<u8>> {
        let mut worker = self.worker();
        let pid = worker.child.id();
        lock(busy).push(pid);
        let answered = (|| {
            if worker.round != Some(job.round) {
                worker.frame(b'O', &[job.order])?;
                worker.round = Some(job.round);
            }
            let length = (task.request.len() as u64).to_le_bytes();
            worker.frame(b'T', &[&length, &task.request, &task.supply])?;
            if self.slots == 3 && self.tasks.fetch_add(1, Relaxed) % 7 == 6 {
                worker.child.kill()?;
            }
            worker.answer()
        })();
        lock(busy).retain(|other| *other != pid);
        if answered.is_ok() {
            lock(&self.idle).push(worker);
        }
        answered
    }
}

impl Cluster for Machine {
    fn set_up(&self, setup: &[u8]) -> Result<(), String> {
        *lock(&self.setup) = setup.to_vec();
        Ok(())
    }

    fn slots(&self) -> Result<u32, String> {
        Ok(self.slots)
    }

    fn run(&self, job: &Job<'_>, cancelled: &dyn Fn() -> bool) -> Result<Vec<Answer>, JobError> {
        let (next, busy) = (AtomicU32::new(0), Mutex::default());
        let answers: Mutex<Vec<Answer>> = Mutex::default();
        let is_off = AtomicBool::new(false);
        let work = || {
            while let Some(task) = job.tasks.get(next.fetch_add(1, Relaxed) as usize) {
                let end = match is_off.load(Relaxed) {
                    true => TaskEnd::Died("was not started".into()),
                    false => match self.hand_over(job, task, &busy) {
                        Ok(answer) => TaskEnd::Answered(answer),
                        Err(e) => TaskEnd::Died(format!("ended: {e}")),
                    },
                };
                let answer =
                    Answer { number: task.number, worker: "machine".into(), place: String::new(), end };
                lock(&answers).push(answer);
            }
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..self.slots).map(|_| scope.spawn(work)).collect();
            while threads.iter().any(|thread| !thread.is_finished()) {
                if cancelled() {
                    is_off.store(true, Relaxed);
                    for pid in
                        lock(&busy).iter().filter_map(|pid| rustix::process::Pid::from_raw(*pid as i32))
                    {
                        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
                    }
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        if is_off.load(Relaxed) {
            return Err(JobError::Cancelled);
        }
        Ok(answers.into_inner().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        lock(&self.idle).clear();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
