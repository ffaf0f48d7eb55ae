//! Periodic calls to AWS that are not part of a launch: selectors, prices, templates.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use muster_api::Ec2NodeClass;
use muster_cloud::CloudError;

use super::cloud::{Ec2Cloud, Inner, settings};
use super::{describe, lookup, prices, profile, trial};
use crate::discovery::{Found, Trial, TrialCall};
use crate::inventory::Inventory;
use crate::launch::{Addresses, Grounds};
use crate::prices::PriceList;

impl Ec2Cloud {
    /// Looks up the objects that the selectors of a class match, and creates its instance profile if it has a role.
    /// [`crate::discovery::judge`] computes the status from the result, and [`Self::learn_class`] stores the class once
    /// its status is written.
    pub async fn look_up(&self, class: &Ec2NodeClass) -> Found {
        let (aws, caller, cluster) = (&self.0.aws, &self.0.caller, self.0.cluster());
        let profile = profile::ensure(aws, caller, &self.0.fresh, &cluster, class);
        let asked_at = caller.now();
        self.learn_found(lookup::look_up(aws, caller, &cluster, class, profile).await, asked_at)
    }

    /// Like [`Self::look_up`], without creating anything: the instance profile is named, whether it exists or not.
    pub async fn look_up_only(&self, class: &Ec2NodeClass) -> Found {
        let cluster = self.0.cluster();
        let profile = std::future::ready(profile::named(&cluster, class));
        let asked_at = self.0.caller.now();
        self.learn_found(lookup::look_up(&self.0.aws, &self.0.caller, &cluster, class, profile).await, asked_at)
    }

    fn learn_found(&self, found: Found, asked_at: Timestamp) -> Found {
        self.learn_addresses(found.addresses());
        self.learn_reservations(&found.free_reservations(), asked_at);
        found
    }

    /// Runs a launch with a stored class as a dry run. [`Found::trial`] takes the result.
    ///
    /// # Errors
    /// The error that a launch would get.
    pub async fn try_out(&self, class: &str) -> Result<(), Trial> {
        let failed = |error| Trial { call: TrialCall::CreateLaunchTemplate, error };
        let known = self.0.class(class).map_err(failed)?;
        let settings = settings(&known).map_err(failed)?;
        let Inner { aws, caller, templates, .. } = &*self.0;
        let (cluster, inventory) = (self.0.cluster(), self.inventory());
        let controller = self.0.controller();
        let grounds = Grounds {
            cluster: &cluster,
            class: &known.class,
            settings,
            inventory: &inventory,
            addresses: &Addresses::default(),
            // A class is in order whether or not its zones can be used now.
            shifted: &BTreeSet::new(),
            controller: controller.as_deref(),
        };
        trial::try_out(aws, caller, templates, &grounds).await
    }

    /// Removes the instance profiles created for a deleted class, and returns their number.
    ///
    /// # Errors
    /// If a call fails; some profiles may have been removed.
    pub async fn remove_profiles(&self, class: &Ec2NodeClass) -> Result<usize, CloudError> {
        profile::remove(&self.0.aws, &self.0.caller, &self.0.cluster(), class).await
    }

    /// Refreshes all instance types with their zones. Prices stay as they were.
    ///
    /// # Errors
    /// If the call fails; the inventory is then unchanged.
    pub async fn refresh_inventory(&self) -> Result<Arc<Inventory>, CloudError> {
        let types = describe::instance_types(&self.0.aws, &self.0.caller).await?;
        let mut inventory = Inventory::described(&self.0.aws.region, types);
        inventory.keep_prices(&self.inventory());
        self.learn_inventory(inventory);
        Ok(self.inventory())
    }

    /// Refreshes on-demand prices, for Linux and Windows, and returns their number.
    ///
    /// # Errors
    /// If the call fails; the prices are then unchanged.
    pub async fn refresh_on_demand_prices(&self) -> Result<usize, CloudError> {
        let prices = prices::on_demand(&self.0.aws, &self.0.caller).await?;
        self.learn_prices(&prices);
        Ok(prices.len())
    }

    /// Refreshes spot prices, and returns the number of pools with a price. Those for Windows are asked for once there
    /// is a class of Windows; until then they are those for Linux with the licence.
    ///
    /// # Errors
    /// If the call fails; the prices are then unchanged.
    pub async fn refresh_spot_prices(&self) -> Result<usize, CloudError> {
        let prices = prices::spot(&self.0.aws, &self.0.caller, self.0.has_windows()).await?;
        self.learn_prices(&prices);
        Ok(prices.len())
    }

    fn learn_prices(&self, prices: &PriceList) {
        let mut inventory = Inventory::clone(&self.inventory());
        inventory.tell(prices);
        self.learn_inventory(inventory);
    }

    /// Lists existing launch templates, so that they are not created again, and returns their number.
    ///
    /// # Errors
    /// If the call fails.
    pub async fn learn_templates(&self) -> Result<usize, CloudError> {
        let Inner { aws, caller, templates, .. } = &*self.0;
        templates.learn(aws, caller, &self.0.cluster().name).await
    }

    /// Removes launch templates that have been unused for an hour, and returns their number.
    ///
    /// # Errors
    /// If a call fails; some templates may have been removed.
    pub async fn collect_templates(&self) -> Result<usize, CloudError> {
        let Inner { aws, caller, templates, .. } = &*self.0;
        templates.collect(aws, caller, &self.0.cluster().name).await
    }

    /// Removes the launch templates of a deleted class, and returns their number.
    ///
    /// # Errors
    /// If a call fails; some templates may have been removed.
    pub async fn remove_templates(&self, class: &str) -> Result<usize, CloudError> {
        let Inner { aws, caller, templates, .. } = &*self.0;
        templates.remove_of_class(aws, caller, &self.0.cluster().name, class).await
    }
}
