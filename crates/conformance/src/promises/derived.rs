//! Derived data sets have the bits of a walk by hand, whatever makes their chunks, and what is kept is made once.

use crate::Engine;
use crate::support::{Folder, losses, rugged, signal, wait_until};
use qjam::job::FaultKind;
use qjam::{Ctx, DataSet, Dense, Derived, Error, Joined, Lines, List, Master, State, Wire};
use rustix::process::Signal;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Sale {
    shop: String,
    price: f64,
}

#[qjam::record]
fn parse(_: &(), line: &str, sales: &mut Vec<Sale>) {
    if let Some((shop, price)) = line.split_once(' ') {
        sales.push(Sale { shop: shop.into(), price: price.parse().expect("a price") });
    }
}

#[qjam::record]
fn costs_more(least: &f64, sale: &Sale) -> bool {
    sale.price > *least
}

#[qjam::record]
fn raised(factor: &f64, sale: &Sale) -> Sale {
    Sale { price: sale.price * factor, ..sale.clone() }
}

#[qjam::record]
fn features(shift: &[f64], sale: &Sale, row: &mut Vec<f64>) {
    if sale.shop != "closed" {
        row.extend(shift.iter().map(|shift| sale.price + shift));
    }
}

#[qjam::record]
fn numbered(_: &(), number: u64, line: &str) -> (u64, String) {
    (number, line.to_owned())
}

#[qjam::record]
fn is_not_empty(_: &(), line: &str) -> bool {
    !line.is_empty()
}

#[qjam::map]
fn takings(_: &(), sales: &List<Sale>) -> BTreeMap<String, (f64, u64)> {
    let mut takings = BTreeMap::<String, (f64, u64)>::new();
    for sale in sales {
        let of_shop = takings.entry(sale.shop.clone()).or_default();
        of_shop.0 += sale.price;
        of_shop.1 += 1;
    }
    takings
}

#[qjam::map]
fn sums(_: &(), x: &Dense<f64>, ctx: &Ctx) -> (Vec<f64>, Joined<(u32, u64)>) {
    let mut sums = vec![0.0; x.cols()];
    for row in x.rows_iter() {
        sums.iter_mut().zip(row).for_each(|(sum, v)| *sum += v);
    }
    (sums, Joined(vec![(ctx.chunk(), ctx.records().start)]))
}

#[qjam::map]
fn text(_: &(), lines: &Lines) -> Joined<String> {
    lines.iter().map(str::to_owned).collect()
}

/// Lines of a shop and a price, some of them empty.
fn log(lines: usize) -> DataSet<Lines> {
    let line = |(n, price): (usize, f64)| match n % 5 {
        0 => "\n".to_owned(),
        1 => format!("closed {price}\n"),
        _ => format!("shop{} {price}\n", n % 17),
    };
    let text: String = rugged(lines).into_iter().enumerate().map(line).collect();
    DataSet::text(text).unwrap().partitions(13).unwrap()
}

/// What a chunk of the log is after `parse`, `costs_more` and `raised`.
fn by_hand(log: &DataSet<Lines>, index: usize) -> List<Sale> {
    let mut sales = Vec::new();
    log.chunk(index).unwrap().iter().for_each(|line| parse(&(), line, &mut sales));
    List::from_vec(
        sales.iter().filter(|sale| costs_more(&0.5, sale)).map(|sale| raised(&1.1, sale)).collect(),
    )
}

fn expensive(log: &DataSet<Lines>) -> Derived<List<Sale>> {
    log.flat_map(parse, &()).filter(costs_more, &0.5).map(raised, &1.1)
}

pub(crate) fn derived_data_has_the_bits_of_a_walk_by_hand(e: &Engine) {
    let log = log(3_000);
    let chunks: Vec<List<Sale>> = (0..log.len()).map(|index| by_hand(&log, index)).collect();
    let rows = |list: &List<Sale>| {
        let mut values = Vec::new();
        list.iter().for_each(|sale| features(&[0.25, -3.0], sale, &mut values));
        Dense::from_vec(values, 2).unwrap()
    };
    let data = expensive(&log);
    for derived in [data.clone(), data.persist()] {
        for engine in e.few() {
            let m = e.connect(Master::builder(), engine);
            let all: Vec<Sale> = chunks.iter().flat_map(|chunk| chunk.to_vec()).collect();
            for _ in 0..2 {
                assert_eq!(m.collect(&derived).unwrap(), all, "{engine}");
                assert_eq!(m.count(&derived).unwrap(), all.len() as u64, "{engine}");
            }
            assert_eq!(m.take(&derived, 5).unwrap(), all[..5], "{engine}");
            let (found, places) = m.run(sums, &(), &derived.rows(features, &[0.25, -3.0][..], 2)).unwrap();
            // Along the tree over chunks, as every round.
            let leaves: Vec<Vec<f64>> =
                chunks.iter().map(|chunk| sums(&(), &rows(chunk), &Ctx::for_test(0, 0, 0)).0).collect();
            assert_eq!(bits_of(&found), bits_of(&along_the_tree(leaves)), "{engine}");
            let starts = log.erased().records.starts();
            let wanted: Vec<(u32, u64)> = (0..13).map(|chunk| (chunk, starts.range(chunk).start)).collect();
            assert_eq!(places.0, wanted, "{engine}: a context has the records of the source");
        }
    }
}

