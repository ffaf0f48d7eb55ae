//! The kubelet's command line as systemd will pass it, from the unit, its drop-ins and its environment files.

use muster_bootstrap::words::powershell::split_command_line;
use muster_bootstrap::words::unit::{self, Specifiers, command_line, directives, environment};

use super::proxy::Environment;

/// Reason why the kubelet's arguments are not known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommandFault {
    /// The unit has no command line.
    #[error(transparent)]
    Unit(#[from] unit::CommandFault),
    /// The Windows service runs another program.
    #[error("the service `kubelet` does not run a kubelet.exe")]
    NoKubelet,
}

impl CommandFault {
    /// Returns the path of the file that has to be written first, if that is the reason.
    #[must_use]
    pub fn missing_file(&self) -> Option<&str> {
        match self {
            Self::Unit(unit::CommandFault::Missing(path)) => Some(path),
            Self::Unit(_) | Self::NoKubelet => None,
        }
    }
}

/// Returns the kubelet's arguments, without the program.
///
/// `unit` is the text of the unit with its drop-ins, as `systemctl cat` prints it; `read` returns the text of a file,
/// if it exists.
///
/// # Errors
/// An environment file is missing, or systemd would reject the unit.
pub fn kubelet(
    unit: &str,
    read: &dyn Fn(&str) -> Option<String>,
    specifiers: Specifiers<'_>,
) -> Result<Vec<String>, CommandFault> {
    let words = command_line(unit, read, specifiers)?;
    Ok(words.into_iter().skip(1).collect())
}

/// Returns the kubelet's environment variables: those of systemd itself (`DefaultEnvironment=`, `systemctl
/// set-environment`), given in `manager` as `systemctl show-environment` prints them, overridden by those of the unit.
#[must_use]
pub fn environment_of(
    unit: &str,
    manager: &str,
    read: &dyn Fn(&str) -> Option<String>,
    specifiers: Specifiers<'_>,
) -> Environment {
    let mut variables: Environment = manager.lines().filter_map(shown).collect();
    for unset in directives(unit, "Service", "UnsetEnvironment") {
        for word in unset.split_whitespace().map(|word| word.trim_matches(['"', '\''])) {
            let (name, value) = word.split_once('=').map_or((word, None), |(name, value)| (name, Some(value)));
            variables.retain(|its_name, its_value| its_name != name || value.is_some_and(|value| value != its_value));
        }
    }
    let own = environment(unit, read, specifiers).unwrap_or_default();
    variables.extend(own.into_iter().map(|it| (it.name, it.value.iter().map(|letter| letter.char).collect())));
    variables
}

/// Parses a line of `systemctl show-environment`, which is in shell syntax: `A=b` or `A=$'b c'`.
fn shown(line: &str) -> Option<(String, String)> {
    let (name, value) = line.split_once('=')?;
    let Some(quoted) = value.strip_prefix("$'").and_then(|rest| rest.strip_suffix('\'')) else {
        return Some((name.to_owned(), value.to_owned()));
    };
    let mut text = String::new();
    let mut rest = quoted.chars();
    while let Some(char) = rest.next() {
        text.push(match (char, rest.clone().next()) {
            ('\\', Some(escaped)) => {
                rest.next();
                match escaped {
                    'n' => '\n',
                    't' => '\t',
                    other => other,
                }
            }
            _ => char,
        });
    }
    Some((name.to_owned(), text))
}

