//! Sparse kernels and what the same matrix gives in dense form, to the bit, at every level of the processor.

use super::*;
use crate::kernels::Level;
use crate::kernels::nearest::{Panels, Real, Rows, square};
use qjam::Rng;

/// A matrix that is mostly zeros, in dense form and by its rows; some rows have nothing, some much.
fn matrix<T: Sparse>(rows: usize, cols: usize, seed: u64) -> (Vec<T>, Csr<T>) {
    let mut random = Rng::keyed(seed, 0, 0);
    let (mut dense, mut starts, mut columns, mut values) = (vec![], vec![0], vec![], vec![]);
    for i in 0..rows {
        let often = [0, 1, 4, 9][i % 4];
        for column in 0..cols {
            let v = T::from_f64(if random.below(10) < often { random.normal() } else { 0.0 });
            dense.push(v);
            if v != T::default() {
                columns.push(column as u32);
                values.push(v);
            }
        }
        starts.push(columns.len() as u64);
    }
    (dense, Csr::from_vecs(starts, columns, values, cols, None).unwrap())
}

fn noise<T: Real>(len: usize, seed: u64) -> Vec<T> {
    let mut random = Rng::keyed(seed, 1, 0);
    (0..len).map(|_| T::from_f64(random.normal())).collect()
}

fn bits<T: Real>(values: &[T]) -> Vec<u64> {
    values.iter().map(|v| v.to_f64().to_bits()).collect()
}

fn check_nearest<T: Sparse>() {
    for (rows, cols, k) in [(1, 1, 1), (5, 3, 2), (67, 40, 33), (530, 25, 100), (31, 300, 65)] {
        let (dense, sparse) = matrix::<T>(rows, cols, 3);
        let mut centres: Vec<T> = noise(k * cols, 4);
        // A centre twice: the first of the two must win.
        centres.copy_within(..cols, (k - 1) * cols);
        let panels = Panels::new(&centres, cols);
        let lines = Lines::from(&sparse);
        for level in Level::available() {
            let (mut expected, mut found) = (vec![1; rows], vec![2; rows]);
            T::nearest(level, &panels, Rows::new(&dense, cols, cols), &mut expected);
            T::nearest_lines(level, &panels, lines, &mut found);
            assert_eq!(found, expected, "{level:?}, {rows} rows, {cols} columns, {k} centres");
            let list: Vec<u32> = (0..rows as u32).filter(|i| i % 3 != 1).rev().collect();
            for panel in 0..panels.len() {
                let mut expected = vec![T::default(); list.len() * T::WIDTH];
                let mut found = expected.clone();
                T::scores(level, &panels, panel, Rows::new(&dense, cols, cols), &list, &mut expected);
                T::scores_of_lines(level, &panels, panel, lines, &list, &mut found);
                assert_eq!(bits(&found), bits(&expected), "{level:?}, panel {panel}");
            }
        }
        if rows > 2 {
            let mut part = vec![0; 2];
            let mut all = vec![0; rows];
            T::nearest_lines(Level::best(), &panels, lines.part(1..3), &mut part);
            T::nearest_lines(Level::best(), &panels, lines, &mut all);
            assert_eq!(part, all[1..3]);
        }
    }
}

#[test]
fn sparse_rows_have_the_scores_and_nearest_centres_of_dense_ones() {
    check_nearest::<f32>();
    check_nearest::<f64>();
}

/// `a b` in the order of the inner index, one fused product after the other.
fn product<T: Sparse>(a: &[T], b: &[T], inner: usize, cols: usize) -> Vec<T> {
    let element = |i: usize, c: usize| {
        (0..inner).fold(T::default(), |sum, p| a[i * inner + p].fused(b[p * cols + c], sum))
    };
    (0..a.len() / inner).flat_map(|i| (0..cols).map(move |c| element(i, c))).collect()
}

fn transposed<T: Copy>(a: &[T], cols: usize) -> Vec<T> {
    (0..cols).flat_map(|c| a.iter().skip(c).step_by(cols).copied()).collect()
}

/// The same matrix by its columns.
fn columns_of<T: Sparse>(dense: &[T], cols: usize) -> Csc<T> {
    let rows = dense.len() / cols;
    let (mut starts, mut places, mut values) = (vec![0], vec![], vec![]);
    for column in transposed(dense, cols).chunks(rows) {
        for (row, v) in column.iter().enumerate().filter(|(_, v)| **v != T::default()) {
            places.push(row as u32);
            values.push(*v);
        }
        starts.push(places.len() as u64);
    }
    Csc::from_vecs(starts, places, values, rows).unwrap()
}

fn check_products<T: Sparse>() {
    for (rows, cols, wide) in [(1, 1, 1), (7, 5, 3), (40, 33, 17), (9, 70, 150)] {
        let (dense, by_rows) = matrix::<T>(rows, cols, 5);
        let by_columns = columns_of(&dense, cols);
        let (tall, flat): (Vec<T>, Vec<T>) = (noise(cols * wide, 6), noise(rows * wide, 7));
        let straight = product(&dense, &tall, cols, wide);
        let turned = product(&transposed(&dense, cols), &flat, rows, wide);
        for level in Level::available() {
            let mut out = vec![T::default(); rows * wide];
            T::times(level, Lines::from(&by_rows), &tall, wide, &mut out);
            assert_eq!(bits(&out), bits(&straight), "{level:?}, rows times");
            out.fill(T::from_f64(f64::NAN));
            T::transposed_times(level, Lines::from(&by_columns), &tall, wide, &mut out);
            assert_eq!(bits(&out), bits(&straight), "{level:?}, columns times");
            let mut out = vec![T::from_f64(9.0); cols * wide];
            T::transposed_times(level, Lines::from(&by_rows), &flat, wide, &mut out);
            assert_eq!(bits(&out), bits(&turned), "{level:?}, transposed rows times");
            T::times(level, Lines::from(&by_columns), &flat, wide, &mut out);
            assert_eq!(bits(&out), bits(&turned), "{level:?}, transposed columns times");
        }
    }
}

#[test]
fn products_of_rows_and_columns_are_the_dense_ones_in_the_stated_order() {
    check_products::<f32>();
    check_products::<f64>();
}

#[test]
fn a_line_times_a_vector_is_the_sum_in_doubles_and_added_where_it_belongs() {
    let (dense, sparse) = matrix::<f32>(12, 90, 8);
    let x: Vec<f64> = noise(90, 9);
    for (i, row) in dense.chunks(90).enumerate() {
        let line = Lines::from(&sparse).line(i);
        let expected: f64 = row.iter().zip(&x).map(|(a, b)| f64::from(*a) * b).sum();
        let size: f64 = row.iter().zip(&x).map(|(a, b)| (f64::from(*a) * b).abs()).sum();
        assert!((dot(line, &x) - expected).abs() <= 1e-15 * size * 90.0);
        let mut y = x.clone();
        add_scaled(&mut y, -0.5, line);
        let expected: Vec<f64> = row.iter().zip(&x).map(|(a, b)| b + -0.5 * f64::from(*a)).collect();
        assert_eq!(y, expected);
        assert!((squares(Lines::from(&sparse))[i] - square(row)).abs() <= 1e-13 * square(row));
    }
    assert_eq!(dot((&[], &[0.0_f64; 0]), &[]), 0.0);
}

#[test]
#[should_panic(expected = "values of the dense matrix")]
fn lengths_that_do_not_fit_are_refused() {
    let (_, sparse) = matrix::<f64>(3, 4, 1);
    times(Lines::from(&sparse), &[0.0; 7], 2, &mut [0.0; 6]);
}
