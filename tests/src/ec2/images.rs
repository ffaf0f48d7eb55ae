//! The public images that EKS and Bottlerocket publish, and where SSM says which one is the newest.
//!
//! Each family has two releases. The older one is out from the start; the newer one, when the test publishes it: then the
//! `recommended` and `latest` parameters name it, `DescribeImages` finds it, and nodes of the old one have drifted.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::json;

use super::digest::hex;

/// Kubernetes versions that have images.
pub const KUBERNETES: [&str; 7] = ["1.31", "1.32", "1.33", "1.34", "1.35", "1.36", "1.37"];

/// Amazon Linux 2 ends with this version.
const LAST_WITH_AL2: &str = "1.32";

/// Which of a family's two releases is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Release {
    Older,
    Newer,
}

#[derive(Debug, Clone)]
pub(super) struct Image {
    pub(super) id: String,
    pub(super) name: String,
    /// `al2023`, `al2`, `bottlerocket`, `windows2022`, …
    pub(super) family: String,
    pub(super) release: Release,
    architecture: &'static str,
    owner: &'static str,
    root_device: &'static str,
    created: &'static str,
    windows: bool,
    /// Where SSM names it as a fixed release.
    pinned: Vec<String>,
    /// Where SSM names it while it is the newest.
    newest: Vec<String>,
    /// `1.33.4-20260801`: what `release_version` and `image_version` say.
    version: String,
}

/// The family of a public image: `al2023`, `al2`, `bottlerocket`, `windows2022`, …
pub fn family_of(image: &str) -> Option<&'static str> {
    ALL.iter().find(|it| it.id == image).map(|it| it.family.as_str())
}

/// What is published so far.
#[derive(Debug, Default)]
pub(in crate::ec2) struct Releases {
    newer: std::collections::BTreeSet<String>,
}

/// Every image, sorted by name.
pub(super) static ALL: LazyLock<Vec<Image>> = LazyLock::new(|| {
    let mut images = KUBERNETES.iter().flat_map(|kubernetes| of_version(kubernetes)).collect::<Vec<_>>();
    images.sort_by(|a, b| a.name.cmp(&b.name));
    images
});

/// As moto loads them (`MOTO_AMIS_PATH`).
pub(super) fn for_moto() -> String {
    let image = |image: &Image| {
        json!({
            "ami_id": image.id,
            "state": "available",
            "public": true,
            "owner_id": image.owner,
            "image_location": format!("amazon/{}", image.name),
            "sriov": "simple",
            "root_device_type": "ebs",
            "root_device_name": image.root_device,
            "description": format!("EKS node image {}", image.version),
            "image_type": "machine",
            "platform": image.windows.then_some("windows"),
            "architecture": image.architecture,
            "name": image.name,
            "virtualization_type": "hvm",
            "hypervisor": "xen",
            "creation_date": image.created,
        })
    };
    ALL.iter().map(image).collect::<serde_json::Value>().to_string()
}

impl Releases {
    /// The newer release of `family` (`al2023`, `bottlerocket`, …) is out.
    pub(super) fn publish(&mut self, family: &str) {
        self.newer.insert(family.to_owned());
    }

    fn is_out(&self, image: &Image) -> bool {
        image.release == Release::Older || self.newer.contains(&image.family)
    }

    /// Images that nobody knows of yet.
    pub(super) fn hides(&self, id: &str) -> bool {
        ALL.iter().any(|image| image.id == id && !self.is_out(image))
    }

    /// All public parameters by name.
    pub(super) fn parameters(&self) -> BTreeMap<String, String> {
        let mut parameters = BTreeMap::new();
        for image in ALL.iter().filter(|image| self.is_out(image)) {
            let newest = image.release == Release::Newer || !self.newer.contains(&image.family);
            let paths = image.pinned.iter().chain(image.newest.iter().filter(|_| newest));
            for path in paths {
                let versioned = if path.contains("/bottlerocket/") { "image_version" } else { "release_version" };
                parameters.insert(format!("{path}/image_id"), image.id.clone());
                if image.windows {
                    continue;
                }
                parameters.insert(format!("{path}/{versioned}"), image.version.clone());
                if !path.contains("/bottlerocket/") {
                    parameters.insert(format!("{path}/image_name"), image.name.clone());
                    let all = json!({
                        "schema_version": "2", "image_id": image.id, "image_name": image.name,
                        "release_version": image.version,
                    });
                    parameters.insert(path.clone(), all.to_string());
                }
            }
        }
        parameters
    }
}

