//! Machine images: lookup of their IDs, and selection.
//!
//! Source: aws/karpenter-provider-aws, `pkg/providers/amifamily`.

use std::collections::BTreeMap;

use jiff::Timestamp;
use muster_api::nodeclass::{Ami, AmiRequirement, AmiSelectorTerm, Ec2NodeClassSpec};
use muster_api::{Operator, labels};

use super::selectors::Query;
use crate::facts::Architecture;
use crate::family::AmiFamily;

/// A Systems Manager parameter with the ID of an image, and constraints on its nodes.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameter {
    /// Name of the parameter.
    pub name: String,
    /// Constraints on the labels of the nodes, sorted as in the status.
    pub requirements: Vec<AmiRequirement>,
}

/// Error in an alias.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AliasError {
    /// No image exists for the cluster's version.
    #[error("alias `{alias}` has no images for Kubernetes {kubernetes}; {hint}")]
    Unsupported {
        /// The alias.
        alias: String,
        /// Kubernetes version (`1.35`).
        kubernetes: String,
        /// Hint on alternatives.
        hint: &'static str,
    },
    /// The alias is invalid.
    #[error("`{0}` is not an alias: write a family and a version, such as `al2023@latest`")]
    Unknown(String),
}

/// An image as described by EC2.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FoundImage {
    /// ID (`ami-…`).
    pub id: String,
    /// Name of the image.
    pub name: String,
    /// Creation time in the format of EC2: `2026-06-01T08:00:00.000Z`.
    pub created: String,
    /// Time of its deprecation, if any.
    pub deprecated_from: Option<Timestamp>,
    /// `x86_64` or `arm64`; others are ignored.
    pub architecture: String,
}

/// Lookups that a class requires.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Wanted {
    /// Parameters of aliases.
    pub of_alias: Vec<Parameter>,
    /// Parameters named by selector terms.
    pub of_terms: Vec<String>,
    /// DescribeImages queries that do not need a parameter.
    pub queries: Vec<Query>,
}

fn requirement(key: &str, operator: Operator, values: &[&str]) -> AmiRequirement {
    AmiRequirement { key: key.to_owned(), operator, values: values.iter().map(|value| (*value).to_owned()).collect() }
}

/// Sorts by the length of the key, then by key, as in Karpenter.
fn sorted(mut requirements: Vec<AmiRequirement>) -> Vec<AmiRequirement> {
    requirements.sort_by(|a, b| a.key.len().cmp(&b.key.len()).then_with(|| a.key.cmp(&b.key)));
    requirements
}

/// Accelerators that an image has drivers for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Variant {
    Standard,
    Nvidia,
    Neuron,
}

impl Variant {
    fn requirements(self, arch: Architecture) -> Vec<AmiRequirement> {
        let mut all = vec![requirement(labels::ARCH, Operator::In, &[arch.label()])];
        match self {
            Self::Standard => {
                all.push(requirement(labels::INSTANCE_ACCELERATOR_COUNT, Operator::DoesNotExist, &[]));
                all.push(requirement(labels::INSTANCE_GPU_COUNT, Operator::DoesNotExist, &[]));
            }
            Self::Nvidia => all.push(requirement(labels::INSTANCE_GPU_COUNT, Operator::Exists, &[])),
            Self::Neuron => all.push(requirement(labels::INSTANCE_ACCELERATOR_COUNT, Operator::Exists, &[])),
        }
        sorted(all)
    }
}

/// Returns the lookups for a class's selector terms and the cluster's Kubernetes version.
///
/// # Errors
/// If an alias is invalid or has no image.
pub fn wanted(spec: &Ec2NodeClassSpec, kubernetes: &str) -> Result<Wanted, AliasError> {
    let mut wanted = Wanted::default();
    for term in &spec.ami_selector_terms {
        if let Some(alias) = term.selected_alias() {
            wanted.of_alias.extend(parameters(alias, kubernetes)?);
        } else if let Some(parameter) = term.selected_parameter() {
            wanted.of_terms.push(parameter.to_owned());
        } else if term.selected_id().is_none() && term.empty_field().is_none() {
            wanted.queries.push(by_term(term));
        }
    }
    let ids = spec.ami_selector_terms.iter().filter_map(AmiSelectorTerm::selected_id);
    wanted.queries.extend(by_ids(ids.map(str::to_owned).collect()));
    Ok(wanted)
}

/// Returns the query for images by ID; `None` if there are none.
#[must_use]
pub fn by_ids(ids: Vec<String>) -> Option<Query> {
    let ids: Vec<String> = ids.into_iter().filter(|id| id.starts_with("ami-")).collect();
    (!ids.is_empty()).then(|| available(Query::of("image-id", ids)))
}

fn by_term(term: &AmiSelectorTerm) -> Query {
    let mut query = Query::default().with_tags(&term.tags);
    let name = term.selected_name();
    if let Some(name) = name {
        query = query.with("name", name);
    }
    query.owners = match (term.owner.as_ref().filter(|owner| !owner.is_empty()), name) {
        (Some(owner), _) => vec![owner.clone()],
        // Any account may publish an image with any name.
        (None, Some(_)) => vec!["self".to_owned(), "amazon".to_owned()],
        (None, None) => Vec::new(),
    };
    available(query)
}