/// Returns the kubelet's arguments from the command line of its Windows service, without the program. EKS runs the
/// kubelet in a service host: `"…\EKS-WindowsServiceHost.exe" kubelet "…\kubelet.exe" --config=…`.
///
/// # Errors
/// The command line does not contain a kubelet.
pub fn kubelet_of_service(command_line: &str) -> Result<Vec<String>, CommandFault> {
    let words = split_command_line(command_line);
    let is_kubelet = |word: &str| {
        let name = word.rsplit(['\\', '/']).next().unwrap_or_default();
        name.eq_ignore_ascii_case("kubelet.exe")
    };
    let at = words.iter().position(|word| is_kubelet(&word.text));
    let at = at.ok_or(CommandFault::NoKubelet)?;
    Ok(words.into_iter().skip(at + 1).map(|word| word.text).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_bootstrap::words::unit::unresolved;

    #[test]
    fn a_windows_service_hosts_the_kubelet() {
        let line = r#""C:\Program Files\Amazon\EKS\EKS-WindowsServiceHost.exe" kubelet "C:\Program Files\kubernetes\kubelet.exe" --hostname-override=ip-10-0-0-1.ec2.internal --resolv-conf="" --config="C:\ProgramData\kubernetes\kubelet-config.json" --node-labels="a=b,c=d" --register-with-taints="k:NoExecute""#;
        assert_eq!(
            kubelet_of_service(line).unwrap(),
            [
                "--hostname-override=ip-10-0-0-1.ec2.internal",
                "--resolv-conf=",
                r"--config=C:\ProgramData\kubernetes\kubelet-config.json",
                "--node-labels=a=b,c=d",
                "--register-with-taints=k:NoExecute"
            ]
        );
        assert_eq!(kubelet_of_service(r"C:\k\kubelet.exe --v=2").unwrap(), ["--v=2"]);
        assert!(kubelet_of_service(r"C:\k\other.exe --v=2").is_err());
    }

    #[test]
    fn the_kubelets_environment_is_that_of_systemd_and_of_its_unit() {
        let of = |unit: &str, manager: &str| {
            let read = |path: &str| (path == "/env").then(|| "https_proxy=http://p:3128\n".to_owned());
            let all = environment_of(unit, manager, &read, &unresolved);
            all.into_iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>()
        };
        let manager = "HTTPS_PROXY=http://m:1\nPATH=/usr/bin\nX=$'a b\\'c'\n";
        assert_eq!(of("[Service]\nExecStart=/k\n", manager), ["HTTPS_PROXY=http://m:1", "PATH=/usr/bin", "X=a b'c"]);
        let own = "[Service]\nEnvironment=\"HTTPS_PROXY=http://p:3128\"\nEnvironmentFile=-/env\nExecStart=/k\n";
        assert_eq!(of(own, "HTTPS_PROXY=http://m:1\n"), ["HTTPS_PROXY=http://p:3128", "https_proxy=http://p:3128"]);
        let without = "[Service]\nUnsetEnvironment=HTTPS_PROXY X=other\nExecStart=/k\n";
        assert_eq!(of(without, manager), ["PATH=/usr/bin", "X=a b'c"]);
    }

    #[test]
    fn al2023_takes_one_variable_from_a_file() {
        let unit = "[Service]\nEnvironmentFile=/etc/eks/kubelet/environment\nExecStart=/usr/bin/kubelet $NODEADM_KUBELET_ARGS\n";
        let read = |path: &str| {
            (path == "/etc/eks/kubelet/environment").then(|| {
                "NODEADM_KUBELET_ARGS=--v=2 --node-labels=\"a=b,c=d\" --register-with-taints=\"k:NoExecute\"\n"
                    .to_owned()
            })
        };
        let arguments = kubelet(unit, &read, &unresolved).unwrap();
        assert_eq!(arguments, ["--v=2", "--node-labels=a=b,c=d", "--register-with-taints=k:NoExecute"]);
        let fault = kubelet(unit, &|_| None, &unresolved).unwrap_err();
        assert_eq!(fault.to_string(), "`/etc/eks/kubelet/environment` is not there");
        assert_eq!(fault.missing_file(), Some("/etc/eks/kubelet/environment"));
    }

    #[test]
    fn al2_takes_two_variables_from_drop_ins() {
        let unit = "[Service]\nExecStart=/usr/bin/kubelet --config /etc/k.json \\\n    $KUBELET_ARGS $KUBELET_EXTRA_ARGS\n\
            # /etc/systemd/system/kubelet.service.d/10.conf\n[Service]\nEnvironment='KUBELET_ARGS=--v=2 --node-ip=10.0.0.1'\n\
            [Service]\nEnvironment='KUBELET_EXTRA_ARGS=--node-labels=\"a=b\"'\n";
        let arguments = kubelet(unit, &|_| None, &unresolved).unwrap();
        assert_eq!(arguments, ["--config", "/etc/k.json", "--v=2", "--node-ip=10.0.0.1", "--node-labels=a=b"]);
        assert_eq!(kubelet("[Service]\n", &|_| None, &unresolved).unwrap_err().missing_file(), None);
    }
}
