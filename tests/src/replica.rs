//! `muster` itself, as a process of a world.

use std::fs;
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::process::{Program, Running, Spawner};

/// As many lines tell of the last minute.
const LAST_WORDS: usize = 80;

/// A replica of `muster run`. Where a test fails, what it has said last is printed with it.
#[derive(Debug)]
pub struct Replica(Running);

impl Replica {
    /// The program that cargo has built, by the name `name`, for the cluster of `kubeconfig`. Its ports are any.
    ///
    /// # Errors
    /// [`Error::Missing`] when it was not built.
    pub fn program(name: &str, kubeconfig: &Path) -> Result<Program> {
        Ok(Program::new(name, built()?)
            .arg("run")
            .flag("metrics-port", "0")
            .flag("health-probe-port", "0")
            .env("KUBECONFIG", kubeconfig))
    }

    /// Starts it.
    ///
    /// # Errors
    /// As [`Spawner::start`].
    pub fn start(spawner: &Spawner, program: &Program) -> Result<Self> {
        spawner.start(program).map(Self)
    }

    /// What it has said so far.
    pub fn said(&self) -> String {
        fs::read_to_string(self.log()).unwrap_or_default()
    }
}

impl Deref for Replica {
    type Target = Running;

    fn deref(&self) -> &Running {
        &self.0
    }
}

impl DerefMut for Replica {
    fn deref_mut(&mut self) -> &mut Running {
        &mut self.0
    }
}

impl Drop for Replica {
    #[expect(clippy::print_stdout, reason = "beside the panic of the test")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            let said = self.said();
            let lines: Vec<&str> = said.lines().collect();
            let last = &lines[lines.len().saturating_sub(LAST_WORDS)..];
            println!("the last words of `{}`:\n{}", self.name(), last.join("\n"));
        }
    }
}

/// The `muster` that cargo builds, one folder above the programs of tests.
///
/// # Errors
/// [`Error::Missing`] when it was not built.
pub fn built() -> Result<PathBuf> {
    let own = std::env::current_exe()?;
    let given = std::env::var_os("MUSTER_CONTROLLER").map(PathBuf::from);
    let beside = || own.ancestors().skip(1).take(2).map(|folder| folder.join("muster")).find(|it| it.is_file());
    let found = given.or_else(beside);
    found.ok_or_else(|| Error::Missing {
        what: format!("there is no `muster` beside `{}`", own.display()),
        hint: "run `cargo test --workspace`, which builds it with EC2".to_owned(),
    })
}
