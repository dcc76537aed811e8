//! Lines over a logarithmic axis, as SVG.

use std::fmt::Write;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 52.0;
const BOTTOM: f64 = 58.0;
const COLOURS: [&str; 7] = ["#1f5fa8", "#d1602b", "#3a8f4d", "#7a4fa3", "#a33b52", "#5b6770", "#b58a1b"];

/// One line.
#[derive(Clone, Debug)]
pub struct Line {
    /// What it is.
    pub name: String,
    /// Its points.
    pub points: Vec<(f64, f64)>,
    /// Whether it is a bound or a model rather than something that was played.
    pub is_dashed: bool,
}

/// A picture.
#[derive(Clone, Debug)]
pub struct Picture {
    /// What it is called in file names.
    pub name: &'static str,
    /// What it shows.
    pub title: String,
    /// Name of the axis to the right.
    pub x: String,
    /// Name of the axis upwards.
    pub y: String,
    /// Least and greatest of the axis to the right, which is logarithmic.
    pub x_range: (f64, f64),
    /// Least and greatest of the axis upwards.
    pub y_range: (f64, f64),
    /// Whether the axis upwards is logarithmic.
    pub y_is_log: bool,
    /// Marks on the axis to the right, with their labels.
    pub x_marks: Vec<(f64, String)>,
    /// Marks on the axis upwards, with their labels.
    pub y_marks: Vec<(f64, String)>,
    /// The lines.
    pub lines: Vec<Line>,
}

impl Line {
    /// A line.
    pub fn new(name: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Line { name: name.into(), points, is_dashed: false }
    }

    /// A dashed one.
    pub fn dashed(name: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Line { is_dashed: true, ..Line::new(name, points) }
    }
}

impl Picture {
    /// The whole file.
    pub fn svg(&self) -> String {
        let legend = 18.0 * self.lines.len().div_ceil(2) as f64;
        let height = HEIGHT + legend;
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
             height=\"{height}\" font-family=\"DejaVu Sans, Verdana, sans-serif\" font-size=\"12\" fill=\"#333\">\n\
             <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#fff\"/>\n\
             <text x=\"{LEFT}\" y=\"26\" font-size=\"15\" font-weight=\"bold\">{}</text>\n",
            escape(&self.title)
        );
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        for (value, label) in &self.x_marks {
            let x = self.at_x(*value);
            let _ = writeln!(
                out,
                "<line x1=\"{x:.1}\" y1=\"{TOP}\" x2=\"{x:.1}\" y2=\"{bottom}\" stroke=\"#e4e4e4\"/>\
                 <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                bottom + 18.0,
                escape(label)
            );
        }
        for (value, label) in &self.y_marks {
            let y = self.at_y(*value);
            let _ = writeln!(
                out,
                "<line x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{right}\" y2=\"{y:.1}\" stroke=\"#e4e4e4\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                LEFT - 8.0,
                y + 4.0,
                escape(label)
            );
        }
        let _ = writeln!(
            out,
            "<path d=\"M{LEFT} {TOP} V{bottom} H{right}\" fill=\"none\" stroke=\"#888\"/>\n\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\n\
             <text transform=\"translate(18 {:.1}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
            (LEFT + right) / 2.0,
            bottom + 40.0,
            escape(&self.x),
            (TOP + bottom) / 2.0,
            escape(&self.y)
        );
        for (n, line) in self.lines.iter().enumerate() {
            self.draw(&mut out, n, line);
        }
        out += "</svg>\n";
        out
    }

    fn draw(&self, out: &mut String, n: usize, line: &Line) {
        let colour = COLOURS[n % COLOURS.len()];
        let dash = if line.is_dashed { " stroke-dasharray=\"6 4\"" } else { "" };
        let places: Vec<(f64, f64)> =
            line.points.iter().map(|(x, y)| (self.at_x(*x), self.at_y(*y))).collect();
        let path: Vec<String> = places.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let _ = writeln!(
            out,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"{dash}/>",
            path.join(" ")
        );
        if !line.is_dashed {
            for (x, y) in places {
                let _ = write!(out, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>");
            }
        }
        let (x, y) = (LEFT + 330.0 * (n % 2) as f64, HEIGHT + 2.0 + 18.0 * (n / 2) as f64);
        let _ = writeln!(
            out,
            "<line x1=\"{x}\" y1=\"{y}\" x2=\"{}\" y2=\"{y}\" stroke=\"{colour}\" stroke-width=\"2\"{dash}/>\
             <text x=\"{}\" y=\"{}\">{}</text>",
            x + 26.0,
            x + 33.0,
            y + 4.0,
            escape(&line.name)
        );
    }

    fn at_x(&self, value: f64) -> f64 {
        LEFT + part(value, self.x_range, true) * (WIDTH - LEFT - RIGHT)
    }

    fn at_y(&self, value: f64) -> f64 {
        HEIGHT - BOTTOM - part(value, self.y_range, self.y_is_log) * (HEIGHT - TOP - BOTTOM)
    }
}

/// How far along the axis a value is; what is outside stays at its end.
fn part(value: f64, (low, high): (f64, f64), is_log: bool) -> f64 {
    let scale = |v: f64| if is_log { v.max(f64::MIN_POSITIVE).ln() } else { v };
    ((scale(value) - scale(low)) / (scale(high) - scale(low))).clamp(0.0, 1.0)
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Marks at the sizes of clusters.
pub fn sizes(sizes: &[u32]) -> Vec<(f64, String)> {
    sizes.iter().map(|&p| (f64::from(p), super::table::whole(p.into()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_has_every_line_and_mark() {
        let picture = Picture {
            name: "p",
            title: "a < b".into(),
            x: "x".into(),
            y: "y".into(),
            x_range: (1.0, 100.0),
            y_range: (0.0, 1.0),
            y_is_log: false,
            x_marks: vec![(10.0, "ten".into())],
            y_marks: vec![(0.5, "half".into())],
            lines: vec![
                Line::new("one", vec![(1.0, 0.0), (100.0, 9.0)]),
                Line::dashed("two", vec![(10.0, 0.5)]),
            ],
        };
        let svg = picture.svg();
        for part in ["a &lt; b", "ten", "half", ">one<", ">two<", "stroke-dasharray"] {
            assert!(svg.contains(part), "{part}");
        }
        assert!(svg.contains("70.0,362.0 696.0,52.0"), "from corner to corner");
    }
}
