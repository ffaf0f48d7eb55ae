//! Known EC2NodeClasses with the settings for launches.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use muster_api::Ec2NodeClass;

use crate::class::{ClassSettings, PlacementGroup};
use crate::error::SettingError;

/// Controller options that determine what a node offers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Options {
    /// Number of network interfaces that pods may not use (`RESERVED_ENIS`).
    pub reserved_enis: u32,
    /// Fraction of the memory that the hypervisor keeps (`VM_MEMORY_OVERHEAD_PERCENT`).
    pub vm_memory_overhead: f64,
}

impl Default for Options {
    fn default() -> Self {
        let ClassSettings { reserved_enis, vm_memory_overhead, .. } = ClassSettings::default();
        Self { reserved_enis, vm_memory_overhead }
    }
}

/// A class with its parsed settings.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) class: Ec2NodeClass,
    pub(super) settings: Result<ClassSettings, SettingError>,
}

#[derive(Debug, Default)]
pub(super) struct Classes(RwLock<BTreeMap<String, Arc<Known>>>);

impl Classes {
    pub(super) fn get(&self, name: &str) -> Option<Arc<Known>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    /// Returns true if nodes of some class run Windows.
    pub(super) fn has_windows(&self) -> bool {
        let classes = self.0.read().unwrap_or_else(PoisonError::into_inner);
        classes.values().any(|known| known.settings.as_ref().is_ok_and(|settings| settings.ami_family.is_windows()))
    }

    pub(super) fn learn(&self, class: Ec2NodeClass, options: Options, group: Option<PlacementGroup>) {
        let settings = ClassSettings::try_from(&class).map(|settings| ClassSettings {
            placement_group: group,
            reserved_enis: options.reserved_enis,
            vm_memory_overhead: options.vm_memory_overhead,
            ..settings
        });
        let name = class.metadata.name.clone().unwrap_or_default();
        let known = Arc::new(Known { class, settings });
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(name, known);
    }

    /// Returns the ID of a zone by its name, if a class has a subnet there.
    pub(super) fn id_of_zone(&self, zone: &str) -> Option<String> {
        let all = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let mut subnets =
            all.values().filter_map(|known| known.class.status.as_ref()).flat_map(|status| &status.subnets);
        subnets.find_map(|subnet| subnet.zone_id.clone().filter(|_| subnet.zone == zone))
    }

    pub(super) fn forget(&self, name: &str) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).remove(name);
    }
}