fn of_version(kubernetes: &'static str) -> Vec<Image> {
    let mut images = Vec::new();
    for (release, day, bottlerocket) in [(Release::Older, "20260601", "1.58.0"), (Release::Newer, "20260801", "1.60.0")]
    {
        let eks = |family: &str, architecture, name: String, path: String| {
            let pinned = vec![format!("{path}/{name}")];
            let paths = Paths { pinned, newest: vec![format!("{path}/recommended")] };
            image(family, release, architecture, name, paths, format!("{kubernetes}.4-{day}"))
        };
        for (architecture, variants) in
            [("x86_64", &["standard", "nvidia", "neuron"][..]), ("arm64", &["standard", "nvidia"])]
        {
            for variant in variants {
                let name = format!("amazon-eks-node-al2023-{architecture}-{variant}-{kubernetes}-v{day}");
                let path =
                    format!("/aws/service/eks/optimized-ami/{kubernetes}/amazon-linux-2023/{architecture}/{variant}");
                images.push(eks("al2023", architecture, name, path));
            }
        }
        if kubernetes <= LAST_WITH_AL2 {
            for (suffix, architecture) in [("", "x86_64"), ("-gpu", "x86_64"), ("-arm64", "arm64")] {
                let name = format!("amazon-eks{suffix}-node-{kubernetes}-v{day}");
                let path = format!("/aws/service/eks/optimized-ami/{kubernetes}/amazon-linux-2{suffix}");
                images.push(eks("al2", architecture, name, path));
            }
        }
        for architecture in ["x86_64", "arm64"] {
            for variant in ["", "-nvidia"] {
                let name = format!("bottlerocket-aws-k8s-{kubernetes}{variant}-{architecture}-v{bottlerocket}");
                let path = format!("/aws/service/bottlerocket/aws-k8s-{kubernetes}{variant}/{architecture}");
                let pinned = vec![format!("{path}/{bottlerocket}")];
                let paths = Paths { pinned, newest: vec![format!("{path}/latest")] };
                images.push(image("bottlerocket", release, architecture, name, paths, bottlerocket.to_owned()));
            }
        }
        for year in ["2019", "2022", "2025"] {
            let stem = format!("Windows_Server-{year}-English-Core-EKS_Optimized-{kubernetes}");
            let newest = vec![format!("/aws/service/ami-windows-latest/{stem}")];
            let (family, name) = (format!("windows{year}"), format!("{stem}-{day}"));
            let paths = Paths { pinned: Vec::new(), newest };
            images.push(image(&family, release, "x86_64", name, paths, day.to_owned()));
        }
    }
    images
}

/// The parameters of an image: those that are its own for ever, and those of the newest of its kind.
struct Paths {
    pinned: Vec<String>,
    newest: Vec<String>,
}

fn image(
    family: &str,
    release: Release,
    architecture: &'static str,
    name: String,
    Paths { pinned, newest }: Paths,
    version: String,
) -> Image {
    let windows = family.starts_with("windows");
    // The accounts that publish them in most regions.
    let owner = match family {
        "bottlerocket" => "092701018921",
        _ if windows => "801119661308",
        _ => "602401143452",
    };
    Image {
        id: format!("ami-{}", hex(&name, 17)),
        family: family.to_owned(),
        release,
        architecture,
        owner,
        root_device: if windows { "/dev/sda1" } else { "/dev/xvda" },
        created: match release {
            Release::Older => "2026-06-01T08:00:00.000Z",
            Release::Newer => "2026-08-01T08:00:00.000Z",
        },
        windows,
        pinned,
        newest,
        version,
        name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_published_moves_recommended_and_keeps_what_is_pinned() {
        let standard = "/aws/service/eks/optimized-ami/1.35/amazon-linux-2023/x86_64/standard";
        let older = format!("{standard}/amazon-eks-node-al2023-x86_64-standard-1.35-v20260601/image_id");
        let newer = format!("{standard}/amazon-eks-node-al2023-x86_64-standard-1.35-v20260801/image_id");
        let recommended = format!("{standard}/recommended/image_id");
        let mut releases = Releases::default();
        let before = releases.parameters();
        assert_eq!((before.get(&recommended), before.get(&newer)), (before.get(&older), None));
        releases.publish("al2023");
        let after = releases.parameters();
        assert_eq!(after.get(&recommended), after.get(&newer));
        assert_eq!(after.get(&older), before.get(&older));
        assert!(!releases.hides(&after[&newer]) && releases.parameters().len() > before.len());
    }

    #[test]
    fn no_two_images_share_an_id() {
        let ids = ALL.iter().map(|image| &image.id).collect::<std::collections::BTreeSet<_>>();
        assert_eq!(ids.len(), ALL.len());
    }
}
