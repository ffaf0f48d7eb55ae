//! What is there: for the picture of a failed test, and for what a test left behind.

use std::collections::BTreeMap;

use xmltree::Element;

use super::request::Request;
use super::{Ec2, REGION, Refused, refused, xml};
use crate::item::Item;
use crate::snapshot;

impl Ec2 {
    /// All instances, ended ones too, in the order of launch: for [`crate::snapshot::Snapshot`].
    pub fn snapshot(&self) -> Vec<snapshot::Instance> {
        let state = self.shared.state();
        let line = |kept: &super::instances::Kept| snapshot::Instance {
            id: kept.instance.id.clone(),
            instance_type: kept.instance.instance_type.clone(),
            zone: kept.instance.zone.clone(),
            state: if kept.ended.is_some() { "terminated" } else { "running" }.to_owned(),
        };
        state.instances.all().map(line).collect()
    }

    /// Instances, launch templates and volumes that exist, each with the values of its tags.
    ///
    /// # Errors
    /// If moto does not answer.
    pub async fn items(&self) -> Result<Vec<Item>, Refused> {
        let marks = |tags: &BTreeMap<String, String>| tags.values().cloned().collect();
        let instance =
            |it: &super::Instance| Item { kind: "instance".to_owned(), name: it.id.clone(), marks: marks(&it.tags) };
        let mut items: Vec<_> = self.shared.state().instances.running().map(instance).collect();
        for (kind, action, set, id) in [
            ("launch template", "DescribeLaunchTemplates", "launchTemplates", "launchTemplateName"),
            ("volume", "DescribeVolumes", "volumeSet", "volumeId"),
        ] {
            let root = self.describe(action).await?;
            let item = |element: &Element| {
                Some(Item { kind: kind.to_owned(), name: xml::text(element, id)?, marks: marks(&xml::tags(element)) })
            };
            items.extend(xml::items(&root, set).filter_map(item));
        }
        Ok(items)
    }

    async fn describe(&self, action: &'static str) -> Result<Element, Refused> {
        let like = Request::unsigned("ec2", REGION, None, &[], Vec::new());
        self.shared.ask(&like, action, BTreeMap::new()).await.map_err(|error| refused(action, error))
    }
}
