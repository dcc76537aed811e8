//! Functions as jobs: every shape is recognised, erased, registered and found again.

#[path = "functions/compile.rs"]
mod compile;

use bytes::Bytes;
use qjam::chunk::Element;
use qjam::function::{Function, Mode};
use qjam::registry::{lookup, names};
use qjam::{
    Chunk, Ctx, DataSet, Dense, Encoder, Job, Lines, List, Nothing, Params, Reduce, Serde, UnknownFunction,
    Wire,
};
use std::collections::BTreeMap;

#[derive(qjam::Wire, qjam::Sum, Debug, PartialEq, Default, Clone)]
struct Grad {
    value: f64,
    grad: Vec<f64>,
    rows: u64,
}

#[derive(qjam::Wire)]
struct Theta {
    rate: f64,
    centre: Vec<f64>,
}

#[qjam::map]
fn slice_params(theta: &[f64], x: &Dense<f64>) -> Grad {
    let mut grad = vec![0.0; x.cols()];
    for row in x.rows_iter() {
        grad.iter_mut().zip(row).zip(theta).for_each(|((g, v), t)| *g += v * t);
    }
    Grad { value: grad.iter().sum(), grad, rows: x.rows() as u64 }
}

#[qjam::map]
fn text_params(word: &str, lines: &Lines) -> u64 {
    lines.iter().filter(|line| line.contains(word)).count() as u64
}

#[qjam::map]
fn no_params(_: &(), records: &List<String>) -> BTreeMap<String, u32> {
    let mut counts = BTreeMap::new();
    records.iter().for_each(|record| *counts.entry(record.clone()).or_default() += 1);
    counts
}

#[qjam::map]
fn struct_params(theta: &Theta, x: &Dense<f32>) -> (f64, Option<u32>) {
    (theta.rate * theta.centre.len() as f64, x.as_slice().first().map(|v| *v as u32))
}

#[qjam::map]
fn serde_params(p: &Serde<Vec<char>>, _: &Nothing) -> u32 {
    p.len() as u32
}

#[qjam::map]
fn with_context(scale: &f64, x: &Dense<f64>, ctx: &Ctx) -> f64 {
    scale * x.rows() as f64 + f64::from(ctx.chunk()) + ctx.rng().uniform()
}

#[qjam::map]
#[expect(clippy::unused_unit, reason = "a map says what it returns, also when it is nothing")]
fn nothing_returned(_: &(), _: &Nothing) -> () {}

#[qjam::fold]
fn accumulate(theta: &[f32], x: &Dense<f32>, acc: &mut Grad) {
    acc.rows += x.rows() as u64;
    acc.value += f64::from(theta[0]);
}

#[qjam::fold]
fn accumulate_with_context(_: &(), x: &Dense<u8>, acc: &mut Vec<u64>, ctx: &Ctx) {
    acc.resize(4, 0);
    acc[ctx.chunk() as usize % 4] += x.as_slice().iter().map(|v| u64::from(*v)).sum::<u64>();
}

#[qjam::map]
fn generic<T: Element + Into<f64>>(_: &(), x: &Dense<T>) -> f64 {
    x.as_slice().iter().map(|v| (*v).into()).sum()
}
qjam::register!(generic::<f32>, generic::<f64>);

#[qjam::fold]
fn generic_fold<const N: usize, A: Default + Reduce + Wire>(_: &[f64; N], _: &Nothing, _: &mut A) {}
qjam::register!(generic_fold::<3, u64>);

mod inner {
    use qjam::Nothing;

    #[qjam::map]
    pub(crate) fn slice_params(_: &(), _: &Nothing) -> u8 {
        2
    }
}

/// What `Master::run` does with types: everything follows from the function.
fn run<F, M>(f: F, params: &F::Params, data: &DataSet<F::Chunk>) -> F::Output
where
    F: Job<M>,
{
    run_erased(&f.erase(), params, data).expect("a right run")
}

