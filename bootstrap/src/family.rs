//! AMI families, and how to tell them from a document.

use std::fmt;
use std::str::FromStr;

use crate::families::al2::bootstrap_call;
use crate::families::cloud_init::commands_of;
use crate::userdata::{Part, PartKind, UserData};
use crate::words::shell::commands;

/// How an image starts and what it needs in its user data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// Amazon Linux 2: bootstrap.sh.
    Al2,
    /// Amazon Linux 2023: nodeadm.
    Al2023,
    /// Settings in TOML.
    Bottlerocket,
    /// Windows Server 2019: Start-EKSBootstrap.ps1.
    Windows2019,
    /// Windows Server 2022.
    Windows2022,
    /// Windows Server 2025.
    Windows2025,
    /// Whatever its owner made of it; user data goes through untouched.
    Custom,
}

impl Family {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Al2,
        Self::Al2023,
        Self::Bottlerocket,
        Self::Windows2019,
        Self::Windows2022,
        Self::Windows2025,
        Self::Custom,
    ];

    /// Its name in manifests and on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Al2 => "AL2",
            Self::Al2023 => "AL2023",
            Self::Bottlerocket => "Bottlerocket",
            Self::Windows2019 => "Windows2019",
            Self::Windows2022 => "Windows2022",
            Self::Windows2025 => "Windows2025",
            Self::Custom => "Custom",
        }
    }

    /// Whether it is a Windows.
    #[must_use]
    pub const fn is_windows(self) -> bool {
        matches!(self, Self::Windows2019 | Self::Windows2022 | Self::Windows2025)
    }

    /// Reads the family off a document: a NodeConfig part is AL2023's, a shell script AL2's, settings in TOML are
    /// Bottlerocket's, `<powershell>` is a Windows (2022, for the tag does not say which).
    #[must_use]
    pub fn detect(user_data: &UserData) -> Self {
        let has = |kind| user_data.of_kind(kind).next().is_some();
        if has(PartKind::NodeConfig) || user_data.text().contains("node.eks.aws/") {
            Self::Al2023
        } else if has(PartKind::Toml) {
            Self::Bottlerocket
        } else if has(PartKind::PowerShell) {
            Self::Windows2022
        } else if has(PartKind::Shell) || user_data.parts.iter().any(calls_bootstrap) {
            Self::Al2
        } else {
            Self::Custom
        }
    }
}

/// Whether cloud-init's configuration, or a script without its first line, calls AL2's bootstrap.
fn calls_bootstrap(part: &Part) -> bool {
    let commands = if part.kind == PartKind::Other { commands(&part.text) } else { commands_of(part) };
    commands.iter().any(|command| bootstrap_call(command).is_some())
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that is no family's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no such AMI family")]
pub struct UnknownFamily;

impl FromStr for Family {
    type Err = UnknownFamily;

    fn from_str(text: &str) -> Result<Self, UnknownFamily> {
        Self::ALL.into_iter().find(|family| family.name().eq_ignore_ascii_case(text)).ok_or(UnknownFamily)
    }
}
