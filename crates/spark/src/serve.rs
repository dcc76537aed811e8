//! The worker process beside a Python worker of Spark: runs tasks, and keeps what the next ones need.
//!
//! It is the executable `qjam`, which Spark has copied to the executor. The Python worker starts it with [`VARIABLE`] set, tells it
//! frames on standard input and reads an answer per task on standard output:
//!
//! | frame | what it has |
//! |---|---|
//! | `S` | the [`Setup`], once, before all others |
//! | `O` | the order that the next tasks belong to |
//! | `T` | a task: the length of its [`Request`], that, and its [`Supply`] |
//!
//! A frame is its letter and the length of the rest, eight bytes. An answer is a length and a [`Reply`]. It ends when its standard input is closed,
//! also in the middle of a task: then the task was called off, or whoever wanted it is gone.
//!
//! Chunks that a task brings go into files of a folder that all workers of an executor share, which Spark removes; opened
//! chunks and states are kept in memory.

use crate::messages::{Reply, Request, Setup, Supply, decoded, encoded};
use bytes::Bytes;
use linkme::distributed_slice;
use qjam::engine::provider::{CrewEntry, ENTRIES, set_language};
use qjam::engine::{Failure, LocatedChunk, Order, OrderError, StateSource, Workplace};
use qjam::memory::most_bytes;
use qjam_core::chunk::ChunkId;
use qjam_core::job::{Fault, FaultKind};
use rustix::process::{Signal, getppid, set_parent_process_death_signal};
use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

/// Makes an executable a worker: the number of the process that starts it, a colon, and the folder for chunks.
const VARIABLE: &str = "QJAM_SPARK_WORKER";
/// A frame says its length before there is room for it.
const FRAME_BYTES_MAX: u64 = 1 << 40;
/// Most bytes of opened chunks that are kept.
const CACHE_BYTES_MOST: u64 = 1 << 30;

#[distributed_slice(ENTRIES)]
static ENTRY: CrewEntry = CrewEntry { variable: VARIABLE, serve: serve_and_tell };

/// A frame: its letter and the rest.
type Frame = (u8, Vec<u8>);

#[expect(clippy::print_stderr, reason = "a worker has no other way to say why it ends")]
fn serve_and_tell(asked: &str) -> i32 {
    match serve(asked) {
        Ok(()) => 0,
        Err(e) => {
            eprintln!("qjam worker of Spark: {e}");
            70
        }
    }
}

fn serve(asked: &str) -> io::Result<()> {
    let (parent, folder) =
        asked.split_once(':').ok_or_else(|| io::Error::other("it was started by something else"))?;
    // Whatever ends the Python worker ends this process, also if a child of that one still has the pipe.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    if getppid().map(|pid| pid.as_raw_nonzero().to_string()).as_deref() != Some(parent) {
        return Ok(());
    }
    // The pipes are out of reach of user code from now on, and what that prints goes where Spark keeps it.
    let input = File::from(rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 10)?);
    let output = File::from(rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 10)?);
    rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
    rustix::stdio::dup2_stdout(rustix::stdio::stderr())?;
    let frames = frames(input)?;
    let place = Workplace::new(1, (most_bytes() / 8).min(CACHE_BYTES_MOST))?;
    let mut worker = Worker {
        place,
        folder: folder.into(),
        located: HashMap::new(),
        order: Err("there is no order".into()),
    };
    let mut output = BufWriter::new(output);
    for (letter, content) in frames {
        match letter {
            b'S' => worker.set_up(&content)?,
            b'O' => worker.order = Order::from_bytes(&content).map_err(|e| NoOrder::of(&e)),
            b'T' => {
                let reply = worker.task(&content);
                output.write_all(&(reply.len() as u64).to_le_bytes())?;
                output.write_all(&reply)?;
                output.flush()?;
            }
            other => return Err(io::Error::other(format!("a frame of the unknown kind {other}"))),
        }
    }
    Ok(())
}

/// Reads frames on a thread of its own, which ends the process when there are no more.
fn frames(mut input: File) -> io::Result<Receiver<Frame>> {
    let (frames, read) = channel();
    std::thread::Builder::new().name("qjam-frames".into()).spawn(move || {
        while let Ok(frame) = frame(&mut input) {
            if frames.send(frame).is_err() {
                break;
            }
        }
        std::process::exit(0);
    })?;
    Ok(read)
}

