//! Labels of the nodes of an instance type.

use std::sync::Arc;

use muster_api::labels::{self, ARCH, INSTANCE_TYPE, LINUX, OS, REGION, WINDOWS, WINDOWS_BUILD};
use muster_scheduling::model::{Operator, Requirement, Requirements};

use crate::class::{ClassSettings, PlacementGroup};
use crate::facts::{Architecture, InstanceTypeFacts};
use crate::intern::Texts;

/// Collects labels with interned keys and values.
pub(crate) struct LabelWriter<'a> {
    texts: &'a mut Texts,
    requirements: Requirements,
}

impl<'a> LabelWriter<'a> {
    pub(crate) fn new(texts: &'a mut Texts) -> Self {
        Self { texts, requirements: Requirements::new() }
    }

    pub(crate) fn one(&mut self, key: &str, value: &str) {
        let value = self.texts.get(value);
        self.many(key, [value]);
    }

    fn number(&mut self, key: &str, value: u64) {
        self.one(key, &value.to_string());
    }

    /// Adds a label with one of `values`; without values the label must not exist.
    pub(crate) fn many(&mut self, key: &str, values: impl IntoIterator<Item = Arc<str>>) {
        let key = self.texts.get(key);
        self.requirements.add(key, Requirement::new(Operator::In, values));
    }

    pub(crate) fn absent(&mut self, key: &str) {
        let key = self.texts.get(key);
        self.requirements.add(key, Requirement::none());
    }

    fn maybe(&mut self, key: &str, value: Option<&str>) {
        match value {
            Some(value) => self.one(key, value),
            None => self.absent(key),
        }
    }

    fn maybe_number(&mut self, key: &str, value: Option<u64>) {
        match value {
            Some(value) => self.number(key, value),
            None => self.absent(key),
        }
    }

    pub(crate) fn finish(self) -> Requirements {
        self.requirements
    }
}

/// Adds all labels except those that follow from the offerings (zone, capacity type, reservation).
pub(crate) fn of_type(labels: &mut LabelWriter<'_>, facts: &InstanceTypeFacts, class: &ClassSettings, region: &str) {
    labels.one(INSTANCE_TYPE, &facts.name);
    labels.one(REGION, region);
    labels.one(ARCH, facts.architecture.label());
    match (class.ami_family.is_windows(), facts.architecture) {
        (false, _) => labels.one(OS, LINUX),
        (true, Architecture::Amd64) => labels.one(OS, WINDOWS),
        // Windows has no image for arm64, so such a node cannot be requested.
        (true, Architecture::Arm64) => labels.absent(OS),
    }
    labels.maybe(WINDOWS_BUILD, class.ami_family.windows_build());

    name_parts(labels, &facts.name);
    hardware(labels, facts);
    accelerators(labels, facts);

    let tenancies = ["default", "dedicated"].map(|tenancy| labels.texts.get(tenancy));
    labels.many(labels::INSTANCE_TENANCY, tenancies);
    placement(labels, class);
}

fn name_parts(labels: &mut LabelWriter<'_>, name: &str) {
    let (family, size) = match name.split_once('.') {
        Some((family, size)) if !size.contains('.') => (Some(family), Some(size)),
        _ => (None, None),
    };
    let generation = family.and_then(category_and_generation);
    labels.maybe(labels::INSTANCE_CATEGORY, generation.map(|(category, _)| category));
    labels.maybe(labels::INSTANCE_GENERATION, generation.map(|(_, generation)| generation));
    labels.maybe(labels::INSTANCE_FAMILY, family);
    labels.maybe(labels::INSTANCE_SIZE, size);
    labels.one(
        labels::INSTANCE_CAPABILITY_FLEX,
        if family.is_some_and(|family| family.contains("-flex")) { "true" } else { "false" },
    );
}

/// Returns the leading letters and the number after them: `im` and `4` for `im4gn`, `u` and `1` for `u-6tb1` (the
/// memory size between them is skipped).
fn category_and_generation(family: &str) -> Option<(&str, &str)> {
    let letters = family.find(|c: char| !c.is_ascii_lowercase())?;
    let (category, rest) = family.split_at(letters);
    let rest = rest.strip_prefix('-').and_then(skip_terabytes).unwrap_or(rest);
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    (!category.is_empty() && digits > 0).then(|| (category, &rest[..digits]))
}

fn skip_terabytes(text: &str) -> Option<&str> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).filter(|&digits| digits > 0)?;
    text[digits..].strip_prefix("tb")
}

