//! Live clusters as an input of commands. A build without the feature `cluster` answers that it cannot read them.

use k8s_openapi::api::core::v1::ConfigMap;
use muster_manifest::Intake;

use super::failure::Failure;
use super::progress::Progress;
#[cfg(feature = "cluster")]
use crate::watch::{self, Question};

#[cfg(feature = "cluster")]
pub(crate) use crate::watch::Scope;

/// Objects of a live cluster that a command reads.
#[cfg(not(feature = "cluster"))]
#[derive(Debug, Clone, Copy)]
pub(crate) enum Scope {
    All,
    Nodes,
    NodeClasses,
    Templates,
    Selecting,
    Devices,
}

/// Reads the objects of `scope`. Only this needs a runtime.
#[cfg(feature = "cluster")]
pub(crate) fn read(
    context: Option<&str>,
    scope: Scope,
    intake: &mut Intake,
    progress: &mut Progress,
) -> Result<(), Failure> {
    progress.stage("connecting to the cluster");
    let question = Question { context, scope };
    runtime()?.block_on(watch::read_once(question, intake, &mut |stage| progress.stage(stage)))?;
    Ok(())
}

/// Reads the controller's records of nodes that are gone.
#[cfg(feature = "cluster")]
pub(crate) fn read_records(context: Option<&str>, namespace: Option<&str>) -> Result<Vec<ConfigMap>, Failure> {
    Ok(runtime()?.block_on(watch::read_records(context, namespace))?)
}

/// Returns a runtime for the calls of one command.
#[cfg(feature = "cluster")]
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| Failure::Internal(format!("no runtime: {error}")))
}

/// Answers that this build cannot read clusters.
#[cfg(not(feature = "cluster"))]
pub(crate) fn read(_: Option<&str>, _: Scope, _: &mut Intake, _: &mut Progress) -> Result<(), Failure> {
    Err(Failure::left_out("`--cluster`", "cluster"))
}

/// Answers that this build cannot read clusters.
#[cfg(not(feature = "cluster"))]
pub(crate) fn read_records(_: Option<&str>, _: Option<&str>) -> Result<Vec<ConfigMap>, Failure> {
    Err(Failure::left_out("`--cluster`", "cluster"))
}
