//! The kubelet's command line as systemd will pass it: unit, drop-ins and environment files together.

use muster_bootstrap::words::powershell::split_command_line;
use muster_bootstrap::words::unit::{Specifiers, command_line, environment, value_of};

/// The arguments of the kubelet, without the program.
///
/// `unit` is the text of the unit with its drop-ins, as `systemctl cat` prints it; `read` gives the text of a file, if it
/// is there.
///
/// # Errors
/// An environment file is not there (its path), or systemd would refuse the unit.
pub fn kubelet(
    unit: &str,
    read: &dyn Fn(&str) -> Option<String>,
    specifiers: Specifiers<'_>,
) -> Result<Vec<String>, String> {
    let words = command_line(unit, read, specifiers).map_err(|fault| fault.to_string())?;
    Ok(words.into_iter().skip(1).collect())
}

/// Whether the unit gives the kubelet a proxy for HTTPS.
#[must_use]
pub fn has_proxy(unit: &str, read: &dyn Fn(&str) -> Option<String>, specifiers: Specifiers<'_>) -> bool {
    let variables = environment(unit, read, specifiers).unwrap_or_default();
    ["HTTPS_PROXY", "https_proxy"].iter().any(|name| value_of(&variables, name).is_some())
}

/// The arguments of the kubelet in the command line of a Windows service, without the program: EKS runs it by a host of its
/// own, `"…\EKS-WindowsServiceHost.exe" kubelet "…\kubelet.exe" --config=…`.
///
/// # Errors
/// No word of it is a kubelet.
pub fn kubelet_of_service(command_line: &str) -> Result<Vec<String>, String> {
    let words = split_command_line(command_line);
    let is_kubelet = |word: &str| {
        let name = word.rsplit(['\\', '/']).next().unwrap_or_default();
        name.eq_ignore_ascii_case("kubelet.exe")
    };
    let at = words.iter().position(|word| is_kubelet(&word.text));
    let at = at.ok_or_else(|| "the service `kubelet` does not run a kubelet.exe".to_owned())?;
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
    fn a_proxy_is_seen_wherever_it_is_set() {
        let has = |unit: &str| {
            has_proxy(unit, &|path| (path == "/env").then(|| "https_proxy=http://p:3128\n".to_owned()), &unresolved)
        };
        assert!(has("[Service]\nEnvironment=\"HTTPS_PROXY=http://p:3128\"\nExecStart=/k\n"));
        assert!(has("[Service]\nEnvironmentFile=-/env\nExecStart=/k\n"));
        assert!(!has("[Service]\nEnvironment=HTTPS_PROXY= NO_PROXY=a\nExecStart=/k\n"));
        assert!(!has("[Service]\nEnvironment=HTTP_PROXY=http://p:3128\nExecStart=/k\n"));
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
        assert_eq!(kubelet(unit, &|_| None, &unresolved).unwrap_err(), "`/etc/eks/kubelet/environment` is not there");
    }

    #[test]
    fn al2_takes_two_variables_from_drop_ins() {
        let unit = "[Service]\nExecStart=/usr/bin/kubelet --config /etc/k.json \\\n    $KUBELET_ARGS $KUBELET_EXTRA_ARGS\n\
            # /etc/systemd/system/kubelet.service.d/10.conf\n[Service]\nEnvironment='KUBELET_ARGS=--v=2 --node-ip=10.0.0.1'\n\
            [Service]\nEnvironment='KUBELET_EXTRA_ARGS=--node-labels=\"a=b\"'\n";
        let arguments = kubelet(unit, &|_| None, &unresolved).unwrap();
        assert_eq!(arguments, ["--config", "/etc/k.json", "--v=2", "--node-ip=10.0.0.1", "--node-labels=a=b"]);
        assert!(kubelet("[Service]\n", &|_| None, &unresolved).is_err());
    }
}