fn hardware(labels: &mut LabelWriter<'_>, facts: &InstanceTypeFacts) {
    labels.number(labels::INSTANCE_CPU, facts.vcpus.into());
    labels.number(labels::INSTANCE_MEMORY, facts.memory_mib);
    labels.one(labels::INSTANCE_CPU_MANUFACTURER, &kebab(&facts.processor.manufacturer));
    // EC2 does not report a clock speed for the oldest types; Karpenter sets 0.
    labels.number(labels::INSTANCE_CPU_SUSTAINED_CLOCK_SPEED_MHZ, facts.processor.clock_mhz.unwrap_or(0).into());
    labels.one(labels::INSTANCE_HYPERVISOR, &facts.hypervisor);
    let encrypted = if facts.network.encryption_in_transit { "true" } else { "false" };
    labels.one(labels::INSTANCE_ENCRYPTION_IN_TRANSIT, encrypted);
    let nvme = facts.instance_storage.filter(|storage| storage.nvme).map(|storage| storage.total_gb);
    labels.maybe_number(labels::INSTANCE_LOCAL_NVME, nvme);
    labels.maybe_number(labels::INSTANCE_EBS_BANDWIDTH, facts.ebs.bandwidth_mbps);
    labels.maybe_number(labels::INSTANCE_NETWORK_BANDWIDTH, facts.network.baseline_mbps);
}

fn accelerators(labels: &mut LabelWriter<'_>, facts: &InstanceTypeFacts) {
    // Two kinds of GPU in one type would need two values, which a label cannot have.
    let gpu = match facts.gpus.as_slice() {
        [gpu] => Some(gpu),
        _ => None,
    };
    labels.maybe(labels::INSTANCE_GPU_NAME, gpu.map(|gpu| kebab(&gpu.name)).as_deref());
    labels.maybe(labels::INSTANCE_GPU_MANUFACTURER, gpu.map(|gpu| kebab(&gpu.manufacturer)).as_deref());
    labels.maybe_number(labels::INSTANCE_GPU_COUNT, gpu.map(|gpu| gpu.count.into()));
    labels.maybe_number(labels::INSTANCE_GPU_MEMORY, gpu.map(|gpu| gpu.memory_mib));

    let accelerator = match (facts.neuron_devices.as_slice(), facts.inference_accelerators.as_slice()) {
        ([device], _) => Some((kebab(&device.name), "aws".to_owned(), device.count)),
        ([], [accelerator]) => Some((kebab(&accelerator.name), kebab(&accelerator.manufacturer), accelerator.count)),
        _ => None,
    };
    labels.maybe(labels::INSTANCE_ACCELERATOR_NAME, accelerator.as_ref().map(|(name, _, _)| name.as_str()));
    labels.maybe(labels::INSTANCE_ACCELERATOR_MANUFACTURER, accelerator.as_ref().map(|(_, maker, _)| maker.as_str()));
    labels.maybe_number(labels::INSTANCE_ACCELERATOR_COUNT, accelerator.as_ref().map(|(_, _, count)| (*count).into()));
}

fn placement(labels: &mut LabelWriter<'_>, class: &ClassSettings) {
    let group = class.placement_group.as_ref();
    labels.maybe(labels::PLACEMENT_GROUP_ID, group.map(|group| &*group.id));
    let numbers = group.into_iter().flat_map(PlacementGroup::partitions);
    let partitions: Vec<Arc<str>> = numbers.map(|number| labels.texts.get(&number.to_string())).collect();
    labels.many(labels::PLACEMENT_GROUP_PARTITION, partitions);
}

/// Converts a device name to a label value as in Karpenter: lower case, with dashes instead of spaces.
fn kebab(text: &str) -> String {
    text.to_lowercase().replace(' ', "-")
}

#[cfg(test)]
mod tests {
    use super::category_and_generation;

    #[test]
    fn families_split_as_documented() {
        for (family, expected) in [
            ("m5", Some(("m", "5"))),
            ("u-6tb1", Some(("u", "1"))),
            ("u7i-12tb", Some(("u", "7"))),
            ("im4gn", Some(("im", "4"))),
            ("c7i-flex", Some(("c", "7"))),
            ("dl2q", Some(("dl", "2"))),
            ("p6-b200", Some(("p", "6"))),
            ("u-6t1", None),
            ("metal", None),
            ("", None),
            ("5m", None),
        ] {
            assert_eq!(category_and_generation(family), expected, "{family}");
        }
    }
}
