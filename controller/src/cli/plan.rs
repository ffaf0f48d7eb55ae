//! `muster plan`: the nodes to launch, their price, and its distance from the proven minimum.

mod assessment;
mod document;
mod shared_list;
mod text;
mod workload;

use std::io::Write;

pub(crate) use self::assessment::{Assessment, assess, timed, violations};
pub(crate) use self::document::{
    ExistingNode, NewNode, PlanDocument, PoolVerdict, RemarkDocument, UnschedulablePod, dollars, existing_nodes,
    new_nodes, pod_names,
};
pub(crate) use self::text::{remark_lines, verdict_lines};
pub(crate) use self::workload::WorkloadCounts;
use super::failure::Failure;
use super::inputs::Inputs;
use super::output::{Format, write_document};
use super::palette::Palette;
use super::progress::Progress;
use super::settings::PlanSettings;

/// Prints the plan for `inputs`. The outer error means that the plan is missing, the inner one is the verdict of
/// `--strict`.
pub(crate) fn print(
    out: &mut dyn Write,
    settings: &PlanSettings,
    inputs: &Inputs,
    progress: &mut Progress,
    palette: Palette,
) -> Result<Result<(), Failure>, Failure> {
    let PlanSettings { sources: _, packing, strict, format } = settings;
    let assessment = assess(&inputs.problem, &packing.options, progress)?;
    let plan = PlanDocument::new(inputs, &assessment);
    match format {
        Format::Table => {
            let fills = text::fills(&inputs.problem, &assessment.solution);
            out.write_all(text::render(&plan, &fills, palette).as_bytes())?;
        }
        Format::Data(format) => write_document(out, &plan, *format)?,
    }
    let left = plan.summary.unschedulable;
    Ok(if *strict && left > 0 {
        let pods = if left == 1 { "pod" } else { "pods" };
        Err(Failure::No(format!("{left} {pods} cannot be scheduled")))
    } else {
        Ok(())
    })
}
