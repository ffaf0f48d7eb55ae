//! Which workloads there are, and how each becomes files.

use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde_json::Value;

use super::dice::Dice;
use super::manifests::List;
use super::{ec2, few_types, synthetic};

/// Kinds of pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Karpenter's own mix: a fifth each of plain pods, zone spread, hostname spread, zone affinity, hostname anti-affinity.
    Diverse,
    /// Karpenter's preferences: a zone, and staying apart by zone and by hostname.
    Preference,
    /// Pods of log-normal sizes without constraints.
    Lognormal,
    /// The same for a pool that asks for nothing: every type of EC2.
    LognormalOpen,
    /// Deployments, half with zone spread, 15 % of them apart by hostname.
    Deployments,
    /// The same without constraints.
    DeploymentsPlain,
    /// Deployments with their constraints, for a pool that asks for nothing.
    DeploymentsOpen,
    /// Three pools, both architectures, GPUs, daemons, taints, hard and soft spread.
    Fleet,
    /// Thousands of workloads of some hundred and fifty sizes on one type.
    FewTypes,
}

/// A kind in a size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Workload {
    pub(crate) kind: Kind,
    pub(crate) pods: usize,
}

/// What a plan is made from.
#[derive(Debug)]
pub(crate) struct Input {
    pub(crate) manifests: PathBuf,
    /// `None`: the embedded catalogue.
    pub(crate) catalogue: Option<PathBuf>,
}

/// What is measured if nothing is asked for: the sizes that Karpenter was measured at, and one beyond its reach.
pub(crate) const USUAL: [Workload; 13] = [
    Workload { kind: Kind::Diverse, pods: 1_000 },
    Workload { kind: Kind::Diverse, pods: 5_000 },
    Workload { kind: Kind::Diverse, pods: 10_000 },
    Workload { kind: Kind::Diverse, pods: 20_000 },
    Workload { kind: Kind::Diverse, pods: 100_000 },
    Workload { kind: Kind::Preference, pods: 4_000 },
    Workload { kind: Kind::Lognormal, pods: 5_000 },
    Workload { kind: Kind::DeploymentsPlain, pods: 10_000 },
    Workload { kind: Kind::Deployments, pods: 10_000 },
    Workload { kind: Kind::Fleet, pods: 10_000 },
    Workload { kind: Kind::LognormalOpen, pods: 5_000 },
    Workload { kind: Kind::DeploymentsOpen, pods: 10_000 },
    Workload { kind: Kind::FewTypes, pods: 70_000 },
];

impl Kind {
    pub(crate) const ALL: [Self; 9] = [
        Self::Diverse,
        Self::Preference,
        Self::Lognormal,
        Self::LognormalOpen,
        Self::DeploymentsPlain,
        Self::Deployments,
        Self::DeploymentsOpen,
        Self::Fleet,
        Self::FewTypes,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Diverse => "diverse",
            Self::Preference => "preference",
            Self::Lognormal => "lognormal",
            Self::LognormalOpen => "lognormal-open",
            Self::Deployments => "deployments",
            Self::DeploymentsOpen => "deployments-open",
            Self::DeploymentsPlain => "deployments-plain",
            Self::Fleet => "fleet",
            Self::FewTypes => "few-types",
        }
    }

    /// Name and content of the catalogue that it runs on; `None`: the embedded one, of EC2.
    fn catalogue(self) -> Option<(&'static str, Value)> {
        match self {
            Self::Diverse | Self::Preference => Some(("fake-400.json", synthetic::catalogue())),
            Self::FewTypes => Some(("pinned.json", few_types::catalogue())),
            _ => None,
        }
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|kind| kind.name().eq_ignore_ascii_case(name));
        found.ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("there is no workload `{name}`\n\nhint: the workloads are {names}, each with or without its size (`diverse-5000`)")
        })
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.kind.name(), self.pods)
    }
}

impl Workload {
    /// Draws the workload and writes it into `folder`.
    pub(crate) fn write(self, folder: &Path, seed: u64) -> io::Result<Input> {
        let manifests = folder.join(format!("{self}.json"));
        let mut list = List::new(BufWriter::new(File::create(&manifests)?))?;
        let mut dice = Dice::new(seed);
        match self.kind {
            Kind::Diverse => synthetic::diverse(&mut list, &mut dice, self.pods)?,
            Kind::Preference => synthetic::preference(&mut list, self.pods)?,
            Kind::Lognormal => ec2::lognormal(&mut list, &mut dice, self.pods, &ec2::general_purpose())?,
            Kind::LognormalOpen => ec2::lognormal(&mut list, &mut dice, self.pods, &ec2::open())?,
            Kind::Deployments => ec2::deployments(&mut list, &mut dice, self.pods, &ec2::general_purpose(), true)?,
            Kind::DeploymentsOpen => ec2::deployments(&mut list, &mut dice, self.pods, &ec2::open(), true)?,
            Kind::DeploymentsPlain => {
                ec2::deployments(&mut list, &mut dice, self.pods, &ec2::general_purpose(), false)?
            }
            Kind::Fleet => ec2::fleet(&mut list, &mut dice, self.pods)?,
            Kind::FewTypes => few_types::few_types(&mut list, &mut dice, self.pods)?,
        }
        list.finish()?;
        let catalogue = self.kind.catalogue().map(|(name, types)| (folder.join(name), types));
        if let Some((path, types)) = &catalogue {
            serde_json::to_writer(BufWriter::new(File::create(path)?), types)?;
        }
        let catalogue = catalogue.map(|(path, _)| path);
        Ok(Input { manifests, catalogue })
    }
}

impl Input {
    /// Makes room: 100,000 pods are 50 MB of text.
    pub(crate) fn remove(self) -> io::Result<()> {
        std::fs::remove_file(self.manifests)
    }
}
