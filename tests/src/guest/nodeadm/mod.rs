//! Stands in for EKS's nodeadm in the image `al2023`: the same two phases, files and messages, as far as the kubelet,
//! containerd and whoever watches them can tell. Written from nodeadm's documented behaviour and independent of Muster's
//! own bootstrap, which it is there to test.
//!
//! ```text
//!   nodeadm init --skip run      user data ─► Config ─► files                  nodeadm-config.service
//!   nodeadm init --skip config   restart containerd, restart kubelet           nodeadm-run.service
//! ```

mod config;
mod kubelet;

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use fs_err as fs;
use serde_json::Value;

use self::config::Config;
use crate::metadata::Metadata;
use crate::say;

/// Nothing but `init` is there.
pub(crate) fn init(words: &[String]) -> Result<()> {
    let mut skip = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "-s" | "--skip" => skip.push(words.next().context("`--skip` needs a phase")?.as_str()),
            other => bail!("unknown flag: {other}"),
        }
    }
    if !skip.contains(&"config") {
        configure()?;
    }
    if !skip.contains(&"run") {
        start()?;
    }
    Ok(())
}

fn configure() -> Result<()> {
    let metadata = Metadata::connect()?;
    let user_data = metadata.find("user-data")?.unwrap_or_default();
    let config = Config::from_user_data(&user_data)?;
    config.check()?;
    let identity: Value = serde_json::from_str(&metadata.text("dynamic/instance-identity/document")?)?;
    let instance = kubelet::Instance {
        id: field(&identity, "instanceId")?,
        zone: field(&identity, "availabilityZone")?,
        region: field(&identity, "region")?,
        address: metadata.text("meta-data/local-ipv4")?,
        host_name: metadata.text("meta-data/local-hostname")?,
        instance_type: field(&identity, "instanceType")?,
    };
    write("/etc/containerd/config.toml", &fs::read_to_string("/etc/eks/containerd/config.toml")?)?;
    kubelet::configure(&config, &instance)
}

fn field(identity: &Value, name: &str) -> Result<String> {
    let value = identity.get(name).and_then(Value::as_str);
    Ok(value.with_context(|| format!("the identity document has no `{name}`"))?.to_owned())
}

fn start() -> Result<()> {
    if !Path::new("/run/cloud-init/result.json").exists() {
        say("nodeadm: cloud-init has not finished. Do not manually call nodeadm from user data");
    }
    write("/run/nodeadm/init", "")?;
    for unit in ["containerd", "kubelet"] {
        let status = Command::new("systemctl").args(["restart", unit]).status()?;
        if !status.success() {
            bail!("{unit} could not be restarted");
        }
    }
    Ok(())
}

/// Writes a file with the folders that it lies in.
pub(super) fn write(path: &str, text: &str) -> Result<()> {
    if let Some(folder) = Path::new(path).parent() {
        fs::create_dir_all(folder)?;
    }
    Ok(fs::write(path, text)?)
}
