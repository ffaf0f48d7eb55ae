//! Instance types that may be launched with a class, with the learned capacity of their Nodes.

use muster_api::Ec2NodeClass;
use muster_cloud::CloudError;
use muster_scheduling::model::{InstanceType, Resource};

use super::classes::Options;
use super::cloud::{Ec2Cloud, settings};
use crate::class::ClassSettings;
use crate::discovery::class_hash;
use crate::launch::image_for;
use crate::learned::{Bounds, Build, Doubt, Said};

// === impl Ec2Cloud ===

impl Ec2Cloud {
    /// Returns the instance types that may be launched with a class, in the scheduling model. Types without a
    /// compatible image are left out, and learned values replace computed ones.
    ///
    /// # Errors
    /// If the class is unknown, or one of its settings is invalid.
    pub fn instance_types(&self, class: &str) -> Result<Vec<InstanceType>, CloudError> {
        let known = self.0.class(class)?;
        Ok(self.types_of(&known.class, &self.with_counts(settings(&known)?)))
    }

    /// Returns the instance types for a class with these settings that has not been stored, as far as its own status
    /// resolves its references.
    #[must_use]
    pub fn instance_types_of(&self, class: &Ec2NodeClass, settings: &ClassSettings) -> Vec<InstanceType> {
        self.types_of(class, &self.with_options(settings))
    }

    fn types_of(&self, class: &Ec2NodeClass, settings: &ClassSettings) -> Vec<InstanceType> {
        let mut types = self.inventory().instance_types(settings);
        let Some(status) = class.status.as_ref().filter(|status| !status.amis.is_empty()) else { return types };
        let (class, prefix_delegation) = (class_hash(class), settings.prefix_delegation);
        let build = |image: &str| Build { image: image.to_owned(), class: class.clone(), prefix_delegation };
        let learned = self.0.learned();
        // Types without an image cannot be launched.
        types.retain_mut(|one| {
            let image = image_for(one, &status.amis);
            image.inspect(|image| learned.apply(&build(&image.id), one)).is_some()
        });
        types
    }

    fn with_options(&self, settings: &ClassSettings) -> ClassSettings {
        let Options { reserved_enis, vm_memory_overhead } = self.0.options;
        ClassSettings { reserved_enis, vm_memory_overhead, ..settings.clone() }
    }

    /// Records the values that the Node of an instance reports. `build` and `settings` are those of its launch. Returns
    /// the rejections that are new.
    pub fn learn_node(
        &self,
        instance_type: &str,
        instance: &str,
        build: &Build,
        settings: &ClassSettings,
        said: &Said,
    ) -> Vec<(Resource, Doubt)> {
        let bounds = || {
            let settings = self.with_options(settings);
            let inventory = self.inventory();
            Some(Bounds::of(inventory.facts(instance_type)?, &inventory.instance_type(instance_type, &settings)?))
        };
        self.0.learned().hear(build, instance_type, instance, said, bounds)
    }

    /// Returns a counter that grows whenever reported values change the result of [`Self::instance_types`].
    #[must_use]
    pub fn learned_edition(&self) -> u64 {
        self.0.learned().edition()
    }

    /// Returns the number of pairs of type and build with learned values.
    #[must_use]
    pub fn count_learned(&self) -> usize {
        self.0.learned().count()
    }
}
