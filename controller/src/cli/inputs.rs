//! Conversion of files and clusters to the engine's problem: the only use of the readers by the command line.

use std::io::{Write, stdin};
use std::path::PathBuf;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use muster_api::conditions::reason::KUBELET_EXPRESSIONS_DISABLED;
use muster_api::nodeclass::Ec2NodeClass;
use muster_aws::AwsFeatureGates;
use muster_manifest::snapshot::{self, DeviceSettings, ManagedNodes, Remarks, Settings, Snapshot};
use muster_manifest::{self as manifest, DefaultSpread, Intake, Manifests, NodeClass, Owning};
use muster_scheduling::model::Problem;
use serde::Deserialize;

use super::failure::Failure;
use super::input_warnings;
use super::live_cluster::{self, Scope};
use super::palette::Palette;
use super::prices::PriceWords;
use super::printable::plain;
use super::progress::Progress;
use super::settings::{ClusterSource, Packing, Sources};
use super::types::Supply;

/// Input of a command.
#[derive(Debug)]
pub(crate) struct Inputs {
    pub(crate) problem: Problem,
    /// Objects that were read.
    pub(crate) manifests: Manifests,
    /// Data for the disruption of its nodes.
    pub(crate) managed_nodes: ManagedNodes,
    /// Warnings for the authors of its pods.
    pub(crate) remarks: Remarks,
    /// Source of the prices, as text.
    pub(crate) price_source: PriceWords,
}

/// Reads everything that `sources` and `packing` name. `now` is the time to which the age of prices is computed.
pub(crate) fn read(
    sources: &Sources,
    packing: &Packing,
    now: Timestamp,
    progress: &mut Progress,
    palette: Palette,
) -> Result<Inputs, Failure> {
    let Sources { cluster, files, catalogue } = sources;
    let Packing { options: _, gates, aws_gates, gate_warnings, scheduler_config } = packing;
    let catalogue = Supply::open(catalogue, progress)?;
    let mut intake = Intake::default();
    if let Some(ClusterSource { context }) = cluster {
        live_cluster::read(context.as_deref(), Scope::All, &mut intake, progress)?;
    }
    progress.stage("reading manifests");
    intake.files(files, &mut stdin().lock())?;
    let mut manifests = intake.finish();
    // Of a class of the cluster, its controller says whether it is ready.
    let mut refused =
        if cluster.is_none() { refuse_expressions(&mut manifests.node_classes, *aws_gates) } else { Vec::new() };
    if let Some(source) = cluster.as_ref().filter(|_| gates.capacity_buffer && !manifests.capacity_buffers.is_empty()) {
        let templates = read_some(Some(source), Scope::Templates, &[], progress)?;
        // The pods of these workloads have been read.
        manifests.scaled = templates.workloads;
        for (path, template) in templates.pod_templates {
            manifests.pod_templates.entry(path).or_insert(template);
        }
    }
    if let Some(source) = cluster.as_ref().filter(|_| scheduler_config.is_some()) {
        let selecting = read_some(Some(source), Scope::Selecting, &[], progress)?;
        // The pods of these workloads have been read, too.
        manifests.owners = selecting.workloads.iter().filter_map(Owning::of).collect();
        manifests.services.extend(selecting.services);
    }
    let devices = DeviceSettings::of_gates(*aws_gates);
    if let Some(source) = cluster.as_ref().filter(|_| devices.allocates) {
        let read = read_some(Some(source), Scope::Devices, &[], progress)?;
        manifests.device_classes.extend(read.device_classes);
        manifests.resource_claims.extend(read.resource_claims);
        manifests.resource_claim_templates.extend(read.resource_claim_templates);
        manifests.resource_slices.extend(read.resource_slices);
    }
    let default_spread = match scheduler_config {
        Some(file) => manifest::read_scheduler_config(file)?,
        None => DefaultSpread::default(),
    };
    progress.stage("assembling the snapshot");
    let gates = if cluster.is_none() { gates.of_files() } else { *gates };
    let settings = Settings {
        gates,
        default_spread,
        legacy_node_repair: false,
        reboot_for_repair: aws_gates.reboot_for_repair,
        devices,
    };
    let Snapshot { problem, managed_nodes, remarks, mut warnings, .. } =
        snapshot::assemble(&manifests, &settings, &|class: Option<&NodeClass>| catalogue.types(class))?;
    warnings.append(&mut refused);
    warnings.append(&mut input_warnings::warnings(&manifests, &problem, &catalogue));
    warnings.extend_from_slice(gate_warnings);
    warnings.extend_from_slice(catalogue.warnings());
    progress.clear();
    report(&manifests, &warnings, palette);
    let price_source = catalogue.price_source(manifests.node_classes.iter(), now);
    Ok(Inputs { problem, manifests, managed_nodes, remarks, price_source })
}

