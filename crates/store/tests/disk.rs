//! A folder that fails: a full disk, one that can only be read, and blobs that somebody removes from a running job. Everybody says
//! what is wrong and what to do, and when it is mended the job has its value, with the right bits.
//!
//! Each story is a program in a mount namespace of its own, on a small disk in memory.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "all of this is test")]

use bytes::Bytes;
use qjam_conformance::program::{Program, Programs, command, say};
use qjam_core::bucket::{
    Ending, Failed, Next, Order, Plan, RoundAt, RoundHead, Sender, Settings, Shape, Watch, Work, Worker,
    begin,
};
use qjam_core::reduce::{Cut, Node};
use qjam_core::time::Span;
use qjam_store::run::block_on;
use qjam_store::{Address, Bucket, Seal, StoreError};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

const PROGRAMS: Programs =
    &[("full", full), ("read-only", read_only), ("removed", removed), ("no-order", no_order)];
qjam_conformance::hook!(PROGRAMS);

/// The file that takes the room on a disk.
const FILLER: &str = "filler";
const TASKS: u32 = 6;
/// A result is this long, so that a few fill the disk.
const RESULT_BYTES: usize = 100_000;
/// Messages come back soon, and never too often.
const SETTINGS: fn() -> Settings = || Settings {
    hidden: Span::from_ms(300),
    extend_every: Span::from_ms(50),
    deliveries_max: u32::MAX,
    watch_every: Span::from_ms(100),
    resend_after: Span::from_ms(1_000),
    ..Settings::default()
};

/// Results are runs of one number; merging adds them. What is told is kept.
#[derive(Default)]
struct Adding {
    told: Mutex<Vec<String>>,
}

impl Work<Bytes> for Adding {
    async fn map(&self, _: &RoundAt, _: &Order<Bytes>, task: u32) -> Result<Bytes, Failed<Bytes>> {
        Ok(vec![1 << task; RESULT_BYTES].into())
    }

    async fn reduce(
        &self,
        _: &RoundAt,
        _: &Order<Bytes>,
        parts: Vec<(Node, Bytes)>,
    ) -> Result<Bytes, Failed<Bytes>> {
        let mut sum = vec![0_u8; RESULT_BYTES];
        for (_, part) in parts {
            sum.iter_mut().zip(part.iter()).for_each(|(sum, byte)| *sum += byte);
        }
        Ok(sum.into())
    }

    async fn step(&self, _: &RoundAt, _: &Order<Bytes>, _: &Bytes) -> Result<Next<Bytes>, Failed<Bytes>> {
        Err(Failed::Here("there is no step".into()))
    }

    async fn poison(&self, _: &RoundAt, task: u32, deliveries: u32) -> Bytes {
        format!("task {task} was delivered {deliveries} times").into()
    }

    fn tell(&self, trouble: String) {
        self.told.lock().unwrap().push(trouble);
    }
}

/// Messages that are never sent again.
const SENT_ONCE: fn() -> Settings = || Settings { resend_after: Span(u64::MAX), ..SETTINGS() };

/// A job of one round.
struct Story {
    folder: PathBuf,
    settings: Settings,
    at: RoundAt,
    order: Order<Bytes>,
    work: Adding,
}

impl Story {
    fn new(folder: &str) -> Story {
        let plan = Plan::new(Cut::new(TASKS, 0), TASKS, Shape::SquareRoot);
        Story {
            folder: folder.into(),
            settings: SETTINGS(),
            at: RoundAt { job: "job".into(), round: 0 },
            order: Order::new(RoundHead { plan, fused: false }, b"body"),
            work: Adding::default(),
        }
    }

    fn open(&self) -> Result<Bucket, StoreError> {
        Bucket::open(&Address::Folder(self.folder.clone()), &self.at.job, Seal::without_key())
    }

    fn begin(&self, bucket: &Bucket) -> Result<bool, StoreError> {
        let sender = Sender { name: "submitter", patience: Span(0) };
        block_on(begin(bucket, &self.at, &self.order, self.settings.watch_every, &sender))
    }

    /// Breaks something under two workers that have not begun, mends it, and waits for the value, which must be right.
    fn play(&self, breaks: impl FnOnce(), mends: impl FnOnce()) {
        let has_ended = AtomicBool::new(false);
        let buckets = [(); 2].map(|()| self.open().unwrap());
        breaks();
        std::thread::scope(|scope| {
            for (n, bucket) in buckets.iter().enumerate() {
                let has_ended = &has_ended;
                scope.spawn(move || {
                    let worker = Worker::new(bucket, &self.work, self.settings, format!("w{n}"));
                    block_on(worker.serve(|| !has_ended.load(Relaxed)));
                });
            }
            let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                mends();
                let bucket = self.open().unwrap();
                let mut watch = Watch::new(self.at.clone(), self.settings);
                block_on(watch.wait(&bucket, &self.order, || false)).unwrap()
            }));
            has_ended.store(true, Relaxed);
            let Ending::Value(value) = ended.unwrap() else { panic!("the round has no value") };
            let sum = (1 << TASKS) - 1;
            say(format!("right: {}", value.iter().all(|byte| *byte == sum) && value.len() == RESULT_BYTES));
        });
    }

    /// Waits until a worker says something with these words.
    fn wait_for(&self, words: &str) {
        let is_told = || self.work.told.lock().unwrap().iter().any(|text| text.contains(words));
        // Whoever runs this program ends it if that takes too long.
        while !is_told() {
            std::thread::sleep(Duration::from_millis(5));
        }
        say(format!("told: {words}"));
    }
}

