//! Facts that a document states, independent of the family. The rules work on them.

use crate::kubelet::config::Layer;
use crate::kubelet::taints::Taint;
use crate::place::Place;
use crate::words::letters;
use crate::words::systemd::split_value;

/// A statement of the document, with its location.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stated {
    pub(crate) text: String,
    pub(crate) place: Place,
}

/// An argument of the kubelet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Argument {
    pub(crate) text: String,
    pub(crate) place: Place,
    /// True if part of it is known only on the node.
    pub(crate) is_open: bool,
}

/// Settings that reach the kubelet without visible arguments or a visible configuration file (Bottlerocket's).
#[derive(Debug, Clone, Default)]
pub(crate) struct Settings {
    pub(crate) taints: Vec<Taint>,
    pub(crate) labels: Vec<(String, String, Place)>,
    pub(crate) max_pods: Option<i64>,
    pub(crate) hostname: Option<Stated>,
}

/// All facts that the rules evaluate.
#[derive(Debug, Clone, Default)]
pub(crate) struct ParsedBootstrap {
    pub(crate) cluster_name: Option<Stated>,
    pub(crate) endpoint: Option<Stated>,
    pub(crate) certificate_authority: Option<Stated>,
    pub(crate) service_cidr: Option<Stated>,
    /// Arguments that reach the kubelet, as far as the document determines them.
    pub(crate) arguments: Vec<Argument>,
    /// True if `arguments` holds all arguments of the kubelet.
    pub(crate) has_all_arguments: bool,
    /// True if the arguments are those of one machine. User data is shared by many machines.
    pub(crate) is_of_one_machine: bool,
    /// Documents of the kubelet's configuration, in merge order.
    pub(crate) layers: Vec<Layer>,
    pub(crate) settings: Option<Settings>,
    /// Taints that the document sets in a place that does not reach the kubelet.
    pub(crate) lost_taints: Vec<(Taint, Place)>,
    /// `SystemdCgroup` of containerd's configuration.
    pub(crate) systemd_cgroup: Option<(bool, Stated)>,
    /// `version` of containerd's configuration.
    pub(crate) containerd_config_version: Option<(i64, Stated)>,
    /// nodeadm's `maxPodsExpression`.
    pub(crate) max_pods_expression: Option<Stated>,
    /// True if bootstrap.sh looks up the instance type in the image's eni-max-pods table.
    pub(crate) needs_pod_table: bool,
    /// True if the document configures the kubelet at all.
    pub(crate) configures_kubelet: bool,
}

impl ParsedBootstrap {
    /// Records the taints in a string of arguments that does not reach the kubelet.
    pub(crate) fn lose(&mut self, text: &str, place: &Place) {
        for word in split_value(&letters(text)) {
            let Some(value) = word.text.strip_prefix("--register-with-taints=") else { continue };
            let taints = value.split(',').filter_map(|spec| spec.trim_matches(['"', '\'']).parse().ok());
            self.lost_taints.extend(taints.map(|taint| (taint, place.clone())));
        }
    }
}
