//! Input of a judgement: documents, and the result that they must have.

use std::str::FromStr;

pub use crate::arch::{Arch, UnknownArch};
use crate::family::Family;
use crate::image::Image;
use crate::kubelet::arguments::FlagSet;
use crate::kubelet::taints::Taint;
use crate::userdata::UserData;

/// A file, with its name in messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// Name in messages.
    pub name: String,
    /// Content of the file.
    pub text: String,
}

/// A label that the node must have, with any value or with this one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequiredLabel {
    /// Its key.
    pub key: String,
    /// Required value; `None` accepts any value.
    pub value: Option<String>,
}

/// Documents to judge, and the requirements that they must meet.
#[derive(Debug, Clone, Default)]
pub struct BootstrapInput {
    /// User data as the instance receives it.
    pub user_data: Option<UserData>,
    /// AMI family of the image; detected from the user data if absent.
    pub family: Option<Family>,
    /// True if the user data is the output that Karpenter and Muster generate from an EC2NodeClass.
    pub is_of_node_class: bool,
    /// Flags that the kubelet supports.
    pub flags: FlagSet,
    /// CPU architecture of the instances.
    pub arch: Option<Arch>,
    /// Architecture of a kubelet binary, and its name in messages.
    pub kubelet_arch: Option<(Arch, String)>,
    /// Taints that must be in effect.
    pub required_taints: Vec<Taint>,
    /// Labels that must be in effect.
    pub required_labels: Vec<RequiredLabel>,
    /// Environment file of kubelet.service. It replaces the one that results from the user data.
    pub environment_file: Option<File>,
    /// Command line of the kubelet on this machine: its name in messages, and the arguments without the program. It
    /// replaces all arguments that result from other documents.
    pub kubelet_command: Option<(String, Vec<String>)>,
    /// Files of the kubelet's configuration: the main file, then drop-ins.
    pub kubelet_config: Vec<File>,
    /// Image under construction.
    pub image: Option<Image>,
    /// EC2 instance type, such as `m5.large`.
    pub instance_type: Option<String>,
    /// Version of containerd, such as `2.0.5`.
    pub containerd_version: Option<String>,
    /// Settings of an EC2NodeClass besides its user data.
    pub class: Option<ClassSettings>,
}

/// Fields of an EC2NodeClass that determine the identity of its nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClassSettings {
    /// `spec.role`.
    pub role: Option<String>,
    /// `spec.instanceProfile`.
    pub instance_profile: Option<String>,
    /// `spec.metadataOptions.httpPutResponseHopLimit`, if set explicitly.
    pub hop_limit: Option<i64>,
    /// True if `spec.metadataOptions.httpEndpoint` is `disabled`.
    pub has_no_metadata: bool,
}

/// Error for a text that is not a label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a label")]
pub struct NotALabel;

impl FromStr for RequiredLabel {
    type Err = NotALabel;

    /// Parses `key` or `key=value`.
    fn from_str(text: &str) -> Result<Self, NotALabel> {
        use crate::kubelet::labels::{is_label_key, is_label_value};
        let (key, value) = text.split_once('=').map_or((text, None), |(key, value)| (key, Some(value)));
        let is_label = is_label_key(key) && value.is_none_or(is_label_value);
        is_label.then(|| Self { key: key.to_owned(), value: value.map(ToOwned::to_owned) }).ok_or(NotALabel)
    }
}