fn frame(input: &mut File) -> io::Result<Frame> {
    let mut head = [0; 9];
    input.read_exact(&mut head)?;
    let [letter, length @ ..] = head;
    let length = u64::from_le_bytes(length);
    if length > FRAME_BYTES_MAX {
        return Err(io::Error::other("a frame that is too long"));
    }
    let mut content = Vec::new();
    // Grows with what comes, whatever was said.
    let read = input.take(length).read_to_end(&mut content)?;
    if read as u64 != length { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok((letter, content)) }
}

/// Why there is no order to run tasks of.
enum NoOrder {
    Fault(Box<Fault>),
    Broken(String),
}

impl From<&str> for NoOrder {
    fn from(why: &str) -> NoOrder {
        NoOrder::Broken(why.into())
    }
}

impl NoOrder {
    fn of(error: &OrderError) -> NoOrder {
        match error {
            OrderError::Unknown(e) => {
                NoOrder::Fault(Box::new(Fault::new(FaultKind::UnknownFunction, e.to_string())))
            }
            other => NoOrder::Broken(other.to_string()),
        }
    }
}

/// What the process keeps.
struct Worker {
    place: Workplace,
    /// Where chunks are kept.
    folder: PathBuf,
    /// Chunks in files.
    located: HashMap<ChunkId, LocatedChunk>,
    order: Result<Order, NoOrder>,
}

impl Worker {
    fn set_up(&self, setup: &[u8]) -> io::Result<()> {
        let setup: Setup = decoded(setup, "the setup").map_err(io::Error::other)?;
        if let Some(language) = &setup.language
            && !set_language(language)
        {
            return Err(io::Error::other("what it was told of Python cannot be read"));
        }
        Ok(())
    }

    /// Does a task; says what came of it.
    fn task(&mut self, content: &[u8]) -> Vec<u8> {
        let done = self.try_task(content);
        done.unwrap_or_else(|reply| encoded(&reply))
    }

