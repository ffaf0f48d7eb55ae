//! What is asked: documents, and what they have to lead to.

use std::fmt;
use std::str::FromStr;

use crate::family::Family;
use crate::image::Image;
use crate::kubelet::arguments::FlagSet;
use crate::kubelet::taints::Taint;
use crate::userdata::UserData;

/// A processor architecture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Arch {
    /// x86_64.
    Amd64,
    /// aarch64.
    Arm64,
}

/// A file and what messages call it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// What messages call it.
    pub name: String,
    /// What it holds.
    pub text: String,
}

/// A label that the node must have: any value, or this one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequiredLabel {
    /// Its key.
    pub key: String,
    /// Its value, if it must be this one.
    pub value: Option<String>,
}

/// What is to be judged.
#[derive(Debug, Clone, Default)]
pub struct Question {
    /// User data as the instance gets it.
    pub user_data: Option<UserData>,
    /// The family of the image; read off the user data if absent.
    pub family: Option<Family>,
    /// Whether the user data is what Karpenter and Muster make of an EC2NodeClass.
    pub is_of_node_class: bool,
    /// The flags that the kubelet has.
    pub flags: FlagSet,
    /// The architecture of the instances.
    pub arch: Option<Arch>,
    /// The architecture of a kubelet, and what messages call it.
    pub kubelet_arch: Option<(Arch, String)>,
    /// Taints that must be in effect.
    pub required_taints: Vec<Taint>,
    /// Labels that must be in effect.
    pub required_labels: Vec<RequiredLabel>,
    /// The environment file of kubelet.service, in place of the one that the user data leads to.
    pub environment_file: Option<File>,
    /// The command line of the kubelet on this machine, without the program, and what messages call it: it counts instead
    /// of everything that leads to it.
    pub kubelet_command: Option<(String, Vec<String>)>,
    /// Files of the kubelet's configuration: the file, then drop-ins.
    pub kubelet_config: Vec<File>,
    /// An image under construction.
    pub image: Option<Image>,
    /// The type of the instance, such as `m5.large`.
    pub instance_type: Option<String>,
    /// The version of containerd, such as `2.0.5`.
    pub containerd_version: Option<String>,
    /// What an EC2NodeClass says beside its user data.
    pub class: Option<ClassSettings>,
}

/// Fields of an EC2NodeClass that decide who its nodes are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClassSettings {
    /// `spec.role`.
    pub role: Option<String>,
    /// `spec.instanceProfile`.
    pub instance_profile: Option<String>,
    /// `spec.metadataOptions.httpPutResponseHopLimit`, if it is written down.
    pub hop_limit: Option<i64>,
    /// Whether `spec.metadataOptions.httpEndpoint` is `disabled`.
    pub has_no_metadata: bool,
}

/// A text that is no label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a label")]
pub struct NotALabel;

impl FromStr for RequiredLabel {
    type Err = NotALabel;

    /// Reads `key` or `key=value`.
    fn from_str(text: &str) -> Result<Self, NotALabel> {
        use crate::kubelet::labels::{is_label_key, is_label_value};
        let (key, value) = text.split_once('=').map_or((text, None), |(key, value)| (key, Some(value)));
        let is_label = is_label_key(key) && value.is_none_or(is_label_value);
        is_label.then(|| Self { key: key.to_owned(), value: value.map(ToOwned::to_owned) }).ok_or(NotALabel)
    }
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        })
    }
}

impl FromStr for Arch {
    type Err = UnknownArch;

    fn from_str(text: &str) -> Result<Self, UnknownArch> {
        match text.to_ascii_lowercase().as_str() {
            "amd64" | "x86_64" => Ok(Self::Amd64),
            "arm64" | "aarch64" => Ok(Self::Arm64),
            _ => Err(UnknownArch),
        }
    }
}

/// A name that is no architecture's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no such architecture")]
pub struct UnknownArch;