fn run_erased<P, C, R>(f: &Function, params: &P, data: &DataSet<C>) -> Result<R, qjam::MergeError>
where
    P: Params + ?Sized,
    C: Chunk,
    R: 'static,
{
    let mut out = Encoder::new();
    params.encode_params(&mut out);
    let params = f.open_params(out.to_bytes()).expect("parameters");
    let mut total = (f.mode() == Mode::Fold).then(|| f.empty());
    for index in 0..data.len() {
        let chunk: Box<dyn std::any::Any + Send + Sync> = Box::new(data.chunk(index).expect("a chunk"));
        let ctx = Ctx::for_test(1, 2, index as u32);
        match (&mut total, f.mode()) {
            (Some(acc), Mode::Fold) => f.fold(&*params, &*chunk, acc, &ctx),
            (Some(left), Mode::Map | Mode::Step) => {
                let right = f.map(&*params, &*chunk, &ctx);
                f.merge(left, there_and_back(f, &right))?;
            }
            (None, _) => total = Some(f.map(&*params, &*chunk, &ctx)),
        }
    }
    let total = there_and_back(f, &total.expect("at least one chunk"));
    Ok(*total.downcast().expect("the function's output"))
}

/// Over the wire and back.
fn there_and_back(f: &Function, partial: &qjam::function::AnyBox) -> qjam::function::AnyBox {
    let mut payload = Bytes::new();
    f.encode(partial, &mut |out| payload = out.to_bytes());
    assert_eq!(payload.len(), f.partial_bytes(partial));
    f.decode(payload).expect("a payload")
}

fn ones<T: Element>(one: T) -> DataSet<Dense<T>> {
    DataSet::dense(vec![one; 60], 3).and_then(|data| data.partitions(4)).expect("a small matrix")
}

#[test]
fn types_follow_from_the_function_for_every_shape() {
    let theta = vec![1.0, 2.0, 3.0];
    let expected = Grad { value: 120.0, grad: vec![20.0, 40.0, 60.0], rows: 20 };
    assert_eq!(run(slice_params, &theta[..], &ones(1.0_f64)), expected);
    assert_eq!(run(slice_params, &theta, &ones(1.0_f64)), expected);
    assert_eq!(run(slice_params, &[1.0, 2.0, 3.0], &ones(1.0_f64)), expected);

    let lines = DataSet::text("a word\nnone\nword for word\n".into()).unwrap().chunk_records(1).unwrap();
    assert_eq!(run(text_params, "word", &lines), 2);
    assert_eq!(run(text_params, &String::from("none"), &lines), 1);

    let records = DataSet::list(["x", "y", "x"].map(String::from)).unwrap().partitions(2).unwrap();
    assert_eq!(run(no_params, &(), &records), BTreeMap::from([("x".into(), 2), ("y".into(), 1)]));

    let params = Theta { rate: 0.5, centre: vec![0.0; 100] };
    assert_eq!(run(struct_params, &params, &ones(2.0_f32)), (200.0, Some(8)));
    assert_eq!(run(serde_params, &Serde(vec!['a', 'b']), &DataSet::nothing(3).unwrap()), 6);
    run(nothing_returned, &(), &DataSet::nothing(3).unwrap());

    let drawn = run(with_context, &2.0, &ones(0.0_f64));
    assert!(drawn > 46.0 && drawn < 50.0, "{drawn}");
    assert_eq!(drawn, run(with_context, &2.0, &ones(0.0_f64)));

    assert_eq!(run(accumulate, &[1.5], &ones(0.0_f32)), Grad { value: 6.0, grad: vec![], rows: 20 });
    assert_eq!(run(accumulate_with_context, &(), &ones(1_u8)), [15, 15, 15, 15]);
    assert_eq!(run(generic::<f32>, &(), &ones(1.0_f32)), 60.0);
    assert_eq!(run(generic::<u8>, &(), &ones(1_u8)), 60.0);
    assert_eq!(run(generic_fold::<3, u64>, &[0.0; 3], &DataSet::nothing(2).unwrap()), 0);
}

#[test]
fn a_function_pointer_and_a_closure_are_jobs_too() {
    let pointer: fn(&[f64], &Dense<f64>) -> Grad = slice_params;
    assert_eq!(run(pointer, &[1.0; 3], &ones(1.0_f64)).rows, 20);
    let closure = |factor: &u64, x: &Dense<f64>| factor * x.rows() as u64;
    assert_eq!(run(closure, &2, &ones(1.0_f64)), 40);
    assert!(lookup(closure.erase().name()).is_err());
}

