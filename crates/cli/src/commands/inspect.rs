//! `qjam inspect`: what a model file says of itself.

use crate::args::Inspect;
use crate::output;
use qjam_algos::models::{self, Contents};
use qjam_algos::options::{Preset, Value};
use qjam_algos::registry::LEARNERS;

/// Runs the command.
pub(crate) fn run(args: &Inspect) -> anyhow::Result<()> {
    let contents = models::inspect(&args.model)?;
    if args.json {
        output::line(whole(&contents).to_string());
        return Ok(());
    }
    let Contents { kind, version, notes, tensors, .. } = &contents;
    output::heading(&format!("{}: a model of kind {kind}, version {version}", args.model.display()));
    let item = |name: &str, text: &str| output::line(format!("  {name:<9} {text}"));
    for (at, (name, dtype, shape)) in tensors.iter().enumerate() {
        let shape: Vec<String> = shape.iter().map(usize::to_string).collect();
        item(if at == 0 { "numbers" } else { "" }, &format!("{name}: {} of {dtype}", shape.join(" x ")));
    }
    if !notes.columns.is_empty() {
        item("columns", &columns(&notes.columns));
    }
    if !notes.fitted.is_empty() {
        item("fitted", &pairs(&notes.fitted));
    }
    if !notes.options.is_empty() {
        item("options", &options(&notes.options));
    }
    Ok(())
}

/// What would have to be typed. Learners call the same thing differently, and the one that has all of these is meant.
fn options(given: &[(String, Value)]) -> String {
    let mut tables = LEARNERS.iter().map(|learner| learner.table());
    let of = tables.find(|table| given.iter().all(|(name, _)| table.option(name).is_some()));
    let typed = |(name, value): &(String, Value)| {
        let option = of.and_then(|table| table.option(name));
        match (option, value) {
            (Some(option), Value::Flag(is_on)) if option.default == Preset::Flag(*is_on) => None,
            (Some(option), Value::Flag(_)) => Some(format!("--{}", option.switch())),
            (Some(option), value) => Some(format!("--{} {value}", option.flag)),
            (None, value) => Some(format!("{name} {value}")),
        }
    };
    given.iter().filter_map(typed).collect::<Vec<_>>().join(", ")
}

fn pairs(pairs: &[(String, Value)]) -> String {
    let pair = |(name, value): &(String, Value)| format!("{} {value}", name.replace('_', " "));
    pairs.iter().map(pair).collect::<Vec<_>>().join(", ")
}

fn columns(names: &[String]) -> String {
    const SHOWN: usize = 12;
    let shown = names.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

fn whole(contents: &Contents) -> serde_json::Value {
    let object = |pairs: &[(String, Value)]| {
        serde_json::Value::Object(pairs.iter().map(|(name, value)| (name.clone(), json(value))).collect())
    };
    let tensors: Vec<_> = contents
        .tensors
        .iter()
        .map(|(name, dtype, shape)| serde_json::json!({ "name": name, "type": dtype, "shape": shape }))
        .collect();
    serde_json::json!({
        "kind": contents.kind,
        "version": contents.version,
        "columns": contents.notes.columns,
        "fitted": object(&contents.notes.fitted),
        "options": object(&contents.notes.options),
        "tensors": tensors,
    })
}

/// A value for programs.
pub(super) fn json(value: &Value) -> serde_json::Value {
    match value {
        Value::Integer(n) => (*n).into(),
        Value::Real(x) => (*x).into(),
        Value::Flag(yes) => (*yes).into(),
        Value::Text(text) => text.clone().into(),
    }
}
