//! The agent's own bootstrap: what nodeadm would write for this user data, written once and atomically, and the units
//! started.
//!
//! ```text
//!  NodeConfig, Instance ──► render (pure) ──► files ──► replaced one by one, only those that differ ──► units
//! ```

mod render;
mod unsupported;

use std::path::Path;

use fs_err as fs;
use muster_bootstrap::finding::Finding;
use muster_bootstrap::place::Source;
use muster_bootstrap::userdata::UserData;
use muster_bootstrap::{Question, judge, verdicts};

use crate::preflight::Facts;
use crate::probes::systemd;
use crate::publish::status;

/// The bootstrap of this boot.
#[derive(Debug, Default)]
pub struct Bootstrap {
    outcome: Option<Result<(), Finding>>,
}

impl Bootstrap {
    /// Runs it, unless it has succeeded.
    ///
    /// # Errors
    /// What is wrong, as a finding.
    pub async fn run(&mut self, facts: &Facts) -> Result<(), Finding> {
        if matches!(self.outcome, Some(Ok(()))) {
            return Ok(());
        }
        let outcome = bootstrap(facts).await;
        self.outcome = Some(outcome.clone());
        outcome
    }
}

async fn bootstrap(facts: &Facts) -> Result<(), Finding> {
    let fault = |message: &str, text: &str| {
        Finding::new(&verdicts::UD12, message, Some((Source::whole("native bootstrap").anywhere(), text)))
    };
    let instance = facts.metadata.instance().ok_or_else(|| fault("the instance is not known", ""))?;
    let user_data = UserData::read(instance.user_data.as_deref().unwrap_or_default(), "user-data");
    if let Some(field) = unsupported::first(&user_data) {
        let message = format!("the native bootstrap does not do `{field}`");
        return Err(fault(&message, &field).with_fix("remove the field, or let nodeadm run: `mode: delegate`"));
    }
    let question = Question {
        user_data: Some(user_data),
        family: facts.family,
        flags: facts.flags.clone(),
        ..Question::default()
    };
    let effective = judge(&question).effective;
    let pods = fs::read_to_string("/etc/eks/eni-max-pods.txt").ok();
    let containerd = fs::read_to_string("/etc/eks/containerd/config.toml").ok();
    let machine = render::Machine {
        processors: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        minor: facts.flags.version,
        pods_of_type: pods.as_deref().and_then(|table| render::pods_of_type(table, &instance.instance_type)),
        containerd_template: containerd,
        has_credential_provider: Path::new(render::CREDENTIAL_PROVIDER).exists(),
    };
    let files =
        render::files(&effective, instance, &machine).map_err(|why| fault("the user data is not enough", &why))?;
    let mut has_new_units = false;
    for file in &files {
        if fs::read(file.path).is_ok_and(|there| there == file.text.as_bytes()) {
            continue;
        }
        has_new_units |= file.path.starts_with("/etc/systemd/");
        status::replace(Path::new(file.path), file.text.as_bytes(), file.mode)
            .map_err(|error| fault(&format!("`{}` cannot be written", file.path), &error.to_string()))?;
    }
    if has_new_units && !systemd::reload().await {
        return Err(fault("systemd does not read its units anew", ""));
    }
    for unit in ["containerd", "kubelet"] {
        if !systemd::order("start", unit).await {
            return Err(fault(&format!("`{unit}` cannot be started"), ""));
        }
    }
    Ok(())
}
