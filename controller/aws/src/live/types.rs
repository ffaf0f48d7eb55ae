//! What may be launched with a class, with what is known of it from its Nodes.

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
    /// What may be launched with a class, as the engine takes it: types that none of its images suits are not there, and of those whose
    /// Nodes have said what they have, that counts.
    ///
    /// # Errors
    /// If there is no such class, or a setting of it cannot be used.
    pub fn instance_types(&self, class: &str) -> Result<Vec<InstanceType>, CloudError> {
        let known = self.0.class(class)?;
        Ok(self.types_of(&known.class, settings(&known)?))
    }

    /// The same of a class with these settings that has not been learned, as far as it says itself what it refers to.
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
        // What there is no image for cannot be launched.
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

    /// Takes in what the Node of an instance of this type says, which was made like this with a class of these settings. Gives what of
    /// it is doubted, and has not been before.
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

    /// Grows whenever what Nodes have said changes what [`Self::instance_types`] gives.
    #[must_use]
    pub fn learned_edition(&self) -> u64 {
        self.0.learned().edition()
    }

    /// Of how many types, of each build by itself, Nodes have said what they have.
    #[must_use]
    pub fn count_learned(&self) -> usize {
        self.0.learned().count()
    }
}
