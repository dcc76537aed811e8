//! Functions that do what they should.

use super::shop::{doubles, master, pickled, plain, shown, source};
use qjam::DataSet;
use qjam::python::{Body, Leaf, Slices, call, set_log};
use std::sync::{Arc, Mutex};

fn numbers(rows: usize, cols: usize) -> Vec<f64> {
    (0..rows * cols).map(|n| (n as f64 * 0.37).sin()).collect()
}

#[test]
fn a_function_is_run_on_every_chunk_and_results_are_added() {
    let m = master("local:2");
    let x = DataSet::dense(numbers(1000, 3), 3).unwrap().partitions(7).unwrap().untyped();
    let f = source("def mapfunc(w, x):\n    return x @ w, len(x)\n", pickled("np.array([1.0, 2.0, 0.5])"));
    let err = m.run(call, &f, &x).unwrap_err();
    assert!(
        err.to_string().contains("result[0] has the shape (143,) for some chunks and (142,) for others"),
        "{err}"
    );
    let f = source(
        "def mapfunc(w, x):\n    return (x @ w).sum(), len(x)\n",
        pickled("np.array([1.0, 2.0, 0.5])"),
    );
    let sum: f64 = numbers(1000, 3).chunks(3).map(|row| row[0] + 2.0 * row[1] + 0.5 * row[2]).sum();
    let value = doubles(&m.run(call, &f, &x).unwrap());
    assert!((value[0] - sum).abs() < 1e-9 && value[1] == 1000.0, "{value:?}, {sum}");
}

#[test]
fn the_bits_do_not_depend_on_the_number_of_slots() {
    let x = DataSet::dense(numbers(5000, 4), 4).unwrap().partitions(13).unwrap().untyped();
    let f = source(
        "def mapfunc(w, x):\n    return [(x * w).sum(axis=0), float(x.sum())]\n",
        pickled("np.arange(4) * 0.1"),
    );
    let values: Vec<_> = ["local:1", "local:2", "local:5", "proc:2", "proc:1*2"]
        .map(|workers| m_run(workers, &f, &x))
        .into_iter()
        .collect();
    values.windows(2).for_each(|pair| assert_eq!(pair[0], pair[1]));
}

fn m_run(workers: &str, f: &qjam::python::Call, x: &DataSet<qjam::python::Raw>) -> Vec<u64> {
    let value = master(workers).run(call, f, x).unwrap();
    doubles(&value).into_iter().map(f64::to_bits).collect()
}

#[test]
fn a_reduction_of_the_user_runs_left_to_right() {
    let m = master("local:3");
    let tasks = DataSet::nothing(9).unwrap().untyped();
    let f = plain(
        "from qjam._worker.context import context\n\
         def mapfunc(p, chunk):\n    return [context().chunk]\n\
         def reduce(a, b):\n    a.extend(b)\n    return a\n",
    );
    assert_eq!(shown(&m.run(call, &f, &tasks).unwrap()), "[0, 1, 2, 3, 4, 5, 6, 7, 8]");
}

#[test]
fn what_is_not_numbers_is_added_by_python() {
    let m = master("local:2");
    let tasks = DataSet::nothing(3).unwrap().untyped();
    let run = |text: &str| m.run(call, &plain(&format!("def mapfunc(p, c):\n    return {text}\n")), &tasks);
    assert_eq!(shown(&run("'ab'").unwrap()), "'ababab'");
    assert_eq!(shown(&run("2**62").unwrap()), (3 * (1_i128 << 62)).to_string());
    assert_eq!(shown(&run("[2**70, 'x']").unwrap()), format!("[{}, 'xxx']", 3 * (1_i128 << 70)));
    assert_eq!(doubles(&run("(1, [2.5, 3])").unwrap()), [3.0, 7.5, 9.0]);
    assert_eq!(shown(&run("None").unwrap()), "None");
    assert_eq!(shown(&run("{'a': 1}").unwrap()), "{'a': 3}");
    let object = run("object()").unwrap_err().to_string();
    assert!(object.contains("the types object and object, which cannot be added"), "{object}");
    let wrapped = format!("import numpy as np\n{}", "def mapfunc(p, c):\n    return np.array([2**62, 1])\n");
    let overflow = m.run(call, &plain(&wrapped), &tasks).unwrap_err().to_string();
    assert!(overflow.contains("OverflowError: the result[0]: ") && overflow.contains("int64"), "{overflow}");
}

