//! What is done with a fitted model: look at it, and ask it about rows.

use super::npy;
use crate::args::{Inspect, Predict};
use crate::output;
use anyhow::bail;
use qjam::{DataSet, Dense, Master};
use qjam_algos::clustering::kmeans::Model;
use qjam_algos::kernels::nearest::Real;
use qjam_algos::models;

/// `qjam inspect`.
pub(crate) fn inspect(args: &Inspect) -> anyhow::Result<()> {
    let contents = models::inspect(&args.model)?;
    if args.json {
        let tensors: Vec<_> = contents
            .tensors
            .iter()
            .map(|(name, kind, shape)| serde_json::json!({ "name": name, "type": kind, "shape": shape }))
            .collect();
        let object =
            serde_json::json!({ "kind": contents.kind, "version": contents.version, "tensors": tensors });
        output::line(object.to_string());
        return Ok(());
    }
    output::heading(&format!(
        "{}: a model of kind {}, version {}",
        args.model.display(),
        contents.kind,
        contents.version
    ));
    for (name, kind, shape) in contents.tensors {
        let shape: Vec<String> = shape.iter().map(usize::to_string).collect();
        output::line(format!("  {name}: {} of {kind}", shape.join(" x ")));
    }
    Ok(())
}

/// `qjam predict`.
pub(crate) fn predict(args: &Predict) -> anyhow::Result<()> {
    match models::inspect(&args.model)?.kind.as_str() {
        "kmeans" => {}
        other => bail!("{} has a model of kind {other}, which cannot predict", args.model.display()),
    }
    match npy::is_single(&args.data)? {
        true => predict_of::<f32>(args),
        false => predict_of::<f64>(args),
    }
}

fn predict_of<T: Real>(args: &Predict) -> anyhow::Result<()> {
    let model = Model::<T>::load(&args.model)?;
    let data = DataSet::<Dense<T>>::npy(&args.data)?;
    let labels = model.predict_all(&Master::connect(&args.workers)?, &data)?;
    match &args.out {
        Some(out) => npy::write_labels(out, &labels)?,
        None => labels.iter().for_each(|label| output::line(label.to_string())),
    }
    Ok(())
}
