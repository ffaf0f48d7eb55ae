//! Launch templates, as a launch needs them.

use std::collections::BTreeMap;

use xmltree::Element;

use super::answer::ApiError;
use super::instances::{LaunchTemplate, MetadataOptions};
use super::parameters::Parameters;
use super::request::Request;
use super::shared::Shared;
use super::xml;

/// A template as a caller names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TemplateReference {
    pub(super) id: Option<String>,
    pub(super) name: Option<String>,
    /// A number, `$Latest`, `$Default`.
    pub(super) version: String,
}

/// A template as it is.
#[derive(Debug, Clone)]
pub(super) struct Template {
    pub(super) named: LaunchTemplate,
    data: Element,
}

impl Template {
    /// Asks moto.
    pub(super) async fn find(shared: &Shared, like: &Request, reference: &TemplateReference) -> Result<Self, ApiError> {
        let mut asked = BTreeMap::from([("LaunchTemplateVersion.1".to_owned(), reference.version.clone())]);
        asked.extend(reference.id.clone().map(|id| ("LaunchTemplateId".to_owned(), id)));
        asked.extend(reference.name.clone().map(|name| ("LaunchTemplateName".to_owned(), name)));
        let root = shared.ask(like, "DescribeLaunchTemplateVersions", asked).await?;
        let missing = || {
            let message = "Could not find the specified version of the launch template";
            ApiError::new(400, "InvalidLaunchTemplateId.VersionNotFound", message)
        };
        let item = xml::items(&root, "launchTemplateVersionSet").next().ok_or_else(missing)?;
        let text = |name| xml::text(item, name).unwrap_or_default();
        let named = LaunchTemplate {
            id: text("launchTemplateId"),
            name: text("launchTemplateName"),
            version: text("versionNumber"),
        };
        let data = item.get_child("launchTemplateData").cloned().ok_or_else(missing)?;
        Ok(Self { named, data })
    }

    pub(super) fn text(&self, path: &str) -> Option<String> {
        xml::text(&self.data, path)
    }

    pub(super) fn tags(&self, resource: &str) -> BTreeMap<String, String> {
        xml::items(&self.data, "tagSpecificationSet")
            .filter(|specification| xml::text(specification, "resourceType").as_deref() == Some(resource))
            .flat_map(xml::tags)
            .collect()
    }

    pub(super) fn metadata(&self) -> MetadataOptions {
        metadata(|name| self.text(&format!("metadataOptions/{name}")))
    }

    /// The subnet of the primary interface.
    pub(super) fn subnet(&self) -> Option<String> {
        self.interface().and_then(|interface| xml::text(interface, "subnetId"))
    }

    /// Name or ARN.
    pub(super) fn instance_profile(&self) -> Option<String> {
        self.text("iamInstanceProfile/arn").or_else(|| self.text("iamInstanceProfile/name"))
    }

    pub(super) fn placement_group(&self) -> Option<String> {
        self.text("placement/groupName").or_else(|| self.text("placement/groupId"))
    }

    /// The capacity reservation that it names.
    pub(super) fn reservation(&self) -> Option<String> {
        self.text("capacityReservationSpecification/capacityReservationTarget/capacityReservationId")
    }

    pub(super) fn takes_open_reservations(&self) -> bool {
        let preference = self.text("capacityReservationSpecification/capacityReservationPreference");
        self.reservation().is_none() && preference.as_deref() != Some("none")
    }

    /// The primary interface as `RunInstances` of moto takes it: it does not look into the template.
    pub(super) fn interface_parameters(&self) -> BTreeMap<String, String> {
        let Some(interface) = self.interface() else { return BTreeMap::new() };
        let of = |name: &str| format!("NetworkInterface.1.{name}");
        let mut parameters = BTreeMap::from([(of("DeviceIndex"), "0".to_owned())]);
        let public = xml::text(interface, "associatePublicIpAddress");
        parameters.extend(public.map(|public| (of("AssociatePublicIpAddress"), public)));
        let groups = xml::at(interface, "groupSet").into_iter().flat_map(|groups| &groups.children);
        let groups = groups.filter_map(|group| group.as_element()?.get_text());
        parameters
            .extend(groups.enumerate().map(|(index, id)| (of(&format!("SecurityGroupId.{}", index + 1)), id.into())));
        parameters
    }

    /// The one with device index 0.
    fn interface(&self) -> Option<&Element> {
        let is_primary = |interface: &&Element| xml::text(interface, "deviceIndex").is_none_or(|index| index == "0");
        xml::items(&self.data, "networkInterfaceSet").find(is_primary)
    }
}

/// EC2's defaults where nothing is said.
pub(super) fn metadata(text: impl Fn(&str) -> Option<String>) -> MetadataOptions {
    MetadataOptions {
        enabled: text("httpEndpoint").as_deref() != Some("disabled"),
        tokens_required: text("httpTokens").as_deref() == Some("required"),
        hop_limit: text("httpPutResponseHopLimit").and_then(|limit| limit.parse().ok()).unwrap_or(1),
        tags: text("instanceMetadataTags").as_deref() == Some("enabled"),
    }
}

impl TemplateReference {
    /// `LaunchTemplate.…` of `RunInstances`.
    pub(super) fn read(parameters: &Parameters) -> Option<Self> {
        let text = |name: &str| parameters.text(&format!("LaunchTemplate.{name}")).map(str::to_owned);
        let (id, name) = (text("LaunchTemplateId"), text("LaunchTemplateName"));
        let version = text("Version").unwrap_or_else(|| "$Default".to_owned());
        (id.is_some() || name.is_some()).then_some(Self { id, name, version })
    }
}
