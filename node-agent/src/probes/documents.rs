//! Reads the kubelet's files: command line, configuration and the files that they name.

use fs_err as fs;
use muster_bootstrap::input::File;

use super::machine;
use crate::platform::Platform;
use crate::preflight::command;
use crate::preflight::proxy::Environment;

/// The kubelet's files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Documents {
    /// Name for messages and arguments of the command line, as systemd will pass it; `None` until its files are
    /// written.
    pub command: Option<(String, Vec<String>)>,
    /// Configuration file, then drop-ins.
    pub config: Vec<File>,
    /// Named files that do not exist.
    pub missing: Vec<String>,
    /// Path and text of the kubeconfig.
    pub kubeconfig: Option<(String, String)>,
    /// Environment variables of the kubelet, which its token program inherits.
    pub environment: Environment,
}

/// Reads the files. `unit` is the text of the kubelet's unit with its drop-ins, `manager` the environment of all units.
#[must_use]
pub fn read(unit: Option<&str>, manager: Option<&str>) -> Documents {
    let read = |path: &str| fs::read_to_string(path).ok();
    let mut documents = Documents::default();
    let Some(unit) = unit else { return documents };
    if Platform::HERE == Platform::Linux {
        documents.environment = command::environment_of(unit, manager.unwrap_or_default(), &read, &machine::specifier);
    }
    let arguments = match Platform::HERE {
        Platform::Linux => command::kubelet(unit, &read, &machine::specifier),
        Platform::Windows => command::kubelet_of_service(unit),
    };
    let arguments = match arguments {
        Ok(arguments) => arguments,
        Err(fault) => {
            documents.missing.extend(fault.missing_file().filter(|it| it.starts_with('/')).map(ToOwned::to_owned));
            return documents;
        }
    };
    let value = |name: &str| value_of(&arguments, name);
    let (config, drop_ins, kubeconfig) = (value("config"), value("config-dir"), value("kubeconfig"));
    let mut named: Vec<String> = config.iter().chain(&kubeconfig).cloned().collect();
    if value("bootstrap-kubeconfig").is_some() {
        // The kubelet writes its kubeconfig itself.
        named.retain(|path| Some(path) != kubeconfig.as_ref());
    }
    if let Some(path) = config {
        documents.config.extend(read(&path).map(|text| File { name: path, text }));
    }
    if let Some(folder) = drop_ins {
        let files = machine::texts_in(&folder, ".conf").into_iter();
        documents.config.extend(files.map(|(name, text)| File { name, text }));
    }
    named.extend(named_by_settings(&arguments, &documents.config));
    named.sort();
    named.dedup();
    documents.missing = machine::missing(&named);
    documents.kubeconfig = kubeconfig.and_then(|path| Some((path.clone(), read(&path)?)));
    documents.command = Some(("the kubelet's command line".to_owned(), arguments));
    documents
}

/// Returns the files that the settings in effect name: the flag overrides the configuration, a later document an
/// earlier one.
fn named_by_settings(arguments: &[String], config: &[File]) -> Vec<String> {
    let settings: Vec<serde_json::Value> =
        config.iter().map(|file| serde_saphyr::from_str(&file.text).unwrap_or_default()).collect();
    let in_effect = |(flag, way): (&str, &str)| {
        let text = |document: &serde_json::Value| document.pointer(way)?.as_str().map(ToOwned::to_owned);
        value_of(arguments, flag).or_else(|| settings.iter().rev().find_map(text))
    };
    [("client-ca-file", "/authentication/x509/clientCAFile"), ("resolv-conf", "/resolvConf")]
        .into_iter()
        .filter_map(in_effect)
        .collect()
}

/// Returns the last value of a flag, given as `--name value` or `--name=value`.
pub(super) fn value_of(arguments: &[String], name: &str) -> Option<String> {
    let mut found = None;
    for (index, argument) in arguments.iter().enumerate() {
        let Some(rest) = argument.strip_prefix("--").and_then(|rest| rest.strip_prefix(name)) else { continue };
        match rest.strip_prefix('=') {
            Some(value) => found = Some(value.to_owned()),
            None if rest.is_empty() => found = arguments.get(index + 1).cloned(),
            None => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_found_in_both_forms() {
        let arguments: Vec<String> =
            ["--config", "/a", "--kubeconfig=/b", "--config-dir=/c", "--kubeconfig=/d"].map(ToOwned::to_owned).to_vec();
        assert_eq!(value_of(&arguments, "config").as_deref(), Some("/a"));
        assert_eq!(value_of(&arguments, "kubeconfig").as_deref(), Some("/d"));
        assert_eq!(value_of(&arguments, "config-dir").as_deref(), Some("/c"));
        assert_eq!(value_of(&arguments, "v"), None);
    }

    #[test]
    fn files_are_named_by_the_flag_or_else_by_the_last_document() {
        let file = |text: &str| File { name: "/c".to_owned(), text: text.to_owned() };
        let config = [
            file("authentication: {x509: {clientCAFile: /ca}}\nresolvConf: /first"),
            file("resolvConf: /second"),
            file("maxPods: 5"),
        ];
        let named = |arguments: &[&str], config: &[File]| {
            let arguments: Vec<String> = arguments.iter().map(|it| (*it).to_owned()).collect();
            named_by_settings(&arguments, config)
        };
        let cases: [(&[&str], &[File], &[&str]); 5] = [
            (&[], &config[..1], &["/ca", "/first"]),
            (&[], &config, &["/ca", "/second"]),
            (&["--resolv-conf=/mine"], &config, &["/ca", "/mine"]),
            (&["--client-ca-file", "/other", "--resolv-conf="], &config, &["/other", ""]),
            (&[], &[], &[]),
        ];
        for (arguments, config, files) in cases {
            assert_eq!(named(arguments, config), files, "{arguments:?}");
        }
    }
}
