//! The book's pages on large clusters and on buckets say what the simulator says today.

use qjam_sim::bucket::study as bucket;
use qjam_sim::study::stragglers::{self, Times};
use qjam_sim::study::table::Table;
use qjam_sim::study::{bandwidth, recovery};

const BOOK: &str = concat!(
    include_str!("../../../docs/book/to-internet-scale.md"),
    include_str!("../../../docs/book/bucket-costs.md")
);

/// Numbers may move by a twentieth with the scheduler before the page must be made again.
const TOLERANCE: f64 = 0.05;

/// The row of the book's table of this title that begins with the same cells.
fn in_the_book(table: &Table, keys: &[String]) -> Vec<String> {
    let (_, after) = BOOK.split_once(&format!("*{}*", table.title)).unwrap_or_else(|| {
        panic!("the book has no table `{}`; make the page again with the command it names", table.title)
    });
    let rows =
        after.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    let cells = |line: &str| line.trim_matches('|').split('|').map(|cell| cell.trim().to_string()).collect();
    let row = rows.map(cells).find(|row: &Vec<String>| row.starts_with(keys));
    row.unwrap_or_else(|| panic!("{}: the book has no row {keys:?}", table.title))
}

/// The first number in a cell.
fn number(cell: &str) -> Option<f64> {
    let text: String = cell
        .trim_start_matches("≈ ")
        .replace(' ', "\u{2009}")
        .chars()
        .take_while(|c| c.is_ascii_digit() || *c == '.')
        .collect();
    text.parse().ok()
}

fn agrees(table: &Table, keys: usize) {
    for row in &table.rows {
        let there = in_the_book(table, &row[..keys]);
        assert_eq!(row.len(), there.len(), "{}", table.title);
        for (cell, old) in row.iter().zip(&there) {
            let is_near = match (number(cell), number(old)) {
                (Some(now), Some(then)) => (now - then).abs() <= TOLERANCE * then.max(1.0),
                _ => cell == old,
            };
            assert!(is_near, "{}: {row:?}, the book says {there:?}; make the page again", table.title);
        }
    }
}

#[test]
fn slow_workers_cost_what_the_book_says() {
    for times in [Times::Measured, Times::TenTimes] {
        agrees(&stragglers::rounds(times, &[10]).0, 1);
    }
    agrees(&stragglers::one_slow(&[10]), 1);
}

#[test]
fn traffic_is_what_the_book_says() {
    for table in bandwidth::traffic(&[10]).0 {
        let keys = if table.name == "crossover" { 2 } else { 1 };
        agrees(&table, keys);
    }
}

#[test]
fn failures_cost_what_the_book_says() {
    agrees(&recovery::rounds(&[10]).0, 2);
}

#[test]
fn buckets_cost_what_the_book_says() {
    agrees(&bucket::beside_the_paper(&[10, 60]), 1);
    agrees(&bucket::shapes(&[30]).0, 1);
    agrees(&bucket::stages(&[30]), 1);
    agrees(&bucket::copies(&[30]), 1);
    agrees(&bucket::trouble(&[30]), 1);
    agrees(&bucket::requests(&[30]), 1);
}