fn available(query: Query) -> Query {
    query.with("state", "available")
}

/// Returns the parameters of an alias: one for each image that its family publishes for the version.
fn parameters(alias: &str, kubernetes: &str) -> Result<Vec<Parameter>, AliasError> {
    let unknown = || AliasError::Unknown(alias.to_owned());
    let (family, version) = alias.split_once('@').ok_or_else(unknown)?;
    let family = muster_api::nodeclass::AmiFamily::from_alias(family).map(AmiFamily::from).ok_or_else(unknown)?;
    if let Some(hint) = instead_of(family, kubernetes) {
        return Err(AliasError::Unsupported { alias: alias.to_owned(), kubernetes: kubernetes.to_owned(), hint });
    }
    use Architecture::{Amd64, Arm64};
    use Variant::{Neuron, Nvidia, Standard};
    let eks = "/aws/service/eks/optimized-ami";
    let parameter = |name: String, variant: Variant, arch: Architecture| Parameter {
        name,
        requirements: variant.requirements(arch),
    };
    Ok(match family {
        AmiFamily::Al2 => {
            [("", Standard, Amd64), ("-arm64", Standard, Arm64), ("-gpu", Neuron, Amd64), ("-gpu", Nvidia, Amd64)]
                .map(|(suffix, variant, arch)| {
                    let release = match version {
                        "latest" => "recommended".to_owned(),
                        version => format!("amazon-eks{suffix}-node-{kubernetes}-{version}"),
                    };
                    parameter(format!("{eks}/{kubernetes}/amazon-linux-2{suffix}/{release}/image_id"), variant, arch)
                })
                .to_vec()
        }
        AmiFamily::Al2023 => {
            let all = [
                ("x86_64", "standard", Standard, Amd64),
                ("x86_64", "nvidia", Nvidia, Amd64),
                ("x86_64", "neuron", Neuron, Amd64),
                ("arm64", "standard", Standard, Arm64),
                ("arm64", "nvidia", Nvidia, Arm64),
            ];
            all.map(|(of_arch, of_variant, variant, arch)| {
                let release = match version {
                    "latest" => "recommended".to_owned(),
                    version => format!("amazon-eks-node-al2023-{of_arch}-{of_variant}-{kubernetes}-{version}"),
                };
                let name = format!("{eks}/{kubernetes}/amazon-linux-2023/{of_arch}/{of_variant}/{release}/image_id");
                parameter(name, variant, arch)
            })
            .to_vec()
        }
        AmiFamily::Bottlerocket => {
            let version = version.strip_prefix('v').unwrap_or(version);
            let all = [
                ("", "x86_64", Standard, Amd64),
                ("", "x86_64", Neuron, Amd64),
                ("", "arm64", Standard, Arm64),
                ("-nvidia", "x86_64", Nvidia, Amd64),
                ("-nvidia", "arm64", Nvidia, Arm64),
            ];
            all.map(|(suffix, of_arch, variant, arch)| {
                let name =
                    format!("/aws/service/bottlerocket/aws-k8s-{kubernetes}{suffix}/{of_arch}/{version}/image_id");
                parameter(name, variant, arch)
            })
            .to_vec()
        }
        AmiFamily::Windows2019 | AmiFamily::Windows2022 | AmiFamily::Windows2025 => {
            vec![of_windows(family, kubernetes)]
        }
        AmiFamily::Custom => return Err(unknown()),
    })
}

/// Returns a hint on an alternative if the family has no images for the version.
fn instead_of(family: AmiFamily, kubernetes: &str) -> Option<&'static str> {
    match family {
        AmiFamily::Al2 if minor(kubernetes) >= Some(33) => Some("Amazon Linux 2 ends with 1.32, use al2023"),
        AmiFamily::Windows2025 if minor(kubernetes) < Some(35) => {
            Some("Windows Server 2025 begins with 1.35, use windows2022")
        }
        _ => None,
    }
}

/// Returns the parameter of a Windows family, which publishes only its newest image.
fn of_windows(family: AmiFamily, kubernetes: &str) -> Parameter {
    let year = family.name().trim_start_matches("Windows");
    let stem = format!("Windows_Server-{year}-English-Core-EKS_Optimized-{kubernetes}");
    let build = family.windows_build().unwrap_or_default();
    Parameter {
        name: format!("/aws/service/ami-windows-latest/{stem}/image_id"),
        requirements: sorted(vec![
            requirement(labels::ARCH, Operator::In, &[labels::AMD64]),
            requirement(labels::OS, Operator::In, &[labels::WINDOWS]),
            requirement(labels::WINDOWS_BUILD, Operator::In, &[build]),
        ]),
    }
}

fn minor(kubernetes: &str) -> Option<u32> {
    kubernetes.split('.').nth(1)?.parse().ok()
}

