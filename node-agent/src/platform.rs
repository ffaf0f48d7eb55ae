//! The two platforms that the agent runs on, and the features that one of them lacks.

/// An operating system that the agent supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Platform {
    /// Linux with systemd.
    Linux,
    /// Windows Server.
    Windows,
}

impl Platform {
    /// Platform that this program was built for.
    pub const HERE: Self = if cfg!(windows) { Self::Windows } else { Self::Linux };

    /// Returns the features that the agent does not support on this platform. They are reported, but not as faults.
    #[must_use]
    pub const fn lacks(self) -> &'static [&'static str] {
        match self {
            Self::Linux => &[],
            // Device plugins exist on Windows, but behind a kind of socket that the async runtime cannot open there.
            Self::Windows => &[
                "control groups",
                "swap rules",
                "kernel settings",
                "systemd",
                "the journal",
                "native bootstrap",
                "the PCI bus and device files",
                "device plugins and PodResources",
            ],
        }
    }

    /// Returns the name of the system log.
    #[must_use]
    pub const fn log(self) -> &'static str {
        match self {
            Self::Linux => "journal",
            Self::Windows => "event log",
        }
    }

    /// Returns the name for a system service.
    #[must_use]
    pub const fn service(self) -> &'static str {
        match self {
            Self::Linux => "unit",
            Self::Windows => "service",
        }
    }
}
