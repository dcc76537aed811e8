//! Pictures of scores as SVG: confusions and ROC curves, predicted against true values, sizes of clusters.
//!
//! A picture loads nothing, and its colours follow the reader's choice of light or dark.

use qjam_algos::evaluate::{ClassScores, Curve, Detail, Evaluation};
use std::fmt::Write;

/// Side of a plot, and what is around it.
const SIDE: f64 = 360.0;
const MARGIN: f64 = 60.0;
const GAP: f64 = 90.0;
/// Curves and bars that are drawn.
const CURVES_MAX: usize = 10;
const BARS_MAX: usize = 40;
const CELLS_MAX: usize = 40;

const STYLE: &str = "\
<style>
svg { background: #ffffff; color: #1f2328; font: 13px system-ui, sans-serif; }
text { fill: currentColor; } .faint { fill: none; stroke: #8b949e; stroke-width: 1; }
.dash { stroke-dasharray: 4 4; } .mark { fill: #0969da; } .line { fill: none; stroke-width: 2; }
@media (prefers-color-scheme: dark) { svg { background: #0d1117; color: #e6edf3; } .mark { fill: #58a6ff; } }
</style>
";

/// Hues that people with most kinds of colour blindness tell apart, on light and on dark.
const COLOURS: [&str; CURVES_MAX] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f", "#b2912f", "#8f4fbf",
    "#4d7f17",
];

/// The picture of an evaluation.
pub(crate) fn svg(found: &Evaluation) -> String {
    let mut plots: Vec<(String, String)> = Vec::new();
    match &found.detail {
        Detail::Classes { classes, confusion, curves } => {
            plots.push((
                "predicted class (across) of rows of each class (down)".into(),
                matrix(classes, confusion),
            ));
            if curves.iter().any(|curve| !curve.points.is_empty()) {
                plots.push((
                    "share of the class found against share of others taken for it".into(),
                    roc(curves),
                ));
            }
        }
        Detail::Values(pairs) => plots.push(("predicted (up) against true (across)".into(), scatter(pairs))),
        Detail::Clusters(sizes) => plots.push(("rows of each cluster".into(), bars(sizes))),
        Detail::Decomposition => {
            let share = found.score("explained_share").unwrap_or(0.0).clamp(0.0, 1.0);
            plots.push((format!("explained share of the variance: {share:.4}"), level(share)));
        }
    }
    let width = 2.0 * MARGIN + plots.len() as f64 * SIDE + (plots.len() as f64 - 1.0) * GAP;
    let height = 2.0 * MARGIN + SIDE;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" role=\"img\">\n{STYLE}"
    );
    for (at, (title, plot)) in plots.iter().enumerate() {
        let left = MARGIN + at as f64 * (SIDE + GAP);
        let _ = writeln!(
            out,
            "<g transform=\"translate({left} {MARGIN})\"><text y=\"-24\">{title}</text>\n{plot}</g>"
        );
    }
    out + "</svg>\n"
}

fn frame() -> String {
    format!("<rect class=\"faint\" width=\"{SIDE}\" height=\"{SIDE}\"/>\n")
}

fn text(at: (f64, f64), anchor: &str, what: &str) -> String {
    format!("<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{what}</text>\n", at.0, at.1)
}

/// Cells as dark as the share of the rows of their line.
fn matrix(classes: &[ClassScores], confusion: &[u64]) -> String {
    let (k, shown) = (classes.len(), classes.len().min(CELLS_MAX));
    let cell = SIDE / shown as f64;
    let mut out = frame();
    for (line, scores) in classes.iter().take(shown).enumerate() {
        let middle = (line as f64 + 0.5) * cell;
        if shown <= 20 {
            out += &text((-8.0, middle + 4.0), "end", &scores.class.to_string());
            out += &text((middle, -6.0), "middle", &scores.class.to_string());
        }
        for column in 0..shown {
            let count = confusion[line * k + column];
            let share = count as f64 / scores.rows.max(1) as f64;
            let (x, y) = (column as f64 * cell, line as f64 * cell);
            let _ = writeln!(
                out,
                "<rect class=\"mark\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{cell:.1}\" height=\"{cell:.1}\" fill-opacity=\"{:.3}\"/>",
                0.75 * share
            );
            if shown <= 12 && count > 0 {
                out += &text((x + cell / 2.0, y + cell / 2.0 + 4.0), "middle", &count.to_string());
            }
        }
    }
    if shown < k {
        out += &text((0.0, SIDE + 20.0), "start", &format!("the first {shown} of {k} classes"));
    }
    out
}

fn roc(curves: &[Curve]) -> String {
    let mut out = frame();
    let _ = writeln!(out, "<path class=\"faint dash\" d=\"M0 {SIDE} L{SIDE} 0\"/>");
    let drawn = curves.iter().filter(|curve| !curve.points.is_empty()).take(CURVES_MAX);
    for (at, (curve, colour)) in drawn.zip(COLOURS).enumerate() {
        let points: Vec<String> =
            curve.points.iter().map(|(x, y)| format!("{:.1},{:.1}", x * SIDE, SIDE - y * SIDE)).collect();
        let _ =
            writeln!(out, "<polyline class=\"line\" stroke=\"{colour}\" points=\"{}\"/>", points.join(" "));
        let y = SIDE - 12.0 - 17.0 * (curves.len().min(CURVES_MAX) - 1 - at) as f64;
        let _ = writeln!(
            out,
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"10\" height=\"10\" fill=\"{colour}\"/>",
            SIDE - 150.0,
            y - 9.0
        );
        out += &text((SIDE - 134.0, y), "start", &format!("class {}: {:.4}", curve.class, curve.area));
    }
    out += &axes(("0", "1"), ("0", "1"));
    if curves.len() > CURVES_MAX {
        out +=
            &text((SIDE / 2.0, SIDE + 34.0), "middle", &format!("{CURVES_MAX} of {} classes", curves.len()));
    }
    out
}

fn axes(x: (&str, &str), y: (&str, &str)) -> String {
    text((0.0, SIDE + 18.0), "start", x.0)
        + &text((SIDE, SIDE + 18.0), "end", x.1)
        + &text((-8.0, SIDE), "end", y.0)
        + &text((-8.0, 12.0), "end", y.1)
}

fn scatter(pairs: &[(f64, f64)]) -> String {
    let all = || pairs.iter().flat_map(|(is, said)| [*is, *said]).filter(|value| value.is_finite());
    let (low, high) =
        all().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)));
    let mut out = frame();
    if low > high {
        return out;
    }
    let span = if high > low { high - low } else { 1.0 };
    let at = |value: f64| (value - low) / span * SIDE;
    let _ = writeln!(out, "<path class=\"faint dash\" d=\"M0 {SIDE} L{SIDE} 0\"/>");
    for (is, said) in pairs.iter().filter(|(is, said)| is.is_finite() && said.is_finite()) {
        let (x, y) = (at(*is), SIDE - at(*said));
        let _ = writeln!(
            out,
            "<circle class=\"mark\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.5\" fill-opacity=\"0.5\"/>"
        );
    }
    let ends = (&*format!("{low:.4}"), &*format!("{high:.4}"));
    out + &axes(ends, ends)
}