/// Selects the images of a class: for each set of requirements the newest image that is not deprecated; newest first.
///
/// `of_alias` has the requirements of images that come from an alias; other images have only their architecture.
#[must_use]
pub fn choose(found: &[FoundImage], of_alias: &BTreeMap<String, Vec<Vec<AmiRequirement>>>, now: Timestamp) -> Vec<Ami> {
    let mut best: BTreeMap<String, (&FoundImage, Vec<AmiRequirement>)> = BTreeMap::new();
    for image in found {
        let arch = match image.architecture.as_str() {
            "x86_64" => Architecture::Amd64,
            "arm64" => Architecture::Arm64,
            _ => continue,
        };
        let plain = || vec![vec![requirement(labels::ARCH, Operator::In, &[arch.label()])]];
        for requirements in of_alias.get(&image.id).cloned().unwrap_or_else(plain) {
            let key = format!("{requirements:?}");
            let rank = |one: &FoundImage| (!is_deprecated(one, now), one.created.clone(), one.name.clone());
            let is_better = best.get(&key).is_none_or(|(there, _)| rank(image) > rank(there));
            if is_better {
                best.insert(key, (image, requirements));
            }
        }
    }
    let mut chosen: Vec<(&FoundImage, Vec<AmiRequirement>)> = best.into_values().collect();
    chosen.sort_by(|(a, of_a), (b, of_b)| {
        let newest = b.created.cmp(&a.created).then_with(|| a.id.cmp(&b.id));
        newest.then_with(|| format!("{of_a:?}").cmp(&format!("{of_b:?}")))
    });
    let ami = |(image, requirements): (&FoundImage, Vec<AmiRequirement>)| Ami {
        id: image.id.clone(),
        name: Some(image.name.clone()).filter(|name| !name.is_empty()),
        deprecated: is_deprecated(image, now),
        requirements,
    };
    chosen.into_iter().map(ami).collect()
}

fn is_deprecated(image: &FoundImage, now: Timestamp) -> bool {
    image.deprecated_from.is_some_and(|from| from <= now)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(alias: &str, kubernetes: &str) -> Vec<String> {
        parameters(alias, kubernetes).unwrap().into_iter().map(|parameter| parameter.name).collect()
    }

    #[test]
    fn aliases_name_karpenters_parameters() {
        let al2023 = "/aws/service/eks/optimized-ami/1.35/amazon-linux-2023";
        assert_eq!(names("al2023@latest", "1.35")[0], format!("{al2023}/x86_64/standard/recommended/image_id"));
        assert_eq!(
            names("al2023@v20260601", "1.35")[4],
            format!("{al2023}/arm64/nvidia/amazon-eks-node-al2023-arm64-nvidia-1.35-v20260601/image_id")
        );
        assert_eq!(
            names("al2@latest", "1.32")[2],
            "/aws/service/eks/optimized-ami/1.32/amazon-linux-2-gpu/recommended/image_id"
        );
        assert_eq!(
            names("bottlerocket@v1.58.0", "1.35")[3],
            "/aws/service/bottlerocket/aws-k8s-1.35-nvidia/x86_64/1.58.0/image_id"
        );
        assert_eq!(
            names("windows2022@latest", "1.35"),
            ["/aws/service/ami-windows-latest/Windows_Server-2022-English-Core-EKS_Optimized-1.35/image_id"]
        );
    }

    #[test]
    fn aliases_end_and_begin_with_versions() {
        let message = |alias, kubernetes| parameters(alias, kubernetes).unwrap_err().to_string();
        assert_eq!(
            message("al2@latest", "1.33"),
            "alias `al2@latest` has no images for Kubernetes 1.33; Amazon Linux 2 ends with 1.32, use al2023"
        );
        assert!(message("windows2025@latest", "1.34").ends_with("use windows2022"));
        assert!(message("ubuntu@latest", "1.34").contains("`al2023@latest`"));
    }

    #[test]
    fn the_newest_that_is_not_deprecated_for_each_set_of_requirements() {
        let image = |id: &str, created: &str, architecture: &str, deprecated: bool| FoundImage {
            id: id.to_owned(),
            name: id.to_owned(),
            created: created.to_owned(),
            deprecated_from: deprecated.then_some(Timestamp::UNIX_EPOCH),
            architecture: architecture.to_owned(),
        };
        let found = [
            image("ami-1", "2026-01", "x86_64", false),
            image("ami-2", "2026-03", "x86_64", true),
            image("ami-3", "2026-02", "x86_64", false),
            image("ami-4", "2026-02", "arm64", true),
            image("ami-5", "2026-09", "x86_64_mac", false),
        ];
        let chosen = choose(&found, &BTreeMap::new(), Timestamp::UNIX_EPOCH);
        let shown: Vec<(&str, bool)> = chosen.iter().map(|ami| (ami.id.as_str(), ami.deprecated)).collect();
        assert_eq!(shown, [("ami-3", false), ("ami-4", true)]);
    }
}
