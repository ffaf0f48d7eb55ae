//! The kubelet's command line as systemd will pass it: unit, drop-ins and environment files together.

use muster_bootstrap::words::systemd::{directives, environment_directive, environment_file, exec_start};

/// The arguments of the kubelet, without the program.
///
/// `unit` is the text of the unit with its drop-ins, as `systemctl cat` prints it; `read` gives the text of a file, if it
/// is there.
///
/// # Errors
/// An environment file is not there (its path), or systemd would refuse the unit.
pub fn kubelet(unit: &str, read: &dyn Fn(&str) -> Option<String>) -> Result<Vec<String>, String> {
    let mut variables = Vec::new();
    for line in directives(unit, "Service", "Environment") {
        variables.extend(environment_directive(&line).unwrap_or_default());
    }
    for path in directives(unit, "Service", "EnvironmentFile") {
        let (path, may_be_absent) = path.strip_prefix('-').map_or((path.as_str(), false), |path| (path, true));
        match read(path) {
            // Files come after `Environment=`, whatever the order of the lines (systemd.exec(5)).
            Some(text) => variables.extend(environment_file(&text)),
            None if may_be_absent => {}
            None => return Err(format!("`{path}` is not there")),
        }
    }
    let commands = directives(unit, "Service", "ExecStart");
    let command = commands.last().ok_or_else(|| "the unit has no ExecStart".to_owned())?;
    let words = exec_start(command, &variables).map_err(|_| format!("systemd refuses `ExecStart={command}`"))?;
    Ok(words.into_iter().skip(1).map(|word| word.text).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn al2023_takes_one_variable_from_a_file() {
        let unit = "[Service]\nEnvironmentFile=/etc/eks/kubelet/environment\nExecStart=/usr/bin/kubelet $NODEADM_KUBELET_ARGS\n";
        let read = |path: &str| {
            (path == "/etc/eks/kubelet/environment").then(|| {
                "NODEADM_KUBELET_ARGS=--v=2 --node-labels=\"a=b,c=d\" --register-with-taints=\"k:NoExecute\"\n"
                    .to_owned()
            })
        };
        let arguments = kubelet(unit, &read).unwrap();
        assert_eq!(arguments, ["--v=2", "--node-labels=a=b,c=d", "--register-with-taints=k:NoExecute"]);
        assert_eq!(kubelet(unit, &|_| None).unwrap_err(), "`/etc/eks/kubelet/environment` is not there");
    }

    #[test]
    fn al2_takes_two_variables_from_drop_ins() {
        let unit = "[Service]\nExecStart=/usr/bin/kubelet --config /etc/k.json \\\n    $KUBELET_ARGS $KUBELET_EXTRA_ARGS\n\
            # /etc/systemd/system/kubelet.service.d/10.conf\n[Service]\nEnvironment='KUBELET_ARGS=--v=2 --node-ip=10.0.0.1'\n\
            [Service]\nEnvironment='KUBELET_EXTRA_ARGS=--node-labels=\"a=b\"'\n";
        let arguments = kubelet(unit, &|_| None).unwrap();
        assert_eq!(arguments, ["--config", "/etc/k.json", "--v=2", "--node-ip=10.0.0.1", "--node-labels=a=b"]);
        assert!(kubelet("[Service]\n", &|_| None).is_err());
    }
}
