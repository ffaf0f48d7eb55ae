//! The two kinds of machines that the agent runs on, and what one of them lacks.

/// A kind of machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Platform {
    /// Linux with systemd.
    Linux,
    /// Windows Server.
    Windows,
}

impl Platform {
    /// The one that this program was built for.
    pub const HERE: Self = if cfg!(windows) { Self::Windows } else { Self::Linux };

    /// What the agent looks at or does elsewhere and cannot here: reported, for it is no fault.
    #[must_use]
    pub const fn lacks(self) -> &'static [&'static str] {
        match self {
            Self::Linux => &[],
            // Device plugins exist on Windows, behind a socket of a kind that the runtime cannot open there.
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

    /// Where services leave their words.
    #[must_use]
    pub const fn log(self) -> &'static str {
        match self {
            Self::Linux => "journal",
            Self::Windows => "event log",
        }
    }

    /// What a service is called.
    #[must_use]
    pub const fn service(self) -> &'static str {
        match self {
            Self::Linux => "unit",
            Self::Windows => "service",
        }
    }
}
