//! `muster explain`: the state of one pod or node, explained from the plan of `muster plan`.

mod document;
mod managed_nodes;
mod text;

use std::borrow::Cow;
use std::io::Write;

use jiff::Timestamp;
use muster_api::likeness;
use muster_scheduling::disrupt;
use muster_scheduling::explain::{Explainer, PlacedOn};
use muster_scheduling::model::Problem;
use muster_stages::roster;
use serde::Serialize;

use self::document::{Health, NodeExplanation, PodExplanation};
use self::managed_nodes::{ManagedNodeDocument, RemovalDocument};
use super::failure::Failure;
use super::inputs::Inputs;
use super::output::{Format, write_document};
use super::palette::Palette;
use super::plan::{PlanDocument, assess};
use super::progress::Progress;
use super::settings::{ExplainSettings, Subject};

/// Maximum number of similar names in the hint of an unknown name.
const SIMILAR: usize = 3;

/// Prints the explanation that `settings` request.
pub(crate) fn print(
    out: &mut dyn Write,
    settings: &ExplainSettings,
    inputs: &Inputs,
    progress: &mut Progress,
    palette: Palette,
) -> Result<(), Failure> {
    let ExplainSettings { subject, if_removed, now, sources: _, packing, format } = settings;
    let explanation = explain(inputs, &packing.disruption(false), subject, *if_removed, *now, progress)?;
    match (format, &explanation) {
        (Format::Table, Explanation::Pod(pod)) => out.write_all(text::pod(pod, palette).as_bytes())?,
        (Format::Table, Explanation::Node(node)) => out.write_all(text::node(node, palette).as_bytes())?,
        (Format::Data(format), _) => return write_document(out, &explanation, *format),
    }
    Ok(out.write_all(inputs.price_source.line(palette).as_bytes())?)
}

/// Explanation of a pod or a node.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub(crate) enum Explanation {
    /// A pod.
    Pod(Box<PodExplanation>),
    /// A node.
    Node(Box<NodeExplanation>),
}

/// Explains `subject`; `if_removed` adds the effect of removing that node.
///
/// # Errors
/// The object does not exist, or its removal cannot be explained; or [`Failure::InvalidPlan`].
pub(crate) fn explain(
    inputs: &Inputs,
    choices: &disrupt::Settings,
    subject: &Subject,
    if_removed: bool,
    now: Timestamp,
    progress: &mut Progress,
) -> Result<Explanation, Failure> {
    let problem = &inputs.problem;
    let assessment = assess(problem, &choices.options, progress)?;
    let plan = PlanDocument::new(inputs, &assessment);
    let mut explainer = Explainer::new(problem, &choices.options, &assessment.solution);
    match subject {
        Subject::Pod(name) => Ok(Explanation::Pod(Box::new(explain_pod(inputs, &plan, &mut explainer, name)?))),
        Subject::Node(name) => {
            let mut explanation = explain_node(problem, &plan, &explainer, name)?;
            let members = roster::members(&inputs.manifests);
            explanation.health = members.iter().find(|it| *it.name == **name).map(|it| Health::new(it, now));
            if let Some(node) = problem.nodes.iter().position(|node| &*node.name == name) {
                let input = inputs.managed_nodes.disruption_input(problem);
                explanation.managed_nodes = ManagedNodeDocument::new(&input, (now, choices), node, progress)?;
                if if_removed {
                    explanation.if_removed = Some(RemovalDocument::new(&input, (now, choices), node)?);
                }
            } else if if_removed {
                let hint = "`--if-removed` applies to existing nodes only";
                return Err(Failure::Usage(format!("node `{name}` would only be launched\n\nhint: {hint}")));
            }
            Ok(Explanation::Node(Box::new(explanation)))
        }
    }
}

fn explain_pod(
    inputs: &Inputs,
    plan: &PlanDocument,
    explainer: &mut Explainer<'_>,
    name: &str,
) -> Result<PodExplanation, Failure> {
    let problem = &inputs.problem;
    let name = &*full_name(problem, name)?;
    if let Some(pod) = problem.pods.iter().position(|pod| &*pod.name == name) {
        let explanation = match explainer.placed(pod) {
            Some(placement) => PodExplanation::placed(problem, plan, name, &placement),
            None => PodExplanation::unschedulable(plan, name, || explainer.unschedulable(pod)),
        };
        return Ok(explanation.with_remarks(inputs.remarks.on(problem, pod)));
    }
    let bound = problem.nodes.iter().find(|node| node.bound.iter().any(|pod| &*pod.name == name));
    if let Some(node) = bound {
        return Ok(PodExplanation::bound(name, &node.name));
    }
    let remark =
        "pods with scheduling gates, finished and deleted pods, and those of a DaemonSet do not count as pending";
    Err(not_found("pod", name, pod_names(problem), remark))
}

/// Returns the names of all pods of the input, `namespace/name`.
fn pod_names(problem: &Problem) -> impl Iterator<Item = &str> {
    let bound = problem.nodes.iter().flat_map(|node| node.bound.iter().map(|pod| &*pod.name));
    problem.pods.iter().map(|pod| &*pod.name).chain(bound)
}

/// Returns `name` with its namespace. A name alone is that of a pod in the namespace `default`, or else of the only
/// pod of this name.
fn full_name<'n>(problem: &'n Problem, name: &'n str) -> Result<Cow<'n, str>, Failure> {
    if name.contains('/') {
        return Ok(Cow::Borrowed(name));
    }
    let in_default = format!("default/{name}");
    if pod_names(problem).any(|known| known == in_default) {
        return Ok(Cow::Owned(in_default));
    }
    let same: Vec<&str> =
        pod_names(problem).filter(|known| known.split_once('/').is_some_and(|(_, known)| known == name)).collect();
    match same.as_slice() {
        [] => Ok(Cow::Owned(in_default)),
        &[only] => Ok(Cow::Borrowed(only)),
        several => {
            let names: Vec<String> = several.iter().take(SIMILAR).map(|other| format!("`{other}`")).collect();
            Err(Failure::Usage(format!(
                "{} namespaces have a pod `{name}`\n\nhint: write the namespace too, such as {}",
                several.len(),
                names.join(", ")
            )))
        }
    }
}

fn explain_node(
    problem: &Problem,
    plan: &PlanDocument,
    explainer: &Explainer<'_>,
    name: &str,
) -> Result<NodeExplanation, Failure> {
    let new = plan.new_nodes.iter().position(|node| node.name == name).map(PlacedOn::New);
    let existing = || problem.nodes.iter().position(|node| &*node.name == name).map(PlacedOn::Existing);
    let story = new.or_else(existing).and_then(|node| explainer.node(node));
    let Some(story) = story else {
        let planned = plan.new_nodes.iter().map(|node| node.name.as_str());
        let known = planned.chain(problem.nodes.iter().map(|node| &*node.name));
        return Err(not_found("node", name, known, "`muster plan -o json` lists the names of planned nodes"));
    };
    Ok(NodeExplanation::new(problem, plan, name, &story))
}

/// Returns the error for an unknown name, with the most similar ones.
fn not_found<'a>(kind: &str, name: &str, known: impl Iterator<Item = &'a str>, remark: &str) -> Failure {
    let similar = likeness::similar(known, name).into_iter().take(SIMILAR);
    let names: Vec<String> = similar.map(|other| format!("`{other}`")).collect();
    let hint =
        if names.is_empty() { remark.to_owned() } else { format!("did you mean {}? ({remark})", names.join(", ")) };
    Failure::Usage(format!("there is no {kind} `{name}` in the input\n\nhint: {hint}"))
}