/// Closes the classes that `muster run` refuses because the gate of their kubelet expressions is off, and returns the
/// warnings about them.
pub(crate) fn refuse_expressions(classes: &mut [NodeClass], gates: AwsFeatureGates) -> Vec<String> {
    let is_refused =
        |class: &&mut NodeClass| !gates.node_class_cel && class.never_ready.is_none() && has_expressions(class);
    let refuse = |class: &mut NodeClass| {
        let reason = format!(
            "{KUBELET_EXPRESSIONS_DISABLED}: spec.kubelet has an expression, and the gate `NodeClassCEL` is off: set \
             `--aws-feature-gates NodeClassCEL=true`"
        );
        let warning = format!("{} `{}` will never become ready: {reason}", class.kind, class.name);
        class.never_ready = Some(reason);
        warning
    };
    classes.iter_mut().filter(is_refused).map(refuse).collect()
}

fn has_expressions(class: &NodeClass) -> bool {
    class.kind == "EC2NodeClass"
        && Ec2NodeClass::deserialize(&class.object).is_ok_and(|typed| typed.spec.has_kubelet_expressions())
}

/// Reads the NodeClasses in `files`, and in the cluster if there is one.
pub(crate) fn read_node_classes(
    cluster: Option<&ClusterSource>,
    files: &[PathBuf],
    progress: &mut Progress,
) -> Result<Vec<NodeClass>, Failure> {
    Ok(read_some(cluster, Scope::NodeClasses, files, progress)?.node_classes)
}

/// Reads Nodes and NodeClaims, and reports unused input on stderr.
pub(crate) fn read_nodes(
    cluster: Option<&ClusterSource>,
    files: &[PathBuf],
    progress: &mut Progress,
    palette: Palette,
) -> Result<Manifests, Failure> {
    let manifests = read_some(cluster, Scope::Nodes, files, progress)?;
    progress.clear();
    report(&manifests, &[], palette);
    Ok(manifests)
}

/// Reads `files`, and the objects of `scope` in the cluster if there is one.
fn read_some(
    cluster: Option<&ClusterSource>,
    scope: Scope,
    files: &[PathBuf],
    progress: &mut Progress,
) -> Result<Manifests, Failure> {
    let mut intake = Intake::default();
    if let Some(ClusterSource { context }) = cluster {
        live_cluster::read(context.as_deref(), scope, &mut intake, progress)?;
    }
    progress.stage("reading manifests");
    intake.files(files, &mut stdin().lock())?;
    Ok(intake.finish())
}

/// Reads Nodes and NodeClaims of a live cluster, and the controller's records of nodes that are gone.
pub(crate) fn read_cluster_with_records(
    cluster: &ClusterSource,
    namespace: Option<&str>,
    progress: &mut Progress,
) -> Result<(Manifests, Vec<ConfigMap>), Failure> {
    let ClusterSource { context } = cluster;
    let manifests = read_some(Some(cluster), Scope::Nodes, &[], progress)?;
    progress.stage("reading the records of nodes");
    let maps = live_cluster::read_records(context.as_deref(), namespace)?;
    Ok((manifests, maps))
}

/// Prints warnings on stderr.
pub(crate) fn warn<'w>(warnings: impl IntoIterator<Item = &'w String>, palette: Palette) {
    let mut stderr = std::io::stderr().lock();
    for warning in warnings {
        // stderr may be closed.
        let _ = writeln!(stderr, "{}: {}", palette.doubtful("warning"), plain(warning));
    }
}

/// Reports on stderr input that was ignored or used in an unexpected way.
pub(crate) fn report(manifests: &Manifests, warnings: &[String], palette: Palette) {
    warn(manifests.warnings.iter().chain(warnings), palette);
    let mut stderr = std::io::stderr().lock();
    for note in manifests.notes() {
        let _ = writeln!(stderr, "{}: {}", palette.faint("note"), plain(&note));
    }
}