fn bits_of(values: &[f64]) -> Vec<u64> {
    values.iter().map(|v| v.to_bits()).collect()
}

/// Adds up as the tree over the chunks does.
fn along_the_tree(mut level: Vec<Vec<f64>>) -> Vec<f64> {
    while level.len() > 1 {
        let pairs = level.chunks(2).map(|pair| match pair {
            [left, right] => left.iter().zip(right).map(|(a, b)| a + b).collect(),
            alone => alone[0].clone(),
        });
        level = pairs.collect();
    }
    level.remove(0)
}

pub(crate) fn samples_unions_and_numbers_are_the_same_everywhere(e: &Engine) {
    let log = log(2_000);
    let sampled = log.sample(0.3, 5);
    let both = sampled.union(&log.filter(is_not_empty, &())).unwrap().union(&sampled).unwrap().sample(0.5, 5);
    let numbers = log.union(&log.selected(&[2, 3]).unwrap()).unwrap().map_numbered(numbered, &()).unwrap();
    let alone = Master::connect("local:1").unwrap();
    let wanted = (alone.collect(&both).unwrap(), alone.run(text, &(), &sampled).unwrap());
    let (count, all) = (wanted.1.len(), log.records() as usize);
    assert!((all / 5..all / 2).contains(&count), "about three tenths: {count} of {all}");
    let twice = log.union(&log).unwrap().map_numbered(numbered, &()).unwrap().sample(0.5, 5);
    let drawn = alone.collect(&twice).unwrap();
    let half = log.records();
    let of_part = |part: u64| drawn.iter().map(|(number, _)| number).filter(move |n| *n / half == part);
    let (first, second) = (of_part(0).copied(), of_part(1).map(|number| number - half));
    assert!(!first.eq(second), "equal parts of a union draw by themselves");
    for engine in e.few() {
        let m = e.connect(Master::builder().seed(99), engine);
        assert_eq!(m.collect(&both.persist()).unwrap(), wanted.0, "{engine}");
        assert_eq!(m.run(text, &(), &sampled).unwrap(), wanted.1, "{engine}");
        let found = m.collect(&numbers).unwrap();
        assert!(found.iter().map(|(number, _)| *number).eq(0..found.len() as u64), "{engine}");
        assert_eq!(found[0].1, m.take(&log, 1).unwrap()[0], "{engine}");
    }
}

#[qjam::record]
fn fails_at(bad: &str, line: &str) -> bool {
    assert!(!line.ends_with(bad), "a bad line: {line}");
    true
}

#[qjam::record]
fn ragged(_: &(), line: &str, row: &mut Vec<f64>) {
    row.extend(line.bytes().map(f64::from));
}

pub(crate) fn a_function_that_fails_names_the_chunk_of_the_source_the_record_and_the_chain(e: &Engine) {
    let lines: String = (0..60).map(|n| format!("line {n}\n")).collect();
    let lines = DataSet::text(lines).unwrap().chunk_records(10).unwrap();
    let data = lines.filter(is_not_empty, &()).filter(fails_at, "37").persist();
    for engine in e.few() {
        let m = e.connect(e.quiet(), engine);
        let told = |error: Error| {
            let fault = error.fault().unwrap_or_else(|| panic!("{engine}: {error}")).fault.clone();
            assert!(fault.kind == FaultKind::Panic && fault.chunk == Some(3), "{engine}: {fault:?}");
            fault.message
        };
        let message = told(m.count(&data).unwrap_err());
        let parts =
            ["a bad line: line 37", "record 7 of chunk 3", "Lines → filter(", "fails_at) → persist()"];
        assert!(parts.iter().all(|part| message.contains(part)), "{engine}: {message}");
        let message =
            told(m.run(sums, &(), &lines.selected(&[0, 0, 0, 1]).unwrap().rows(ragged, &(), 6)).unwrap_err());
        assert!(message.contains("a row of 7 numbers, and rows have 6"), "{engine}: {message}");
        assert_eq!(m.count(&lines.filter(fails_at, "x")).unwrap(), 60, "{engine}: the master goes on");
    }
}

