//! gRPC protocols of Muster, as generated code. The code is generated once and checked in, so a build does not need
//! protoc. A test (`tests/generated.rs`) generates it again and compares.
//!
//! ```text
//!  grpc/health/v1          client ──► agent, controller   health; clients are grpcurl, kubelet probes, operators
//!  muster/v1/admission     the kubelet's unit ──► agent   may the kubelet start?
//!  muster/v1/enrolment     agent ──► controller           which node is this? once per boot
//!  muster/v1/node_reports  agent ◄─► controller           state of the node, one stream per node
//!  muster/v1/diagnosis     operator ──► controller        why are this pod and this node in their state?
//!  muster/v1/fleet         operator ──► controller        launch, terminate and list nodes
//!  kubelet/podresources    agent ──► kubelet              which devices can be allocated to pods?
//!  cri/runtime/v1          agent ──► containerd           is this image present?
//! ```
//!
//! `grpc.health.v1` is generated here because `tonic-health` does not implement `List`.

/// `grpc.health.v1`: Check, List, Watch.
#[path = "generated/grpc.health.v1.rs"]
#[allow(missing_docs, unused_qualifications, clippy::allow_attributes_without_reason, clippy::must_use_candidate, clippy::too_many_lines, reason = "written by the generator")]
#[rustfmt::skip]
pub mod health;

pub mod answer;
mod codec;
mod hidden;

/// `muster.v1`: the APIs of the agent's socket and of the controller.
#[path = "generated/muster.v1.rs"]
#[allow(missing_docs, unused_qualifications, clippy::allow_attributes_without_reason, clippy::must_use_candidate, clippy::too_many_lines, reason = "written by the generator")]
#[rustfmt::skip]
pub mod muster;

/// `v1` of the kubelet's PodResources API.
#[path = "generated/v1.rs"]
#[allow(missing_docs, unused_qualifications, clippy::allow_attributes_without_reason, clippy::must_use_candidate, clippy::too_many_lines, reason = "written by the generator")]
#[rustfmt::skip]
pub mod pod_resources;

/// `runtime.v1` of the CRI, limited to the calls that the agent makes.
#[path = "generated/runtime.v1.rs"]
#[allow(missing_docs, unused_qualifications, clippy::allow_attributes_without_reason, clippy::must_use_candidate, clippy::too_many_lines, reason = "written by the generator")]
#[rustfmt::skip]
pub mod container_runtime;

/// Descriptors of the services on the agent's socket, for gRPC reflection.
pub const AGENT_DESCRIPTORS: &[u8] = include_bytes!("generated/agent.bin");

/// Descriptors of the controller's services.
pub const CONTROLLER_DESCRIPTORS: &[u8] = include_bytes!("generated/controller.bin");
