//! The silhouette of labelled rows: how much nearer rows are to their own cluster than to the next one.
//!
//! Compares all pairs of rows, so callers give it a sample. Sums run in the order of the rows.

/// The mean silhouette of dense rows; `None` if there are fewer than two clusters, or as many as rows.
pub(crate) fn silhouette(rows: &[f64], columns: usize, labels: &[f64]) -> Option<f64> {
    let mut clusters = labels.to_vec();
    clusters.sort_unstable_by(f64::total_cmp);
    clusters.dedup();
    if clusters.len() < 2 || clusters.len() >= labels.len() {
        return None;
    }
    let index = |label: &f64| clusters.binary_search_by(|known| known.total_cmp(label)).unwrap_or(0);
    let of_rows: Vec<usize> = labels.iter().map(index).collect();
    let mut sizes = vec![0_u64; clusters.len()];
    of_rows.iter().for_each(|cluster| sizes[*cluster] += 1);
    let row = |at: usize| &rows[at * columns..][..columns];
    let mut sum = 0.0;
    for (at, own) in of_rows.iter().enumerate() {
        let mut distances = vec![0.0; clusters.len()];
        for (other, cluster) in of_rows.iter().enumerate() {
            let squared: f64 = row(at).iter().zip(row(other)).map(|(a, b)| (a - b) * (a - b)).sum();
            distances[*cluster] += squared.sqrt();
        }
        // A row alone in its cluster counts 0.
        if sizes[*own] == 1 {
            continue;
        }
        let within = distances[*own] / (sizes[*own] - 1) as f64;
        let others = (0..clusters.len()).filter(|cluster| cluster != own);
        let next =
            others.map(|cluster| distances[cluster] / sizes[cluster] as f64).fold(f64::INFINITY, f64::min);
        let larger = within.max(next);
        sum += if larger > 0.0 { (next - within) / larger } else { 0.0 };
    }
    Some(sum / labels.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::silhouette;

    #[test]
    fn rows_far_from_other_clusters_have_a_silhouette_near_one() {
        let found = silhouette(&[0.0, 0.1, 9.0, 9.1], 1, &[0.0, 0.0, 1.0, 1.0]).unwrap();
        let expected = [1.0 - 0.1 / 9.05, 1.0 - 0.1 / 8.95, 1.0 - 0.1 / 8.95, 1.0 - 0.1 / 9.05];
        assert!((found - expected.iter().sum::<f64>() / 4.0).abs() < 1e-12, "{found}");
        assert_eq!(silhouette(&[0.0, 1.0], 1, &[3.0, 3.0]), None);
        assert_eq!(silhouette(&[0.0, 1.0], 1, &[3.0, 4.0]), None);
    }
}
