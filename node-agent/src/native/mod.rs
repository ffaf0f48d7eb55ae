//! Native bootstrap: writes the files that nodeadm would write for this user data, each atomically, and starts the
//! units.
//!
//! ```text
//!  NodeConfig, Instance ──► render (pure) ──► files ──► write those that differ ──► start or restart units
//! ```

mod render;
mod unsupported;

use std::collections::BTreeSet;
use std::path::Path;

use fs_err as fs;
use muster_bootstrap::finding::Finding;
use muster_bootstrap::place::Source;
use muster_bootstrap::userdata::UserData;
use muster_bootstrap::{BootstrapInput, validate, verdicts};

use crate::preflight::Facts;
use crate::probes::systemd;
use crate::publish::status;

/// Bootstrap of this boot.
#[derive(Debug, Default)]
pub struct Bootstrap {
    has_succeeded: bool,
    /// Files that were replaced and whose units are not restarted yet.
    replaced: BTreeSet<&'static str>,
}

impl Bootstrap {
    /// Runs the bootstrap, unless it has succeeded before.
    ///
    /// # Errors
    /// The fault, as a finding.
    pub async fn run(&mut self, facts: &Facts) -> Result<(), Finding> {
        if !self.has_succeeded {
            bootstrap(facts, &mut self.replaced).await?;
            self.has_succeeded = true;
        }
        Ok(())
    }
}

async fn bootstrap(facts: &Facts, replaced: &mut BTreeSet<&'static str>) -> Result<(), Finding> {
    let fault = |message: &str, text: &str| {
        Finding::new(&verdicts::UD12, message, Some((Source::whole("native bootstrap").anywhere(), text)))
    };
    let instance = facts.metadata.instance().ok_or_else(|| fault("the instance is not known", ""))?;
    let user_data = UserData::read(instance.user_data.as_deref().unwrap_or_default(), "user-data");
    if let Some(field) = unsupported::first(&user_data) {
        let message = format!("the native bootstrap does not do `{field}`");
        return Err(fault(&message, &field).with_fix("remove the field, or let nodeadm run: `mode: delegate`"));
    }
    let input = BootstrapInput {
        user_data: Some(user_data),
        family: facts.family,
        flags: facts.flags.clone(),
        ..BootstrapInput::default()
    };
    let effective = validate(&input).effective;
    let pods = fs::read_to_string("/etc/eks/eni-max-pods.txt").ok();
    let containerd = fs::read_to_string("/etc/eks/containerd/config.toml").ok();
    let machine = render::Machine {
        processors: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        minor: facts.flags.version,
        pods_of_type: pods.as_deref().and_then(|table| render::pods_of_type(table, &instance.instance_type)),
        containerd_template: containerd,
        has_credential_provider: Path::new(render::CREDENTIAL_PROVIDER).exists(),
    };
    let files = render::files(&effective, instance, &machine)
        .map_err(|why| fault("the user data is not enough", &why.to_string()))?;
    for file in files {
        let path = file.path;
        // Disk writes block, so they run outside the async runtime.
        let written = tokio::task::spawn_blocking(move || write(&file)).await.map_err(std::io::Error::other).flatten();
        let is_new = written.map_err(|error| fault(&format!("`{path}` cannot be written"), &error.to_string()))?;
        if is_new {
            replaced.insert(path);
        }
    }
    for (verb, unit) in orders(replaced, facts.is_kubelet_active) {
        if !systemd::order(verb, unit).await {
            return Err(fault(&format!("`{unit}` cannot be started"), ""));
        }
    }
    replaced.clear();
    Ok(())
}

/// Writes a file unless its content is up to date. Returns true if it was written.
fn write(file: &render::File) -> std::io::Result<bool> {
    if fs::read(file.path).is_ok_and(|there| there == file.text.as_bytes()) {
        return Ok(false);
    }
    status::replace(Path::new(file.path), file.text.as_bytes(), file.mode).map(|()| true)
}

/// Returns the commands for the units. Like nodeadm, restarts a running unit with a replaced file. A kubelet that is
/// about to start is not restarted: its start waits for the gate.
fn orders(replaced: &BTreeSet<&str>, is_kubelet_active: bool) -> [(&'static str, &'static str); 2] {
    let has_new_config = replaced.contains(render::CONTAINERD);
    let is_kubelet_old = is_kubelet_active && replaced.iter().any(|path| *path != render::CONTAINERD);
    let verb = |is_old| if is_old { "restart" } else { "start" };
    [(verb(has_new_config), "containerd"), (verb(is_kubelet_old), "kubelet")]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_with_an_old_file_is_started_anew() {
        let told = |replaced: &[&'static str], is_active| {
            orders(&replaced.iter().copied().collect(), is_active).map(|(verb, _)| verb)
        };
        assert_eq!(told(&[], true), ["start", "start"]);
        assert_eq!(told(&[render::CONTAINERD], true), ["restart", "start"]);
        assert_eq!(told(&["/etc/eks/kubelet/environment"], true), ["start", "restart"]);
        assert_eq!(told(&["/etc/eks/kubelet/environment"], false), ["start", "start"]);
    }

    #[test]
    fn a_file_is_written_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/file").to_str().unwrap().to_owned();
        let file = render::File { path: path.leak(), text: "a".to_owned(), mode: 0o600 };
        assert!(write(&file).unwrap());
        assert!(!write(&file).unwrap());
        assert_eq!(fs::read_to_string(file.path).unwrap(), "a");
    }
}
