//! One instance as its metadata describes it, and what a test changes while it runs.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::proof::RoleCredentials;
use axum::http::Method;
use jiff::{SignedDuration, Timestamp};

/// What EC2 knows of an instance from its launch on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instance {
    /// As `i-0123456789abcdef0`.
    pub instance_id: String,
    /// As `ami-0123456789abcdef0`.
    pub image_id: String,
    /// As `m5.large`.
    pub instance_type: String,
    /// `x86_64` or `arm64`.
    pub architecture: String,
    /// Twelve digits.
    pub account_id: String,
    /// As `us-west-2`.
    pub region: String,
    /// As `us-west-2a`.
    pub zone: String,
    /// As `usw2-az1`.
    pub zone_id: String,
    /// Its private address.
    pub address: Ipv4Addr,
    /// Of its first network interface, lower case with colons.
    pub mac: String,
    /// Its private DNS name.
    pub host_name: String,
    /// As `vpc-0123456789abcdef0`.
    pub vpc_id: String,
    /// As `10.0.0.0/16`.
    pub vpc_cidr: String,
    /// As `subnet-0123456789abcdef0`.
    pub subnet_id: String,
    /// As `10.0.1.0/24`.
    pub subnet_cidr: String,
    /// IDs and names.
    pub security_groups: Vec<(String, String)>,
    /// The role of its instance profile, if it has one.
    pub role: Option<Role>,
    /// Whether it is a spot instance.
    pub spot: bool,
    /// As it was given to EC2, decoded from base64.
    pub user_data: Option<Vec<u8>>,
    /// Its tags, when the launch made them readable in metadata.
    pub tags: Option<BTreeMap<String, String>>,
    /// When it was launched.
    pub pending: Timestamp,
    /// How its metadata may be read.
    pub options: MetadataOptions,
}

/// An IAM role and the credentials that an instance has by it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Role {
    /// As `muster-node`.
    pub name: String,
    /// What metadata gives out.
    pub credentials: RoleCredentials,
    /// Whether the cluster lets its instances in as nodes: it has an access entry.
    pub is_mapped: bool,
}

/// The `MetadataOptions` of a launch template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MetadataOptions {
    /// `HttpEndpoint`: whether there is metadata at all.
    pub enabled: bool,
    /// `HttpTokens: required`: whether IMDSv1 is refused.
    pub tokens_required: bool,
    /// `HttpPutResponseHopLimit`: 1 keeps tokens from pods.
    pub hop_limit: u8,
}

impl Default for MetadataOptions {
    /// What Karpenter's EC2NodeClass defaults to.
    fn default() -> Self {
        Self { enabled: true, tokens_required: true, hop_limit: 1 }
    }
}

impl Instance {
    /// An `m5.large` in us-west-2, without user data or role.
    pub fn new(instance_id: impl Into<String>, address: Ipv4Addr) -> Self {
        let [a, b, c, d] = address.octets();
        Self {
            instance_id: instance_id.into(),
            image_id: "ami-0123456789abcdef0".to_owned(),
            instance_type: "m5.large".to_owned(),
            architecture: "x86_64".to_owned(),
            account_id: "123456789012".to_owned(),
            region: "us-west-2".to_owned(),
            zone: "us-west-2a".to_owned(),
            zone_id: "usw2-az1".to_owned(),
            address,
            mac: format!("06:00:{a:02x}:{b:02x}:{c:02x}:{d:02x}"),
            host_name: format!("ip-{a}-{b}-{c}-{d}.us-west-2.compute.internal"),
            vpc_id: "vpc-0123456789abcdef0".to_owned(),
            vpc_cidr: format!("{a}.{b}.0.0/16"),
            subnet_id: "subnet-0123456789abcdef0".to_owned(),
            subnet_cidr: format!("{a}.{b}.{c}.0/24"),
            security_groups: vec![("sg-0123456789abcdef0".to_owned(), "nodes".to_owned())],
            role: None,
            spot: false,
            user_data: None,
            tags: None,
            pending: Timestamp::UNIX_EPOCH,
            options: MetadataOptions::default(),
        }
    }
}

/// An instance and its present.
#[derive(Debug)]
pub struct Served {
    /// What it was launched as.
    pub instance: Instance,
    now: Mutex<Now>,
}

/// What a test changes.
#[derive(Debug, Clone, Default)]
pub(super) struct Now {
    /// `stop`, `terminate` or `hibernate`, and when.
    pub(super) interruption: Option<(String, Timestamp)>,
    /// When it was noticed.
    pub(super) rebalance: Option<Timestamp>,
    /// Added to the clock in every `Date` header and in the times of credentials.
    pub(super) clock: SignedDuration,
    /// Paths below `/latest/` that are answered with a status and nothing else.
    pub(super) failing: Vec<(String, u16)>,
    /// What was asked, oldest first.
    pub(super) asked: Vec<Asked>,
}

/// A request to the metadata service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// `GET` or `PUT`.
    pub method: String,
    /// As `/latest/meta-data/instance-id`.
    pub path: String,
    /// Where from: the node's address, or a pod's.
    pub from: Ipv4Addr,
    /// How it was answered.
    pub status: u16,
}

impl Served {
    pub(super) fn new(instance: Instance) -> Self {
        Self { instance, now: Mutex::default() }
    }

    /// Sends the two-minute warning of a spot interruption: `spot/instance-action` appears.
    pub fn interrupt(&self, action: &str, at: Timestamp) {
        self.now().interruption = Some((action.to_owned(), at));
    }

    /// Sends a rebalance recommendation.
    pub fn recommend_rebalance(&self, noticed: Timestamp) {
        self.now().rebalance = Some(noticed);
    }

    /// Shifts the clock of the service against the machine's, as a wrong clock of the machine would look.
    pub fn shift_clock(&self, by: SignedDuration) {
        self.now().clock = by;
    }

    /// Answers everything at and below `path` (as `meta-data/iam`, or empty for all) with `status` from now on.
    pub fn fail(&self, path: &str, status: u16) {
        self.now().failing.push((path.to_owned(), status));
    }

    /// Ends all that [`Self::fail`] began.
    pub fn heal(&self) {
        self.now().failing.clear();
    }

    /// What was asked so far, oldest first.
    pub fn asked(&self) -> Vec<Asked> {
        self.now().asked.clone()
    }

    pub(super) fn note(&self, method: &Method, path: &str, from: Ipv4Addr, status: u16) {
        let asked = Asked { method: method.to_string(), path: path.to_owned(), from, status };
        self.now().asked.push(asked);
    }

    pub(super) fn now(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
