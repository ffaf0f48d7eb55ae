//! containerd's configuration as it stands on the machine.

use muster_bootstrap::finding::Finding;
use muster_bootstrap::place::Source;
use muster_bootstrap::verdicts;

use super::Facts;

const CONFIG: &str = "/etc/containerd/config.toml";

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let mut found = Vec::new();
    if let Some(text) = &facts.machine.containerd_config {
        let place = |line| Source::whole(CONFIG).at(line);
        match text.parse::<toml::Table>() {
            Err(error) => {
                let line = error.span().map_or(1, |span| 1 + text[..span.start.min(text.len())].matches('\n').count());
                let stands = text.lines().nth(line - 1).unwrap_or_default().trim();
                let message = format!("containerd's configuration is not TOML: {}", error.message());
                found.push(Finding::new(&verdicts::CR01, &message, Some((place(line), stands))));
            }
            Ok(config) => {
                let version = config.get("version").and_then(toml::Value::as_integer).unwrap_or(1);
                let plugins = config.get("plugins").and_then(toml::Value::as_table);
                let old = plugins.into_iter().flat_map(|it| it.keys()).find(|key| !key.starts_with("io.containerd."));
                if let Some(name) = old.filter(|_| version >= 2) {
                    let message = format!("plugin `{name}` is named as in version 1");
                    found.push(Finding::new(&verdicts::CR01, &message, Some((place(1), name))));
                }
            }
        }
    }
    let is_old = facts.machine.containerd_version.as_ref().is_some_and(|it| it.starts_with("1."));
    if let Some(version) = facts.flags.version.filter(|it| is_old && it.0 >= 36) {
        let text = facts.machine.containerd_version.clone().unwrap_or_default();
        let message = format!("containerd {text} with a kubelet of {version}");
        found.push(Finding::new(
            &verdicts::CR13,
            &message,
            Some((Source::whole("containerd --version").anywhere(), &text)),
        ));
    }
    found
}
