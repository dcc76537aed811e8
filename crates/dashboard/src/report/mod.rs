//! A page about one run.
//!
//! ```text
//!   run file ──▶ Run, rounds, Story ──▶ Summary (JSON, bounded) ──▶ page: template + style + script + JSON
//! ```
//!
//! The page is one file without links to anything outside. Its script draws what the [`Summary`] has; a policy in its head forbids
//! it to load or send anything. Long runs are summed up: see [`columns`].

mod columns;
mod lanes;
mod series;
mod summary;

pub use summary::Summary;

use qjam::runs::RunError;
use std::path::Path;

const TEMPLATE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const CHARTS: &str = include_str!("charts.js");
const SCRIPT: &str = include_str!("page.js");

/// The page of a run file.
pub fn page(path: &Path) -> Result<String, RunError> {
    Ok(render(&Summary::read(path)?))
}

/// The page of a summary.
pub fn render(summary: &Summary) -> String {
    let json = serde_json::to_string(summary).expect("a summary has only names as keys");
    let title = format!("qjam run {}", summary.id());
    let mut page = String::with_capacity(json.len() + 64 * 1024);
    let mut rest = TEMPLATE;
    // One pass over the template: what is put in is not looked at again.
    while let Some((before, after)) = rest.split_once("<!--{") {
        page.push_str(before);
        let (name, after) = after.split_once("}-->").expect("the template closes its placeholders");
        match name {
            "title" => page.push_str(&escaped(&title)),
            "style" => page.push_str(STYLE),
            "charts" => page.push_str(CHARTS),
            "script" => page.push_str(SCRIPT),
            "data" => page.push_str(&in_script(&json)),
            other => unreachable!("the template has no placeholder {other}"),
        }
        rest = after;
    }
    page.push_str(rest);
    page
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
    fn the_template_has_each_placeholder_once() {
        for name in ["title", "style", "charts", "script", "data"] {
            assert_eq!(TEMPLATE.matches(&format!("<!--{{{name}}}-->")).count(), 1, "{name}");
        }
        assert_eq!(TEMPLATE.matches("<!--{").count(), 5);
    }
}
