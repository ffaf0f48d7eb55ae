//! The protocols that Muster speaks over gRPC, as code. Generated once and checked in: a build needs no protoc, and a
//! test (`tests/generated.rs`) generates it anew and compares.
//!
//! ```text
//!  grpc/health/v1        who asks how a node or a controller is   grpcurl, kubelet probes, operators
//!  muster/v1/admission   the kubelet's unit ──► agent             may the kubelet start?
//!  muster/v1/enrolment   agent ──► controller                     who is this node? once a boot
//!  muster/v1/node_reports  agent ◄─► controller                   how is it? one stream while it lives
//!  muster/v1/diagnosis   operator ──► controller                  why is this pod, this node as it is?
//!  muster/v1/fleet       operator ──► controller                  launch nodes, end one; who is there?
//!  kubelet/podresources  agent ──► kubelet                        which devices may it give to pods?
//!  cri/runtime/v1        agent ──► containerd                     is this image there?
//! ```
//!
//! `grpc.health.v1` is here, and not taken from `tonic-health`, because that has no `List`.

/// `grpc.health.v1`: Check, List, Watch.
#[path = "generated/grpc.health.v1.rs"]
#[allow(missing_docs, unused_qualifications, clippy::allow_attributes_without_reason, clippy::must_use_candidate, reason = "written by the generator")]
#[rustfmt::skip]
pub mod health;

pub mod answer;
mod codec;
mod hidden;

/// `muster.v1`: what the agent answers on its socket, and what it and the controller say to each other.
#[path = "generated/muster.v1.rs"]
#[allow(missing_docs, unused_qualifications, clippy::allow_attributes_without_reason, clippy::must_use_candidate, reason = "written by the generator")]
#[rustfmt::skip]
pub mod muster;

/// `v1` of the kubelet's PodResources.
#[path = "generated/v1.rs"]
#[allow(missing_docs, unused_qualifications, clippy::allow_attributes_without_reason, clippy::must_use_candidate, reason = "written by the generator")]
#[rustfmt::skip]
pub mod pod_resources;

/// `runtime.v1` of container runtimes, as far as the agent asks.
#[path = "generated/runtime.v1.rs"]
#[allow(missing_docs, unused_qualifications, clippy::allow_attributes_without_reason, clippy::must_use_candidate, reason = "written by the generator")]
#[rustfmt::skip]
pub mod container_runtime;

/// The descriptors of what the agent offers on its socket, for gRPC reflection.
pub const AGENT_DESCRIPTORS: &[u8] = include_bytes!("generated/agent.bin");

/// The descriptors of what the controller offers.
pub const CONTROLLER_DESCRIPTORS: &[u8] = include_bytes!("generated/controller.bin");