fn bars(sizes: &[u64]) -> String {
    let (shown, most) = (sizes.len().clamp(1, BARS_MAX), sizes.iter().max().copied().unwrap_or(1).max(1));
    let width = SIDE / shown as f64;
    let mut out = frame();
    for (at, size) in sizes.iter().take(shown).enumerate() {
        let (x, height) = (at as f64 * width, *size as f64 / most as f64 * SIDE);
        let _ = writeln!(
            out,
            "<rect class=\"mark\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{height:.1}\"/>",
            x + width * 0.1,
            SIDE - height,
            width * 0.8
        );
        if shown <= 20 {
            out += &text((x + width / 2.0, SIDE + 18.0), "middle", &at.to_string());
        }
    }
    out += &text((-8.0, 12.0), "end", &most.to_string());
    if sizes.len() > shown {
        out += &text((0.0, SIDE + 34.0), "start", &format!("the first {shown} of {} clusters", sizes.len()));
    }
    out
}

/// A bar that is filled so far.
fn level(share: f64) -> String {
    format!(
        "<rect class=\"faint\" width=\"{SIDE}\" height=\"40\"/>\n<rect class=\"mark\" width=\"{:.1}\" height=\"40\"/>\n",
        share * SIDE
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_has_a_cell_for_each_pair_and_a_line_for_each_curve() {
        let class = |class: f64| ClassScores { class, precision: 1.0, recall: 1.0, f1: 1.0, rows: 2 };
        let curves = vec![Curve { class: 1.0, area: 1.0, points: vec![(0.0, 0.0), (0.0, 1.0), (1.0, 1.0)] }];
        let detail =
            Detail::Classes { classes: vec![class(0.0), class(1.0)], confusion: vec![2, 0, 0, 2], curves };
        let drawn = svg(&Evaluation { rows: 4, scores: vec![], detail, remarks: vec![] });
        assert_eq!((drawn.matches("class=\"mark\"").count(), drawn.matches("<polyline").count()), (4, 1));
        assert!(
            drawn.starts_with("<svg ")
                && drawn.ends_with("</svg>\n")
                && drawn.contains("prefers-color-scheme: dark")
        );
        let empty = Evaluation {
            rows: 0,
            scores: vec![],
            detail: Detail::Values(vec![(1.0, f64::NAN)]),
            remarks: vec![],
        };
        assert!(!svg(&empty).contains("NaN"));
    }
}