#[test]
fn an_exception_is_told_with_its_place_and_its_chain() {
    let m = master("local:2");
    let tasks = DataSet::nothing(2).unwrap().untyped();
    let f = plain(
        "def inner(x):\n    return 1 / x\n\
         def mapfunc(p, c):\n    print('before it')\n    try:\n        return inner(0)\n    except ZeroDivisionError as e:\n        raise ValueError('not a number') from e\n",
    );
    let text = format!("{:?}", m.run(call, &f, &tasks).unwrap_err());
    for wanted in [
        "ValueError: not a number",
        "<source>:8",
        "return 1 / x",
        "ZeroDivisionError: division by zero",
        "direct cause",
    ] {
        assert!(text.contains(wanted), "{wanted} is not in {text}");
    }
    assert!(!text.contains("_worker"), "{text}");
    // And it goes on.
    assert_eq!(doubles(&m.run(call, &plain("def mapfunc(p, c):\n    return 1.0\n"), &tasks).unwrap()), [2.0]);
}

#[test]
fn what_is_printed_comes_line_by_line() {
    let lines: Arc<Mutex<Vec<String>>> = Arc::default();
    let kept = lines.clone();
    set_log(Arc::new(move |worker, line| kept.lock().unwrap().push(format!("{worker}: {line}"))));
    let m = master("local:1");
    let tasks = DataSet::nothing(1).unwrap().untyped();
    let f = plain(
        "import sys\ndef mapfunc(p, c):\n    print('to the one')\n    print('to the other', file=sys.stderr)\n    return 0\n",
    );
    m.run(call, &f, &tasks).unwrap();
    let lines = lines.lock().unwrap().clone();
    assert!(lines.contains(&"local/0: to the one".to_owned()), "{lines:?}");
    assert!(lines.contains(&"local/0: to the other".to_owned()), "{lines:?}");
}

#[test]
fn sums_made_here_have_the_bits_that_numpy_gives() {
    let m = master("local:2");
    let x = DataSet::dense(numbers(6000, 4), 4).unwrap().partitions(11).unwrap().untyped();
    let map = "import numpy as np\ndef mapfunc(p, x):\n    y = x[:500] * 1e3\n    \
               return [y, y.astype('f4'), (y * 1e14).astype('i8'), y + 1j * y[::-1], (y - 1j).astype('c8')]\n";
    let here = m.run(call, &plain(map), &x).unwrap();
    let there = format!("{map}def reduce(a, b):\n    return [v + w for v, w in zip(a, b)]\n");
    let there = m.run(call, &plain(&there), &x).unwrap();
    let (Body::Numbers { leaves, .. }, Body::Pickled(pickle)) = (&here.body, &there.body) else {
        panic!("{here:?} {there:?}")
    };
    assert_eq!((leaves.len(), pickle.buffers.len()), (5, 5));
    for (leaf, buffer) in leaves.iter().zip(&pickle.buffers) {
        let bytes: &[u8] = match leaf {
            Leaf::F64(numbers) => bytemuck::cast_slice(numbers),
            Leaf::F32(numbers) => bytemuck::cast_slice(numbers),
            Leaf::I64(numbers) => bytemuck::cast_slice(numbers),
            Leaf::Int(_) => panic!("{leaf:?}"),
        };
        assert!(bytes == &buffer[..], "{:?}", &leaf);
    }
}

#[test]
fn slices_of_objects_are_unpickled_where_they_lie() {
    let m = master("local:2");
    let mut slices = Slices::new().unwrap();
    for n in 0..3 {
        let slice = pickled(&format!("[('row', {n}), np.arange(5000) + {n}]"));
        let buffers: Vec<&[u8]> = slice.buffers.iter().map(|b| &b[..]).collect();
        slices.push(2, &slice.stream, &buffers).unwrap();
    }
    let x = slices.finish().unwrap();
    let f = plain("def mapfunc(p, x):\n    return [x[0][1], int(x[1].sum()), float(x[1].flags.writeable)]\n");
    assert_eq!(doubles(&m.run(call, &f, &x).unwrap()), [3.0, 3.0 * 12_497_500.0 + 15_000.0, 0.0]);
}
