//! AMI families: the properties of a node that depend on its operating system and bootstrap.

use std::fmt;
use std::str::FromStr;

const GIB: i64 = 1 << 30;

/// `spec.amiFamily` of an EC2NodeClass, or the family of its alias.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum AmiFamily {
    /// Amazon Linux 2.
    Al2,
    /// Amazon Linux 2023.
    #[default]
    Al2023,
    /// Bottlerocket.
    Bottlerocket,
    /// Custom image and user data.
    Custom,
    /// Windows Server 2019.
    Windows2019,
    /// Windows Server 2022.
    Windows2022,
    /// Windows Server 2025.
    Windows2025,
}

impl AmiFamily {
    /// All families.
    pub const ALL: [Self; 7] = [
        Self::Al2,
        Self::Al2023,
        Self::Bottlerocket,
        Self::Custom,
        Self::Windows2019,
        Self::Windows2022,
        Self::Windows2025,
    ];

    /// Returns the name in manifests.
    pub fn name(self) -> &'static str {
        match self {
            Self::Al2 => "AL2",
            Self::Al2023 => "AL2023",
            Self::Bottlerocket => "Bottlerocket",
            Self::Custom => "Custom",
            Self::Windows2019 => "Windows2019",
            Self::Windows2022 => "Windows2022",
            Self::Windows2025 => "Windows2025",
        }
    }

    /// Returns the value of `node.kubernetes.io/windows-build`, on Windows.
    pub fn windows_build(self) -> Option<&'static str> {
        match self {
            Self::Windows2019 => Some("10.0.17763"),
            Self::Windows2022 => Some("10.0.20348"),
            Self::Windows2025 => Some("10.0.26100"),
            _ => None,
        }
    }

    /// Returns true if nodes of the family run Windows.
    pub fn is_windows(self) -> bool {
        self.windows_build().is_some()
    }

    /// Returns true if the network interfaces limit the number of pods; otherwise the limit is 110.
    pub(crate) fn limits_pods_by_interfaces(self) -> bool {
        !self.is_windows()
    }

    /// Returns true if memory is reserved for the pods that the interfaces allow instead of the kubelet's `maxPods`.
    pub(crate) fn reserves_memory_by_interfaces(self) -> bool {
        matches!(self, Self::Al2 | Self::Al2023 | Self::Custom)
    }

    /// Returns true if the family passes `podsPerCore` to the kubelet.
    pub(crate) fn honours_pods_per_core(self) -> bool {
        self != Self::Bottlerocket
    }

    /// Returns the device with the ephemeral storage of pods.
    pub(crate) fn ephemeral_device(self) -> Option<&'static str> {
        match self {
            Self::Al2 | Self::Al2023 => Some("/dev/xvda"),
            Self::Bottlerocket => Some("/dev/xvdb"),
            Self::Windows2019 | Self::Windows2022 | Self::Windows2025 => Some("/dev/sda1"),
            Self::Custom => None,
        }
    }

    /// Returns the default size of that device in bytes.
    pub(crate) fn default_volume(self) -> i64 {
        if self.is_windows() { 50 * GIB } else { 20 * GIB }
    }
}

impl fmt::Display for AmiFamily {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A string that is not the name of an AMI family.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown AMI family `{0}`, expected one of AL2, AL2023, Bottlerocket, Custom, Windows2019, Windows2022, Windows2025"
)]
pub struct UnknownFamily(String);

impl FromStr for AmiFamily {
    type Err = UnknownFamily;

    /// Parses the name case-insensitively, as for every option value; the family of an alias (`al2023`) is accepted
    /// too.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|family| family.name().eq_ignore_ascii_case(text));
        found.ok_or_else(|| UnknownFamily(text.to_owned()))
    }
}
