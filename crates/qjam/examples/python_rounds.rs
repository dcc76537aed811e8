//! How long rounds of a Python function take that does next to nothing: parameters of so many doubles go out to every
//! slot, and as many come back and are added.
//!
//! ```text
//! cargo run --release -p qjam --example python_rounds -- PYTHON [WORKERS [DOUBLES [ROUNDS]]]
//! ```

use bytes::Bytes;
use qjam::python::{Body, Call, Code, Pickled, Setup, call, set_up};
use qjam::{DataSet, Master};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

qjam::worker_hook!();

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let python = args.next().ok_or("which interpreter?")?;
    let workers = args.next().unwrap_or_else(|| "local:4".into());
    let doubles: usize = args.next().map_or(Ok(8), |n| n.parse())?;
    let rounds: usize = args.next().map_or(Ok(2000), |n| n.parse())?;
    set_up(Setup { executable: python.clone().into(), ..Setup::default() });

    let pickle = "import pickle, sys, numpy as np; b = []; \
                  s = pickle.dumps(np.ones(int(sys.argv[1])), protocol=5, buffer_callback=b.append); \
                  sys.stdout.buffer.write(s)";
    let stream = Command::new(&python).args(["-c", pickle, &doubles.to_string()]).output()?.stdout;
    let buffer: Vec<u8> = (0..doubles).flat_map(|_| 1_f64.to_le_bytes()).collect();
    let params = Pickled { stream: stream.into(), buffers: vec![buffer.into()] };
    let code = Code::new(Bytes::from_static(b"src\ndef mapfunc(v, chunk):\n    return v * 2.0\n"));

    let builder = Master::builder().python_support(Bytes::new(), (3, 11));
    let m = builder.python_interpreter(python, Vec::new()).connect(&workers)?;
    let data = DataSet::nothing(4)?.untyped();
    let (mut took, mut cpu) = (Vec::new(), (0, 0));
    for round in 0..rounds + 10 {
        let f = Call::new(code.clone(), params.clone(), (3, 11));
        let start = Instant::now();
        let value = m.run(call, &f, &data)?;
        took.push(start.elapsed());
        let Body::Numbers { leaves, .. } = &value.body else { return Err("no numbers".into()) };
        assert_eq!(leaves.len(), 1);
        if round == 9 {
            took.clear();
            cpu = cpu_ns();
        }
    }
    let (ours, theirs) = cpu_ns();
    let cpu_ms = |ns: u64| ns as f64 / 1e6 / rounds as f64;
    took.sort();
    let ms = |at: usize| took[at].as_secs_f64() * 1e3;
    #[expect(clippy::print_stdout, reason = "this is what it is for")]
    {
        println!(
            "{workers} doubles={doubles} median={:.3} ms p99={:.3} ms; of the processors: {:.3} ms here, {:.3} ms in children",
            ms(took.len() / 2),
            ms(took.len() * 99 / 100),
            cpu_ms(ours - cpu.0),
            cpu_ms(theirs - cpu.1),
        );
    }
    Ok(())
}

/// Time on processors so far: of this process, and of those it has started.
fn cpu_ns() -> (u64, u64) {
    let of_thread = |folder: &Path| -> u64 {
        let text = std::fs::read_to_string(folder.join("schedstat")).unwrap_or_default();
        text.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0)
    };
    let threads = |pid: &str| -> Vec<PathBuf> {
        let folder = std::fs::read_dir(format!("/proc/{pid}/task"));
        folder.into_iter().flatten().flatten().map(|thread| thread.path()).collect()
    };
    let own = threads("self");
    let children = own.iter().filter_map(|thread| std::fs::read_to_string(thread.join("children")).ok());
    let children: String = children.collect();
    let theirs = children.split_whitespace().flat_map(threads).map(|thread| of_thread(&thread)).sum();
    (own.iter().map(|thread| of_thread(thread)).sum(), theirs)
}
