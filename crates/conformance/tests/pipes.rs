//! An engine in one file: child processes that are told rounds through plain pipes. It is a fixture, and the shortest answer
//! to what an engine has to do; the promises are checked on it like on any other.
//!
//! ```text
//!   master ── Pipes::run ── standard input ──▶ child: Order::from_bytes, put_chunk, run
//!                  ▲                             │
//!                  └── combine ◀── standard output: parts, or what went wrong
//! ```
//!
//! A request is a frame with the order, one with the first block and the one after the last, and one with the content of
//! each chunk of these blocks. The answer is a frame, the first byte of which says what it is. Children know nothing but the
//! round they are told, so this engine can neither keep states nor cancel, and promises little (`Caps::CREW`).

#![allow(clippy::unwrap_used, reason = "all of this is test: what is not there should end it")]

use qjam::engine::{Assignment, Caps, Crew, CrewWorker, Failure, Order, Outcome, Parts};
use qjam::job::{Fault, FaultKind};
use qjam_conformance::program::{Programs, command};
use qjam_conformance::{Engine, run};
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Result, Write};
use std::ops::Range;
use std::process::{Child, ChildStdin, ChildStdout, ExitCode, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

qjam_conformance::hook!(PROGRAMS);

fn main() -> ExitCode {
    let shapes = ["pipes:1", "pipes:2", "pipes:3", "pipes:8"];
    let pipes = Engine::with(
        "pipes",
        &shapes,
        |n| format!("pipes:{n}"),
        |builder, shape| {
            let count = shape.trim_start_matches("pipes:").parse().unwrap();
            builder.crew(Arc::new(Pipes::start(count)))
        },
    );
    run(&[pipes.hears_no_cancel()], &[])
}

// ---- frames -----------------------------------------------------------------------------------------------------

fn put(to: &mut impl Write, bytes: &[u8]) -> Result<()> {
    to.write_all(&(bytes.len() as u64).to_le_bytes())?;
    to.write_all(bytes)
}

fn take(from: &mut impl Read) -> Result<Vec<u8>> {
    let mut len = [0; 8];
    from.read_exact(&mut len)?;
    let mut bytes = vec![0; u64::from_le_bytes(len) as usize];
    from.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// What the first byte of an answer says.
const PARTS: u8 = 0;
const FAULT: u8 = 1;
const BROKEN: u8 = 2;

// ---- the master's side ------------------------------------------------------------------------------------------

/// A child and the pipes to it.
struct Worker {
    child: Child,
    /// Closed before the child is waited for: it ends when it hears nothing more.
    input: Option<BufWriter<ChildStdin>>,
    output: BufReader<ChildStdout>,
}

impl Worker {
    fn start() -> Worker {
        let mut command = command("worker", "");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Worker { child, input: Some(BufWriter::new(input)), output: BufReader::new(output) }
    }

    /// Has it run blocks.
    fn ask(&mut self, order: &Order, blocks: Range<u32>) -> std::result::Result<(), Failure> {
        let input = self.input.as_mut().expect("open until it is dropped");
        let lost = |e: std::io::Error| Failure::Engine(format!("a pipe is closed: {e}"));
        // Read before anything is sent: half a request would never be answered.
        let chunk = |index| {
            let content = order.chunk(index).map_err(|e| Fault::new(FaultKind::Chunk, e.to_string()))?;
            Ok((index, content))
        };
        let chunks: Vec<(u32, _)> =
            order.chunks_of(blocks.clone()).map(chunk).collect::<std::result::Result<_, Failure>>()?;
        put(input, &order.to_bytes()).map_err(lost)?;
        put(input, &pair(blocks.start, blocks.end)).map_err(lost)?;
        for (index, content) in chunks {
            put(input, &index.to_le_bytes()).map_err(lost)?;
            put(input, &content).map_err(lost)?;
        }
        input.flush().map_err(lost)
    }

    /// What came of it.
    fn answer(&mut self, order: &Order) -> std::result::Result<Parts, Failure> {
        let bytes = take(&mut self.output).map_err(|e| Failure::Engine(format!("a child has ended: {e}")))?;
        match bytes.split_first() {
            Some((&PARTS, parts)) => order.parts_from_bytes(parts),
            Some((&FAULT, fault)) => Err(postcard::from_bytes::<Fault>(fault).unwrap().into()),
            Some((_, words)) => Err(Failure::Engine(String::from_utf8_lossy(words).into_owned())),
            None => Err(Failure::Engine("an answer without anything in it".into())),
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.child.wait();
    }
}

/// All of a master's.
struct Pipes {
    /// One round has them at a time.
    workers: Mutex<Vec<Worker>>,
    names: Vec<CrewWorker>,
}

impl Pipes {
    fn start(count: usize) -> Pipes {
        let workers: Vec<Worker> = (0..count).map(|_| Worker::start()).collect();
        let name = |(n, worker): (usize, &Worker)| CrewWorker {
            name: format!("pipes:{n}"),
            pid: Some(worker.child.id()),
            same_machine: true,
            slots: 1,
        };
        let names = workers.iter().enumerate().map(name).collect();
        Pipes { workers: Mutex::new(workers), names }
    }

    fn parts(&self, job: &Assignment) -> std::result::Result<Vec<Parts>, Failure> {
        let mut workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        if (job.cancelled)() {
            return Err(Failure::Cancelled);
        }
        let (blocks, count) = (job.order.blocks(), workers.len() as u32);
        let share = |n: u32| (u64::from(blocks) * u64::from(n) / u64::from(count)) as u32;
        let shares = (0..count).map(|n| share(n)..share(n + 1));
        let asked: Vec<_> =
            workers.iter_mut().zip(shares).map(|(worker, blocks)| worker.ask(&job.order, blocks)).collect();
        // Everybody who was asked is heard, whatever the others say: the next round wants them free.
        let answers = workers.iter_mut().zip(asked).enumerate().map(|(n, (worker, asked))| {
            asked.and_then(|()| worker.answer(&job.order)).map_err(|failure| failure.at(n as u32))
        });
        let answers: Vec<_> = answers.collect();
        answers.into_iter().collect()
    }
}

impl Crew for Pipes {
    fn caps(&self) -> Caps {
        Caps::CREW
    }

    fn workers(&self) -> Vec<CrewWorker> {
        self.names.clone()
    }

    fn run(&self, job: Assignment) -> Outcome {
        job.order.outcome(self.parts(&job))
    }
}

// ---- the child's side -------------------------------------------------------------------------------------------

const PROGRAMS: Programs = &[("worker", |_| serve().expect("a pipe"))];

/// Does rounds until nobody asks for any.
fn serve() -> Result<()> {
    // What functions print is not an answer.
    let mut output = BufWriter::new(File::from(rustix::io::dup(rustix::stdio::stdout())?));
    rustix::stdio::dup2_stdout(File::options().write(true).open("/dev/null")?)?;
    let mut input = BufReader::new(std::io::stdin().lock());
    while let Ok(order) = take(&mut input) {
        let blocks = take(&mut input)?;
        let blocks = number(&blocks[..4])..number(&blocks[4..]);
        let answer = match Order::from_bytes(&order) {
            Ok(mut order) => {
                for _ in order.chunks_of(blocks.clone()) {
                    let index = number(&take(&mut input)?);
                    order.put_chunk(index, &take(&mut input)?).map_err(std::io::Error::other)?;
                }
                let parts = order.run(blocks, None).and_then(|parts| order.parts_to_bytes(&parts));
                parts.map_or_else(told, |parts| [&[PARTS], &parts[..]].concat())
            }
            // Where the request ends is not known either.
            Err(e) => return Err(std::io::Error::other(e)),
        };
        put(&mut output, &answer)?;
        output.flush()?;
    }
    Ok(())
}

/// A failure as an answer.
fn told(failure: Failure) -> Vec<u8> {
    match failure {
        Failure::Fault { fault, .. } => [&[FAULT], &postcard::to_stdvec(&fault).unwrap()[..]].concat(),
        other => [&[BROKEN], format!("{other:?}").as_bytes()].concat(),
    }
}

fn pair(first: u32, second: u32) -> Vec<u8> {
    [first.to_le_bytes(), second.to_le_bytes()].concat()
}

fn number(bytes: &[u8]) -> u32 {
    u32::from_le_bytes(bytes.try_into().unwrap())
}
