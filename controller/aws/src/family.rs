//! AMI families: what of a node's shape depends on its operating system and bootstrap.

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
    /// The user's own image and user data.
    Custom,
    /// Windows Server 2019.
    Windows2019,
    /// Windows Server 2022.
    Windows2022,
    /// Windows Server 2025.
    Windows2025,
}

impl AmiFamily {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Al2,
        Self::Al2023,
        Self::Bottlerocket,
        Self::Custom,
        Self::Windows2019,
        Self::Windows2022,
        Self::Windows2025,
    ];

    /// Its name in manifests.
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

    /// The value of `node.kubernetes.io/windows-build`, on Windows.
    pub fn windows_build(self) -> Option<&'static str> {
        match self {
            Self::Windows2019 => Some("10.0.17763"),
            Self::Windows2022 => Some("10.0.20348"),
            Self::Windows2025 => Some("10.0.26100"),
            _ => None,
        }
    }

    /// Whether its nodes run Windows.
    pub fn is_windows(self) -> bool {
        self.windows_build().is_some()
    }

    /// Whether the number of pods follows from the network interfaces; otherwise it is 110.
    pub(crate) fn limits_pods_by_interfaces(self) -> bool {
        !self.is_windows()
    }

    /// Whether memory is reserved for the pods that the interfaces allow rather than for the pods that kubelet allows.
    pub(crate) fn reserves_memory_by_interfaces(self) -> bool {
        matches!(self, Self::Al2 | Self::Al2023 | Self::Custom)
    }

    /// Whether kubelet is given `podsPerCore`.
    pub(crate) fn honours_pods_per_core(self) -> bool {
        self != Self::Bottlerocket
    }

    /// The device that holds pods' ephemeral storage.
    pub(crate) fn ephemeral_device(self) -> Option<&'static str> {
        match self {
            Self::Al2 | Self::Al2023 => Some("/dev/xvda"),
            Self::Bottlerocket => Some("/dev/xvdb"),
            Self::Windows2019 | Self::Windows2022 | Self::Windows2025 => Some("/dev/sda1"),
            Self::Custom => None,
        }
    }

    /// Size of that device, bytes, when nobody says otherwise.
    pub(crate) fn default_volume(self) -> i64 {
        if self.is_windows() { 50 * GIB } else { 20 * GIB }
    }
}

impl fmt::Display for AmiFamily {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The text names no AMI family.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown AMI family `{0}`, expected one of AL2, AL2023, Bottlerocket, Custom, Windows2019, Windows2022, Windows2025"
)]
pub struct UnknownFamily(String);

impl FromStr for AmiFamily {
    type Err = UnknownFamily;

    /// Case does not matter, as for every value of an option; an alias' family (`al2023`) is understood too.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|family| family.name().eq_ignore_ascii_case(text));
        found.ok_or_else(|| UnknownFamily(text.to_owned()))
    }
}
