//! What to run, in which surroundings.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::{self, ErrorKind};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::{Error, Result};
use crate::ledger::{Ledger, MARKER};

/// A program with its arguments and surroundings. Nothing of our own environment reaches it but `PATH`: no proxy, no
/// `KUBECONFIG` and no AWS profile of whoever runs the tests.
#[derive(Debug, Clone)]
pub struct Program {
    name: String,
    path: PathBuf,
    arguments: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    network: Option<String>,
    folder: Option<PathBuf>,
}

impl Program {
    /// `name` is how the ledger, the log and errors call it; `path` may be a plain name that is looked up in `PATH`.
    pub fn new(name: impl Into<String>, path: impl Into<PathBuf>) -> Self {
        Self {
            name: name.into(),
            path: path.into(),
            arguments: Vec::new(),
            environment: Vec::new(),
            network: None,
            folder: None,
        }
    }

    /// Adds one argument.
    #[must_use]
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.arguments.push(argument.as_ref().to_owned());
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args(mut self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        self.arguments.extend(arguments.into_iter().map(|argument| argument.as_ref().to_owned()));
        self
    }

    /// Adds `--flag=value`, as the servers of Kubernetes take it.
    #[must_use]
    pub fn flag(self, flag: &str, value: impl AsRef<OsStr>) -> Self {
        let mut argument = OsString::from(format!("--{flag}="));
        argument.push(value);
        self.arg(argument)
    }

    /// Sets a variable of its environment.
    #[must_use]
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.environment.push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Runs it in the network namespace of this name, as `ip netns` knows it.
    #[must_use]
    pub fn in_network(mut self, namespace: impl Into<String>) -> Self {
        self.network = Some(namespace.into());
        self
    }

    /// Runs it in this folder.
    #[must_use]
    pub fn in_folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.folder = Some(folder.into());
        self
    }

    /// How the ledger calls it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The command. Both wrappers replace themselves by the program, so its process number is the one that we see.
    pub(super) fn command(&self, ledger: &Ledger) -> Command {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--"]);
        if let Some(namespace) = &self.network {
            command.arg("nsenter").arg(format!("--net=/run/netns/{namespace}")).arg("--");
        }
        command.arg(&self.path).args(&self.arguments).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap_or_else(|| "/usr/sbin:/usr/bin:/sbin:/bin".into()));
        // No client of AWS may go looking for a machine's metadata or a person's credentials.
        command.env("AWS_EC2_METADATA_DISABLED", "true").env("AWS_CONFIG_FILE", "/dev/null");
        command.env("AWS_SHARED_CREDENTIALS_FILE", "/dev/null");
        command.env(MARKER, ledger.folder());
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        if let Some(folder) = &self.folder {
            command.current_dir(folder);
        }
        command.process_group(0);
        command
    }

    /// The error for a program that is not there: the wrappers would say it in their words, in a log.
    pub(super) fn look(&self) -> Result<()> {
        let is_path = self.path.components().count() > 1;
        if !is_path || self.path.is_file() { Ok(()) } else { Err(self.missing()) }
    }

    /// The error for a program that could not be started at all.
    pub(super) fn not_started(&self, error: io::Error) -> Error {
        if error.kind() == ErrorKind::NotFound { self.missing() } else { error.into() }
    }

    fn missing(&self) -> Error {
        Error::Missing {
            what: format!(
                "there is no program `{}`, or no `setpriv` and `nsenter` to start it with",
                self.path.display()
            ),
            hint: "run `tests/setup`, which brings every program that a world needs".to_owned(),
        }
    }

    /// The path of the program.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path.display())?;
        self.arguments.iter().try_for_each(|argument| write!(f, " {}", argument.to_string_lossy()))
    }
}
