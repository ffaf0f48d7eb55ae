//! The files that are one machine's own, laid over its image: names, the network for pods, what slows its boot.

use std::path::Path;

use serde_json::json;

use super::files::Files;
use super::spec::Spec;
use crate::error::Result;

/// Adds them to `files`, below `seed/`. `pods` is the network that pods get addresses from.
pub(super) fn furnish(spec: &Spec, pods: &str, files: &mut Files) -> Result<()> {
    let etc = Path::new("seed/etc");
    files.put(etc.join("hostname"), &format!("{}\n", spec.host_name))?;
    // Nothing answers DNS here. A kubelet that cannot find its own name waits for the time-out instead.
    files.put(etc.join("hosts"), &format!("127.0.0.1 localhost\n{} {}\n", spec.address, spec.host_name))?;
    files.put(etc.join("resolv.conf"), "")?;
    files.put(etc.join("fstab"), "")?;
    files.put(etc.join("machine-id"), &format!("{}\n", machine_id(&spec.instance_id)))?;
    files.put(etc.join("eks/eni-max-pods.txt"), &format!("{} {}\n", spec.instance_type, spec.shape.max_pods))?;
    if spec.cni {
        files.put(etc.join("cni/net.d/10-world.conflist"), &format!("{:#}\n", network_for(pods)))?;
    }
    if !spec.slow.is_zero() {
        let units = etc.join("systemd/system");
        files.put(units.join("slow-boot.service"), &slow_boot(spec.slow.as_secs_f64()))?;
        files.link(units.join("basic.target.wants/slow-boot.service"), "../slow-boot.service")?;
    }
    Ok(())
}

/// 32 hexadecimal digits that are another machine's too only if it has the same instance ID.
fn machine_id(instance_id: &str) -> String {
    let digits: String =
        instance_id.chars().filter(char::is_ascii_hexdigit).map(|digit| digit.to_ascii_lowercase()).collect();
    format!("ec2{digits:0>29.29}")
}

/// Pods are reached by routes, without translation: see `network.rs`.
fn network_for(pods: &str) -> serde_json::Value {
    json!({
        "cniVersion": "1.0.0",
        "name": "world",
        "plugins": [
            {
                "type": "ptp",
                "ipMasq": false,
                "ipam": {
                    "type": "host-local",
                    "dataDir": "/run/cni",
                    "ranges": [[{"subnet": pods}]],
                    "routes": [{"dst": "0.0.0.0/0"}]
                }
            },
            {"type": "portmap", "capabilities": {"portMappings": true}}
        ]
    })
}

fn slow_boot(seconds: f64) -> String {
    format!(
        "[Unit]\nDescription=A boot that takes its time\nDefaultDependencies=no\nBefore=basic.target\n\n\
         [Service]\nType=oneshot\nExecStart=/bin/sleep {seconds}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_ids_are_valid_and_differ() {
        let one = machine_id("i-0123456789abcdef0");
        assert_eq!(one, "ec20000000000000123456789abcdef0");
        assert_eq!(one.len(), 32);
        assert_ne!(one, machine_id("i-0123456789abcdef1"));
    }
}
