//! What is shared, what is kept, and what it costs.

use super::shop::{doubles, master, pickled, plain, source};
use qjam::python::{Memory, call, step};
use qjam::{DataSet, Dense};
use qjam_conformance::support::wait_until;
use std::path::PathBuf;

const ANON: &str = "def anon():\n    for line in open('/proc/self/status'):\n        \
                    if line.startswith('RssAnon'):\n            return int(line.split()[1])\n";

/// A file of doubles, gone at the end.
struct Doubles(PathBuf);

impl Doubles {
    fn write(name: &str, numbers: impl Iterator<Item = f64>) -> Doubles {
        let path = std::env::temp_dir().join(format!("qjam-{name}-{}.raw", std::process::id()));
        std::fs::write(&path, numbers.flat_map(f64::to_le_bytes).collect::<Vec<u8>>()).unwrap();
        Doubles(path)
    }
}

impl Drop for Doubles {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Bytes that a process has mapped of ours, other than for results.
fn mapped(pid: u32) -> u64 {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let bytes = |line: &str| {
        let (start, rest) = line.split_once('-')?;
        let end = rest.split(' ').next()?;
        Some(u64::from_str_radix(end, 16).ok()? - u64::from_str_radix(start, 16).ok()?)
    };
    maps.lines().filter(|line| line.contains("memfd:qjam ")).filter_map(bytes).sum()
}

#[test]
fn a_chunk_in_shared_memory_is_not_copied_and_goes_with_its_data_set() {
    let m = master("local:1");
    let x = DataSet::dense(vec![0.5; 16 << 20], 8).unwrap().partitions(2).unwrap().untyped();
    let text = format!(
        "import os\n{ANON}def mapfunc(p, x):\n    return [float(x.sum()), max(anon(), 0) / 2, \
         float(x.flags.writeable), os.getpid() / 2]\n"
    );
    let value = doubles(&m.run(call, &plain(&text), &x).unwrap());
    assert_eq!((value[0], value[2]), ((8 << 20) as f64, 0.0));
    assert!(value[1] < 48.0 * 1024.0, "{} KiB are the interpreter's own", value[1]);
    let pid = value[3] as u32;
    assert_eq!(mapped(pid), 128 << 20);
    drop(x);
    // The master looks for what is gone when it gets something new.
    let small = DataSet::dense(vec![1.0], 1).unwrap().untyped();
    m.run(call, &plain("def mapfunc(p, x):\n    return 0.0\n"), &small).unwrap();
    wait_until("the memory of a data set that is gone is still mapped", || mapped(pid) < 1 << 20);
}

#[test]
fn long_parameters_are_written_and_read_once_a_round() {
    let m = master("local:2");
    let tasks = DataSet::nothing(12).unwrap().untyped();
    let params = pickled("{'w': np.arange(1_000_000) * 0.5, 'n': 3}");
    let text = "kept = []\ndef mapfunc(p, c):\n    kept.append(p)\n    \
                return [float(p['w'][-1]), float(p['w'].flags.writeable), float(len({id(k) for k in kept[-2:]}))]\n";
    for _ in 0..3 {
        let value = doubles(&m.run(call, &source(text, params.clone()), &tasks).unwrap());
        assert_eq!(value[..2], [12.0 * 499_999.5, 0.0]);
        // Two interpreters, of which each sees other parameters than in its call before at most once a round.
        assert!((12.0..=14.0).contains(&value[2]), "{value:?}");
    }
}

#[test]
fn long_results_come_whole() {
    let m = master("local:3");
    let x: Vec<f64> = (0..3_000_000).map(f64::from).collect();
    let x = DataSet::dense(x, 1000).unwrap().partitions(3).unwrap().untyped();
    let value = doubles(&m.run(call, &plain("def mapfunc(p, x):\n    return x\n"), &x).unwrap());
    assert_eq!(value.len(), 1_000_000);
    assert!(value.iter().enumerate().all(|(n, v)| *v == 3.0 * n as f64 + 3_000_000.0));
    // In shapes of all kinds, and by a reduction that changes what it is given.
    let text = "import numpy as np\ndef mapfunc(p, x):\n    return {'a': [np.full(7, i) for i in range(700)], 'b': x.copy()}\n\
                def reduce(a, b):\n    a['b'] += b['b']\n    for i in range(700):\n        a['a'][i] += b['a'][i]\n    return a\n";
    let value = m.run(call, &plain(text), &x).unwrap();
    let qjam::python::Body::Pickled(pickle) = &value.body else { panic!("{value:?}") };
    assert_eq!(pickle.buffers.len(), 701);
    let last = pickle.buffers.last().unwrap();
    assert_eq!(last.len(), 8_000_000);
    assert_eq!(f64::from_le_bytes(*last.last_chunk().unwrap()), 3.0 * 999_999.0 + 3_000_000.0);
    assert_eq!(i64::from_le_bytes(*pickle.buffers[699].last_chunk().unwrap()), 3 * 699);
}

#[test]
fn a_chunk_that_user_code_keeps_stays_as_it_is() {
    let m = master("local:1");
    let file = Doubles::write("kept", (0..400_000).map(f64::from));
    let x = DataSet::<Dense<f64>>::raw(&file.0, 1000).unwrap().partitions(4).unwrap().untyped();
    let text = "kept = []\ndef mapfunc(p, x):\n    kept.append(x[::2])\n    \
                return [float(sum(k[0, 0] for k in kept)), float(x[0, 0])]\n";
    let value = doubles(&m.run(call, &plain(text), &x).unwrap());
    assert_eq!(value, [100_000.0 + 300_000.0 + 600_000.0, 600_000.0]);
    let whole = doubles(&m.run(call, &plain("def mapfunc(p, x):\n    return x.sum()\n"), &x).unwrap());
    assert_eq!(whole, [400_000.0 * 399_999.0 / 2.0]);
}

#[test]
fn states_are_changed_in_place_and_come_home() {
    for workers in ["local:2", "proc:2"] {
        let m = master(workers);
        let x = DataSet::dense((0..30).map(f64::from).collect(), 3).unwrap().partitions(3).unwrap().untyped();
        let f = source(
            "import numpy as np\ndef mapfunc(p, x):\n    pass\n\
             def init(x):\n    return {'sum': np.zeros(x.shape[1]), 'steps': 0}\n\
             def step(p, x, state):\n    state['sum'] += p * x.sum(axis=0)\n    state['steps'] += 1\n    return state['sum'].copy()\n",
            pickled("2.0"),
        );
        let mut held = m.hold::<Memory>(&x).unwrap();
        for round in 1..=4 {
            let value = doubles(&held.run(step, &f).unwrap());
            let all = 2.0 * f64::from(round);
            assert_eq!(value, [135.0 * all, 145.0 * all, 155.0 * all]);
        }
        assert!(held.collect().unwrap().iter().all(|memory| memory.clone().into_pickle().is_some()));
    }
}

#[test]
fn running_out_of_memory_is_told_with_the_limit_and_the_peak() {
    ["local:1", "proc:1"].into_iter().for_each(runs_out);
}

fn runs_out(workers: &str) {
    let interpreter = super::shop::python().display().to_string();
    let builder =
        qjam::Master::builder().python_support(bytes::Bytes::new(), (3, 11)).memory_limit(512 << 20);
    let m = builder.python_interpreter(interpreter, Vec::new()).connect(workers).unwrap();
    let tasks = DataSet::nothing(1).unwrap().untyped();
    let text = "import numpy as np\ndef mapfunc(p, c):\n    return float(np.ones(100_000_000).sum())\n";
    let failed = m.run(call, &plain(text), &tasks).unwrap_err().to_string();
    assert!(failed.contains("Unable to allocate 763. MiB"), "{failed}");
    assert!(failed.contains("memory limit of this interpreter: 512 MiB; peak: "), "{failed}");
}

#[test]
fn libraries_start_no_more_threads_than_a_slot_has_cores() {
    let slots = std::thread::available_parallelism().unwrap().get();
    let m = master(&format!("local:{slots}"));
    let tasks = DataSet::nothing(1).unwrap().untyped();
    let text = "import os\ndef mapfunc(p, c):\n    return float(os.environ['OPENBLAS_NUM_THREADS'])\n";
    assert_eq!(doubles(&m.run(call, &plain(text), &tasks).unwrap()), [1.0]);
}
