//! What is asked of AWS at intervals, and not for one launch: selectors, prices, templates.

use std::sync::Arc;

use muster_api::Ec2NodeClass;
use muster_cloud::CloudError;

use super::cloud::{Ec2Cloud, Inner, settings};
use super::{describe, lookup, prices, profile, trial};
use crate::discovery::{Found, Trial, TrialCall};
use crate::inventory::Inventory;

impl Ec2Cloud {
    /// Looks up what the selectors of a class select, and makes its instance profile if it names a role. What follows for
    /// the status is [`crate::discovery::judge`]'s, and what is written of it is told with [`Self::learn_class`].
    pub async fn look_up(&self, class: &Ec2NodeClass) -> Found {
        let found = lookup::look_up(&self.0.aws, &self.0.caller, &self.0.fresh, &self.0.cluster(), class).await;
        self.learn_addresses(found.addresses());
        found
    }

    /// Tries a launch with a class out, whose status has been told; EC2 launches nothing. [`Found::trial`] takes the answer.
    ///
    /// # Errors
    /// What a launch would meet.
    pub async fn try_out(&self, class: &str) -> Result<(), Trial> {
        let failed = |error| Trial { call: TrialCall::CreateLaunchTemplate, error };
        let known = self.0.class(class).map_err(failed)?;
        let settings = settings(&known).map_err(failed)?;
        let Inner { aws, caller, templates, .. } = &*self.0;
        let (cluster, inventory) = (self.0.cluster(), self.inventory());
        let controller = self.0.controller();
        let (class, controller) = (&known.class, controller.as_deref());
        trial::try_out(aws, caller, templates, &cluster, &inventory, class, settings, controller).await
    }

    /// Removes the instance profiles that were made for a class that is going. How many.
    ///
    /// # Errors
    /// If IAM does not do it; some may be gone.
    pub async fn remove_profiles(&self, class: &Ec2NodeClass) -> Result<usize, CloudError> {
        profile::remove(&self.0.aws, &self.0.caller, &self.0.cluster(), class).await
    }

    /// Asks for all instance types with their zones, and for their prices. Prices that are not to be had stay as they were.
    ///
    /// # Errors
    /// If EC2 does not say which types there are; then nothing has changed.
    pub async fn refresh_inventory(&self) -> Result<Arc<Inventory>, CloudError> {
        let types = describe::instance_types(&self.0.aws, &self.0.caller).await?;
        let mut inventory = Inventory::described(&self.0.aws.region, types);
        inventory.keep_prices(&self.inventory());
        self.learn_inventory(inventory);
        Ok(self.inventory())
    }

    /// Asks for prices on demand. How many types have one.
    ///
    /// # Errors
    /// If they are not to be had; then nothing has changed.
    pub async fn refresh_on_demand_prices(&self) -> Result<usize, CloudError> {
        let prices = prices::on_demand(&self.0.aws, &self.0.caller).await?;
        let mut inventory = Inventory::clone(&self.inventory());
        inventory.tell_on_demand(&prices);
        self.learn_inventory(inventory);
        Ok(prices.len())
    }

    /// Asks for spot prices. How many pools have one.
    ///
    /// # Errors
    /// If they are not to be had; then nothing has changed.
    pub async fn refresh_spot_prices(&self) -> Result<usize, CloudError> {
        let prices = prices::spot(&self.0.aws, &self.0.caller).await?;
        let mut inventory = Inventory::clone(&self.inventory());
        inventory.tell_spot(&prices);
        self.learn_inventory(inventory);
        Ok(prices.len())
    }

    /// Learns which launch templates there are, so that none is made twice. How many.
    ///
    /// # Errors
    /// If EC2 does not say.
    pub async fn learn_templates(&self) -> Result<usize, CloudError> {
        let Inner { aws, caller, templates, .. } = &*self.0;
        templates.learn(aws, caller, &self.0.cluster().name).await
    }

    /// Removes launch templates that nobody has used for an hour. How many.
    ///
    /// # Errors
    /// If EC2 does not do it; some may be gone.
    pub async fn collect_templates(&self) -> Result<usize, CloudError> {
        let Inner { aws, caller, templates, .. } = &*self.0;
        templates.collect(aws, caller, &self.0.cluster().name).await
    }

    /// Removes the launch templates of a class that is going. How many.
    ///
    /// # Errors
    /// If EC2 does not do it; some may be gone.
    pub async fn remove_templates(&self, class: &str) -> Result<usize, CloudError> {
        let Inner { aws, caller, templates, .. } = &*self.0;
        templates.remove_of_class(aws, caller, &self.0.cluster().name, class).await
    }
}