#[test]
fn registered_functions_are_found_by_their_path() {
    #[qjam::map]
    fn nested(_: &(), _: &Nothing) -> u32 {
        1
    }

    fn found<F: Job<M>, M>(f: F) -> Mode {
        let erased = f.erase();
        let name = erased.name();
        assert_eq!(lookup(name).expect(name).name(), name);
        assert!(names().any(|registered| registered == name));
        lookup(name).expect(name).mode()
    }

    assert_eq!(found(slice_params), Mode::Map);
    assert_eq!(found(inner::slice_params), Mode::Map);
    assert_eq!(found(nested), Mode::Map);
    assert_eq!(found(generic::<f32>), Mode::Map);
    assert_eq!(found(generic::<f64>), Mode::Map);
    assert_eq!(found(accumulate), Mode::Fold);
    assert_eq!(found(accumulate_with_context), Mode::Fold);
    assert_eq!(found(generic_fold::<3, u64>), Mode::Fold);
    assert_eq!(slice_params.erase().name(), "functions::slice_params");
    assert_eq!(inner::slice_params.erase().name(), "functions::inner::slice_params");
}

#[test]
fn a_found_function_is_the_function() {
    let f = lookup("functions::text_params").unwrap();
    let lines = DataSet::text("a\nb\nab\n".into()).unwrap();
    assert_eq!(run_erased::<str, _, u64>(&f, "a", &lines).unwrap(), 2);
}

#[test]
fn an_unknown_name_comes_with_those_that_look_like_it() {
    let name = generic::<u8>.erase().name();
    let Err(UnknownFunction::Missing { name: asked, near }) = lookup(name).map(|f| f.name()) else {
        panic!("{name} is not registered");
    };
    assert_eq!(asked, name);
    assert_eq!(near[..2], ["functions::generic<f32>", "functions::generic<f64>"]);

    let message = lookup("functions::slice_param").map(|f| f.name()).unwrap_err().to_string();
    assert!(message.contains("no function functions::slice_param is registered"), "{message}");
    assert!(message.contains("functions::slice_params"), "{message}");
}

// The same one again is harmless.
qjam::register!(slice_params);

#[test]
fn two_functions_of_one_name_are_not_mistaken_for_each_other() {
    fn names_of_twins() -> [&'static str; 2] {
        let first = {
            #[qjam::map]
            fn twin(_: &(), _: &Nothing) -> u32 {
                1
            }
            twin.erase().name()
        };
        let second = {
            #[qjam::map]
            fn twin(_: &(), _: &Nothing) -> u64 {
                2
            }
            twin.erase().name()
        };
        [first, second]
    }
    let [first, second] = names_of_twins();
    assert_eq!(first, second);
    let error = lookup(first).map(|f| f.name()).unwrap_err();
    assert_eq!(error, UnknownFunction::Ambiguous { name: first.into(), count: 2 });
}

#[test]
fn partial_results_that_do_not_fit_are_an_error_with_the_field() {
    #[qjam::map]
    fn ragged(_: &(), _: &Dense<f64>, ctx: &Ctx) -> Grad {
        Grad { grad: vec![0.0; ctx.chunk() as usize], ..Grad::default() }
    }
    let error = run_erased::<(), _, Grad>(&ragged.erase(), &(), &ones(1.0_f64)).unwrap_err();
    assert_eq!(error, qjam::MergeError::Lengths { path: "grad".into(), left: 0, right: 1 });
}

#[test]
fn damaged_parameters_and_partials_are_errors() {
    let f = slice_params.erase();
    assert!(f.open_params(Bytes::from_static(b"nonsense")).is_err());
    assert!(f.decode(Bytes::new()).is_err());
    let mut out = Encoder::new();
    (1.0_f64, 2.0_f64).encode(&mut out);
    assert!(f.open_params(out.to_bytes()).is_err(), "something is left over");
    assert!(f.open_chunk(&Nothing::header(), Bytes::new()).is_err());
}

#[test]
#[should_panic(expected = "has no accumulator")]
fn a_map_has_no_accumulator() {
    slice_params.erase().empty();
}
