//! What a document comes to, whatever its family: the common ground of the rules.

use crate::kubelet::config::Layer;
use crate::kubelet::taints::Taint;
use crate::place::Place;
use crate::words::letters;
use crate::words::systemd::split_value;

/// Something that the document states, and where.
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
    /// Whether a part of it is known only on the node.
    pub(crate) is_open: bool,
}

/// Settings that reach the kubelet without arguments or a configuration file that anyone sees (Bottlerocket's).
#[derive(Debug, Clone, Default)]
pub(crate) struct Settings {
    pub(crate) taints: Vec<Taint>,
    pub(crate) labels: Vec<(String, String, Place)>,
    pub(crate) max_pods: Option<i64>,
    pub(crate) hostname: Option<Stated>,
}

/// Everything that the rules look at.
#[derive(Debug, Clone, Default)]
pub(crate) struct Facts {
    pub(crate) cluster_name: Option<Stated>,
    pub(crate) endpoint: Option<Stated>,
    pub(crate) certificate_authority: Option<Stated>,
    pub(crate) service_cidr: Option<Stated>,
    /// The arguments that reach the kubelet, as far as the document decides them.
    pub(crate) arguments: Vec<Argument>,
    /// Whether these are all arguments of the kubelet.
    pub(crate) has_all_arguments: bool,
    /// Whether they are those of one machine; user data goes to many.
    pub(crate) is_of_one_machine: bool,
    /// Documents of the kubelet's configuration, in the order in which they are merged.
    pub(crate) layers: Vec<Layer>,
    pub(crate) settings: Option<Settings>,
    /// Taints that the document asks for in a place that does not reach the kubelet.
    pub(crate) lost_taints: Vec<(Taint, Place)>,
    /// `SystemdCgroup` of containerd's configuration.
    pub(crate) systemd_cgroup: Option<(bool, Stated)>,
    /// `version` of containerd's configuration.
    pub(crate) containerd_config_version: Option<(i64, Stated)>,
    /// nodeadm's `maxPodsExpression`.
    pub(crate) max_pods_expression: Option<Stated>,
    /// Whether bootstrap.sh looks the instance type up in the image's table of pods.
    pub(crate) needs_pod_table: bool,
    /// Whether it says anything about the kubelet at all.
    pub(crate) configures_kubelet: bool,
}

impl Facts {
    /// Notes the taints in a text of arguments that does not reach the kubelet.
    pub(crate) fn lose(&mut self, text: &str, place: &Place) {
        for word in split_value(&letters(text)) {
            let Some(value) = word.text.strip_prefix("--register-with-taints=") else { continue };
            let taints = value.split(',').filter_map(|spec| spec.trim_matches(['"', '\'']).parse().ok());
            self.lost_taints.extend(taints.map(|taint| (taint, place.clone())));
        }
    }
}