/// Notes in a folder that this process makes the chunk with this line.
#[qjam::record]
fn noted(folder: &str, line: &str) -> bool {
    if let Some(chunk) = line.strip_prefix("first of ") {
        let path = Path::new(folder).join(format!("{chunk} in {}", std::process::id()));
        let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
        file.and_then(|mut file| file.write_all(b".")).expect("a note");
    }
    true
}

pub(crate) fn a_process_makes_what_is_kept_once_also_when_others_are_killed(e: &Engine) {
    let chunks = 24;
    let lines: String = (0..chunks).map(|n| format!("first of {n}\nsecond\n")).collect();
    let lines = DataSet::text(lines).unwrap().chunk_records(2).unwrap();
    let folder = Folder::new();
    let path = folder.file("").to_string_lossy().into_owned();
    let data = lines.filter(noted, &path[..]).persist();
    // How often each chunk was made in each process.
    let made = || -> BTreeMap<String, u64> {
        let files = std::fs::read_dir(folder.file("")).unwrap().flatten();
        files.map(|file| (file.file_name().into_string().unwrap(), file.metadata().unwrap().len())).collect()
    };
    for workers in [1, 2, 3] {
        let m = e.connect(e.quiet(), &e.of(workers));
        let before = made().len();
        for round in 0..3 {
            assert_eq!(m.count(&data).unwrap(), 2 * chunks, "round {round}");
        }
        assert!(made().values().all(|times| *times == 1), "{workers} workers: {:?}", made());
        let victims = e.pids(&m);
        if victims.len() as u64 == 1 && m.workers().len() == 1 {
            assert_eq!((made().len() - before) as u64, chunks, "one worker makes each once");
        }
        let killed = losses(&m);
        signal(victims[0], Signal::KILL);
        wait_until("that the master notices", || {
            m.count(&data).unwrap();
            losses(&m) > killed
        });
        for _ in 0..2 {
            assert_eq!(m.count(&data).unwrap(), 2 * chunks);
        }
        assert!(made().values().all(|times| *times == 1), "{workers} workers, one killed: {:?}", made());
    }
    let never = lines.filter(noted, &path[..]);
    let m = e.connect(e.quiet(), &e.of(1));
    let twice = [(); 2].map(|()| m.count(&never).unwrap());
    assert_eq!(twice, [2 * chunks; 2]);
    assert!(made().values().any(|times| *times > 1), "what is not kept is made in every round");
}

#[derive(Clone, Debug, PartialEq, Wire)]
struct Till {
    taken: f64,
}

impl State for Till {
    type Chunk = List<Sale>;

    fn init(sales: &List<Sale>, ctx: &Ctx) -> Self {
        Till { taken: sales.iter().map(|sale| sale.price).sum::<f64>() + ctx.records().start as f64 }
    }
}

#[qjam::map]
fn sell(discount: &f64, sales: &List<Sale>, till: &mut Till) -> f64 {
    till.taken += sales.iter().map(|sale| sale.price * discount).sum::<f64>();
    till.taken
}

pub(crate) fn states_stay_with_the_chunks_of_derived_data(e: &Engine) {
    let story = |m: &Master| {
        let mut held = m.hold::<Till>(&expensive(&log(900)).persist()).unwrap();
        let values: Vec<u64> =
            (0..4).map(|n| held.run(sell, &(0.1 * f64::from(n))).unwrap().to_bits()).collect();
        (values, held.collect().unwrap())
    };
    let alone = story(&Master::connect("local:1").unwrap());
    for engine in e.few() {
        assert_eq!(story(&e.connect(Master::builder(), engine)), alone, "{engine}");
    }
}

pub(crate) fn sales_of_a_shop_are_reduced_where_they_are_made(e: &Engine) {
    let log = log(2_500);
    let data = expensive(&log);
    for engine in e.few() {
        let m = e.connect(Master::builder(), engine);
        let found = m.run(takings, &(), &data).unwrap();
        let count: u64 = found.values().map(|(_, count)| count).sum();
        assert_eq!(count, m.count(&data).unwrap(), "{engine}");
        assert_eq!(count, (0..log.len()).map(|index| by_hand(&log, index).len() as u64).sum::<u64>());
    }
}
