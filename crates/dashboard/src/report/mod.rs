//! A page about one run.
//!
//! ```text
//!   run file ──▶ Follower ──▶ Summary (JSON, bounded) ──▶ page: template + style + scripts + JSON
//!                                    └──────────────────▶ live page: the same without JSON, which comes over a connection
//! ```
//!
//! The page is one file without links to anything outside. Its scripts draw what the [`Summary`] has; a policy in its head forbids
//! them to load or send anything. Long runs are summed up: see [`columns`].

mod columns;
mod lanes;
mod series;
mod summary;

pub use columns::{Column, Columns};
pub use lanes::{Lane, Lanes};
pub use series::{Point, Series};
pub use summary::Summary;

use qjam::runs::RunError;
use std::path::Path;

const TEMPLATE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const SCRIPTS: [&str; 4] = [
    include_str!("charts.js"),
    include_str!("plots.js"),
    include_str!("workers.js"),
    include_str!("page.js"),
];
const SHOW: &str = include_str!("show.js");
/// What the page of a file may do: run what is in it.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

/// The page of a run file.
pub fn page(path: &Path) -> Result<String, RunError> {
    let summary = Summary::read(path)?;
    Ok(Parts { id: summary.id(), json: &summary.whole(), policy: POLICY, nonce: "", main: SHOW }.render())
}

/// What is put into the template.
pub(crate) struct Parts<'a> {
    /// The name of the run.
    pub(crate) id: &'a str,
    pub(crate) json: &'a str,
    /// What the browser lets the page do.
    pub(crate) policy: &'a str,
    /// An attribute of the page's own styles and scripts.
    pub(crate) nonce: &'a str,
    /// The script that runs when all others are there.
    pub(crate) main: &'a str,
}

impl Parts<'_> {
    pub(crate) fn render(&self) -> String {
        let mut page = String::with_capacity(self.json.len() + 64 * 1024);
        let mut rest = TEMPLATE;
        // One pass over the template: what is put in is not looked at again.
        while let Some((before, after)) = rest.split_once("<!--{") {
            page.push_str(before);
            let (name, after) = after.split_once("}-->").expect("the template closes its placeholders");
            match name {
                "title" => page.push_str(&escaped(&format!("qjam run {}", self.id))),
                "policy" => page.push_str(&escaped(self.policy)),
                "nonce" => page.push_str(self.nonce),
                "style" => page.push_str(STYLE),
                "scripts" => SCRIPTS.iter().chain([&self.main]).for_each(|script| page.push_str(script)),
                "data" => page.push_str(&in_script(self.json)),
                other => unreachable!("the template has no placeholder {other}"),
            }
            rest = after;
        }
        page.push_str(rest);
        page
    }
}

/// Text as HTML shows it.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// JSON that cannot end the script element it stands in. JSON has these characters only inside strings.
fn in_script(json: &str) -> String {
    json.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_run_file_says_can_end_the_script() {
        let hostile = serde_json::to_string("</script><script>alert(1)</script><!--").expect("a string");
        let put = in_script(&hostile);
        assert!(!put.contains('<') && !put.contains('>'));
        let back: String = serde_json::from_str(&put).expect("still JSON");
        assert_eq!(back, "</script><script>alert(1)</script><!--");
    }

    #[test]
    fn the_template_has_each_placeholder() {
        for (name, times) in
            [("title", 1), ("policy", 1), ("style", 1), ("scripts", 1), ("data", 1), ("nonce", 2)]
        {
            assert_eq!(TEMPLATE.matches(&format!("<!--{{{name}}}-->")).count(), times, "{name}");
        }
        assert_eq!(TEMPLATE.matches("<!--{").count(), 7);
    }
}