    fn try_task(&mut self, content: &[u8]) -> Result<Vec<u8>, Reply<'static>> {
        let (request, supply) = parse(content).map_err(Reply::Broken)?;
        request.released.iter().for_each(|hold| self.place.release(*hold));
        let order = match &self.order {
            Ok(order) if order.round().0 == request.round => order.fork(),
            Ok(_) => return Err(Reply::Broken("a task of another round than its order".into())),
            Err(NoOrder::Fault(fault)) => return Err(Reply::Fault(Fault::clone(fault))),
            Err(NoOrder::Broken(why)) => return Err(Reply::Broken(why.clone())),
        };
        if request.first >= request.end || request.end > order.blocks() {
            return Err(Reply::Broken("a task with blocks that its round has not".into()));
        }
        let blocks = request.first..request.end;
        let (order, chunks) = self.with_chunks(order, &request, &supply)?;
        let mut states = self.place.lacks(&order, blocks.clone());
        let given: HashSet<u32> = supply.states.iter().map(|(partition, _)| *partition).collect();
        let is_made = supply.recipe.is_some_and(StateSource::makes_states);
        states.retain(|lacking| !is_made && !given.contains(lacking));
        if !chunks.is_empty() || !states.is_empty() {
            return Err(Reply::Lacks { chunks, states });
        }
        let own = |(partition, state): &(u32, &[u8])| (*partition, Bytes::copy_from_slice(state));
        let source = StateSource {
            states: supply.states.iter().map(own).collect(),
            recipe: supply.recipe.map(Bytes::copy_from_slice),
        };
        // Who calls it off closes the pipe, which ends the process.
        let ran = self.place.run(&Arc::new(order), blocks, source, Arc::new(|| false));
        let delivered = ran.map_err(failed)?;
        let Ok(order) = &self.order else { return Err(Reply::Broken("the order is gone".into())) };
        let parts = order.parts_to_bytes(&delivered.parts).map_err(failed)?;
        let states = delivered.states.iter().map(|(partition, state)| (*partition, &state[..])).collect();
        Ok(encoded(&Reply::Done { parts: &parts, states }))
    }

    /// The order with the chunks of a task at hand, and those that are not.
    fn with_chunks(
        &mut self,
        mut order: Order,
        request: &Request,
        supply: &Supply<'_>,
    ) -> Result<(Order, Vec<u32>), Reply<'static>> {
        let indices = order.chunks_of(request.first..request.end);
        let names = order.chunk_names().skip(indices.start as usize).take(indices.len());
        let names: Vec<(ChunkId, u64)> = names.map(|(id, header)| (id, header.bytes)).collect();
        let given: HashMap<u32, &[u8]> = supply.chunks.iter().copied().collect();
        let room = most_bytes();
        let mut lacking = Vec::new();
        for (index, (id, bytes)) in indices.zip(names) {
            if bytes > room {
                return Err(Reply::Fault(too_large(index, bytes, room)));
            }
            if let Some(located) = self.locate(&order, index, id) {
                order.set_chunk(index, &located).map_err(|e| Reply::Broken(e.to_string()))?;
                continue;
            }
            let Some(content) = given.get(&index) else {
                lacking.push(index);
                continue;
            };
            // It is compared with its name here, and when it is read from the file.
            order.put_chunk(index, content).map_err(|e| Reply::Broken(e.to_string()))?;
            if let Err(e) = self.keep(id, content) {
                tell(&format!("a chunk could not be kept in {}: {e}", self.folder.display()));
            }
        }
        Ok((order, lacking))
    }

    fn file(&self, id: ChunkId) -> PathBuf {
        self.folder.join(format!("chunk-{id}"))
    }

    /// A chunk that this worker, or another one of its executor, has had.
    fn locate(&mut self, order: &Order, index: u32, id: ChunkId) -> Option<LocatedChunk> {
        if let Some(known) = self.located.get(&id) {
            return Some(known.clone());
        }
        let located = order.chunk_in_file(index, &self.file(id), 0).ok()?;
        self.located.insert(id, located.clone());
        Some(located)
    }

    /// Writes a chunk to its file, whole or not at all.
    fn keep(&self, id: ChunkId, content: &[u8]) -> io::Result<()> {
        let (path, own) = (self.file(id), self.folder.join(format!("new-{}", std::process::id())));
        let written = File::create(&own).and_then(|mut file| file.write_all(content));
        // Whoever has written the same before stays: others have its file open.
        let linked = written.and_then(|()| match fs::hard_link(&own, &path) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            other => other,
        });
        let _ = fs::remove_file(&own);
        linked
    }
}

/// The parts of a task's frame.
fn parse(content: &[u8]) -> Result<(Request, Supply<'_>), String> {
    let cut_short = || "a task that is cut short".to_owned();
    let (length, rest) = content.split_first_chunk::<8>().ok_or_else(cut_short)?;
    let length = usize::try_from(u64::from_le_bytes(*length)).map_err(|_| cut_short())?;
    let (request, supply) = rest.split_at_checked(length).ok_or_else(cut_short)?;
    let supply = if supply.is_empty() { Supply::default() } else { decoded(supply, "the supply")? };
    Ok((decoded(request, "the request")?, supply))
}

fn failed(failure: Failure) -> Reply<'static> {
    match failure {
        Failure::Fault { fault, .. } => Reply::Fault(fault),
        Failure::Cancelled => Reply::Broken("the task was cancelled".into()),
        Failure::Engine(why) => Reply::Broken(why),
    }
}

fn too_large(index: u32, bytes: u64, room: u64) -> Fault {
    let mib = |bytes: u64| bytes.div_ceil(1 << 20);
    let why = format!(
        "a chunk of {} MiB does not fit into the {} MiB that a worker on this executor may have; cut the data into smaller chunks, or \
         give executors more memory (spark.executor.memoryOverhead, spark.executor.pyspark.memory)",
        mib(bytes),
        mib(room)
    );
    Fault { chunk: Some(index), ..Fault::new(FaultKind::Chunk, why) }
}

#[expect(clippy::print_stderr, reason = "Spark keeps what a worker says here in the executor's log")]
fn tell(trouble: &str) {
    eprintln!("qjam: {}", qjam::printable(trouble));
}
