//! AMI families, and their detection from a document.

use std::fmt;
use std::str::FromStr;

use crate::script_commands::{bootstrap_call, commands_of};
use crate::userdata::{Part, PartKind, UserData};
use crate::words::shell::commands;

/// An AMI family: it determines the bootstrap program and the format of the user data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// Amazon Linux 2: bootstrap.sh.
    Al2,
    /// Amazon Linux 2023: nodeadm.
    Al2023,
    /// Bottlerocket: settings in TOML.
    Bottlerocket,
    /// Windows Server 2019: Start-EKSBootstrap.ps1.
    Windows2019,
    /// Windows Server 2022.
    Windows2022,
    /// Windows Server 2025.
    Windows2025,
    /// Custom image: its user data is passed on unchanged.
    Custom,
}

impl Family {
    /// All families.
    pub const ALL: [Self; 7] = [
        Self::Al2,
        Self::Al2023,
        Self::Bottlerocket,
        Self::Windows2019,
        Self::Windows2022,
        Self::Windows2025,
        Self::Custom,
    ];

    /// Returns its name in manifests and on the command line.
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

    /// Returns true if the family is Windows.
    #[must_use]
    pub const fn is_windows(self) -> bool {
        matches!(self, Self::Windows2019 | Self::Windows2022 | Self::Windows2025)
    }

    /// Detects the family of a document: a NodeConfig part means AL2023, a shell script AL2, TOML settings
    /// Bottlerocket, `<powershell>` Windows (2022, because the tag does not state the version).
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

/// Returns true if a cloud-config part, or a script without its `#!` line, calls AL2's bootstrap.sh.
fn calls_bootstrap(part: &Part) -> bool {
    let commands = if part.kind == PartKind::Other { commands(&part.text) } else { commands_of(part) };
    commands.iter().any(|command| bootstrap_call(command).is_some())
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Error for a name that is not an AMI family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no such AMI family")]
pub struct UnknownFamily;

impl FromStr for Family {
    type Err = UnknownFamily;

    fn from_str(text: &str) -> Result<Self, UnknownFamily> {
        Self::ALL.into_iter().find(|family| family.name().eq_ignore_ascii_case(text)).ok_or(UnknownFamily)
    }
}