/// Takes all the room that is left on a disk. Returns the file that has it.
fn fill(folder: &Path) -> PathBuf {
    let path = folder.join(FILLER);
    let mut file = fs::File::create(&path).unwrap();
    for size in [4096, 1] {
        while file.write_all(&vec![0; size]).is_ok() {}
    }
    path
}

fn full(folder: &str) {
    let story = Story::new(folder);
    let bucket = story.open().unwrap();
    let filler = fill(&story.folder);
    say(story.begin(&bucket).unwrap_err());
    fs::remove_file(filler).unwrap();
    assert!(story.begin(&bucket).unwrap());
    let filler = story.folder.join(FILLER);
    let mends = || {
        story.wait_for("No space left on device (os error 28); make room");
        fs::remove_file(filler).unwrap();
    };
    story.play(|| drop(fill(&story.folder)), mends);
}

fn read_only(folder: &str) {
    let story = Story::new(folder);
    drop(story.open().unwrap());
    let done = Command::new("mount").args(["-o", "remount,ro", folder]).status().unwrap();
    assert!(done.success(), "it was not made read-only");
    say(story.open().err().unwrap());
}

fn removed(folder: &str) {
    let story = Story::new(folder);
    let bucket = story.open().unwrap();
    assert!(story.begin(&bucket).unwrap());
    // Nothing is left to go on with: neither the order nor a message.
    let breaks = || {
        fs::remove_dir_all(story.folder.join("blobs/jobs")).unwrap();
        for message in fs::read_dir(story.folder.join("queues/job/ready")).unwrap() {
            fs::remove_file(message.unwrap().path()).unwrap();
        }
    };
    story.play(breaks, || {});
}

fn no_order(folder: &str) {
    let story = Story { settings: SENT_ONCE(), ..Story::new(folder) };
    let bucket = story.open().unwrap();
    assert!(story.begin(&bucket).unwrap());
    story.play(
        || fs::remove_dir_all(story.folder.join("blobs/jobs/job/rounds/0000000000/order")).unwrap(),
        || {},
    );
}

/// What a program says on a disk of this size, in a mount namespace of its own.
fn on_a_disk(program: &str, size: &str) -> Vec<String> {
    let folder = std::env::temp_dir().join(format!("qjam-store-disk-{program}-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let root = rustix::process::geteuid().is_root();
    let inner = command(program, &folder.to_string_lossy());
    let mut outer = Command::new("unshare");
    outer
        .args(if root { &["-m"][..] } else { &["-r", "-m"] })
        .args(["sh", "-ec", &format!("mount -t tmpfs -o size={size} tmpfs $D\nexec \"$@\""), "sh"])
        .arg(inner.get_program())
        .envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))))
        .env("D", &folder);
    let said = Program::run(outer).finish().0;
    let _ = fs::remove_dir_all(&folder);
    assert!(root || !said.is_empty(), "NOT TESTED, since this user may not mount anything");
    said
}

#[test]
fn a_full_disk_is_told_and_the_job_goes_on_when_there_is_room() {
    let said = on_a_disk("full", "2m");
    assert_eq!(said.len(), 3, "{said:?}");
    assert!(said[0].contains("cannot ") && said[0].contains("No space left"), "{said:?}");
    assert!(said[0].contains("make room, for example with `qjam store gc`"), "{said:?}");
    assert!(said[1].starts_with("told: "), "{said:?}");
    assert_eq!(said[2], "right: true");
}

#[test]
fn a_disk_that_can_only_be_read_is_told() {
    let said = on_a_disk("read-only", "2m");
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].contains("Read-only file system"), "{said:?}");
    assert!(said[0].contains("a bucket must be on a disk that can be written to"), "{said:?}");
}

#[test]
fn a_round_whose_blobs_and_messages_are_removed_is_made_again() {
    let said = on_a_disk("removed", "2m");
    assert_eq!(said, ["right: true"]);
}

#[test]
fn an_order_that_is_removed_is_put_back_while_workers_wait_for_it() {
    let said = on_a_disk("no-order", "2m");
    assert_eq!(said, ["right: true"]);
}
