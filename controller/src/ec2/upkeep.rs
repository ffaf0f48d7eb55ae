//! Periodic updates from AWS while this replica leads: instance types, prices, launch templates, zonal shifts and the
//! cluster; and of reservations where their counts are doubtful.

use std::convert::Infallible;
use std::fmt::Display;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use muster_aws::live::Intervals;
use tokio::time::sleep;

use super::cluster;
use super::provider::{Ec2, clock};

/// Longest delay after a failure.
const RETRY: Duration = Duration::from_secs(30);
/// Interval between reads of the cluster's configuration, as in Karpenter.
const CLUSTER: Duration = Duration::from_secs(5 * 60);

impl Ec2 {
    /// Runs the updates until it is dropped.
    pub(super) async fn keep_all_up(&self) -> Infallible {
        let Intervals { instance_types, on_demand_prices, spot_prices, templates, .. } = Intervals::default();
        let cloud = self.cloud();
        let types = every(instance_types, "instance types", || cloud.refresh_inventory());
        let templates = async {
            if self.options().only_reads {
                return std::future::pending().await;
            }
            // A new leader first lists the existing launch templates, so that it neither creates duplicates nor misses
            // one to remove.
            until_done("launch templates", RETRY, || cloud.learn_templates()).await;
            every(templates, "launch templates", || cloud.collect_templates()).await
        };
        let prices = async {
            if self.options().is_isolated {
                return std::future::pending().await;
            }
            let on_demand = every(on_demand_prices, "prices on demand", || cloud.refresh_on_demand_prices());
            let spot = every(spot_prices, "spot prices", || cloud.refresh_spot_prices());
            tokio::select! { never = on_demand => never, never = spot => never }
        };
        let shifts = async {
            let Some(interval) = self.options().zonal_shifts_every else { return std::future::pending().await };
            every(interval, "zonal shifts", || self.refresh_zonal_shifts()).await
        };
        let reservations = async {
            loop {
                until_done("capacity reservations", RETRY, || cloud.refresh_doubtful_reservations()).await;
            }
        };
        let cluster = async {
            sleep(CLUSTER).await;
            every(CLUSTER, "the cluster", || self.learn_cluster()).await
        };
        tokio::select! {
            never = types => never,
            never = templates => never,
            never = prices => never,
            never = shifts => never,
            never = reservations => never,
            never = cluster => never,
        }
    }

    async fn learn_cluster(&self) -> Result<(), super::StartError> {
        let cluster = cluster::ask(self.aws(), self.client(), self.options(), clock()).await?;
        if *self.cluster() != cluster {
            tracing::info!(version = cluster.kubernetes, endpoint = cluster.endpoint, "the cluster has changed");
            self.cloud().learn_cluster(cluster.clone());
            self.note_cluster(Arc::new(cluster));
        }
        Ok(())
    }
}

/// Runs an update immediately and then at that interval; retries sooner after a failure.
async fn every<T, E: Display, F: Future<Output = Result<T, E>>>(
    interval: Duration,
    what: &'static str,
    ask: impl Fn() -> F,
) -> Infallible {
    loop {
        until_done(what, RETRY.min(interval), &ask).await;
        sleep(interval).await;
    }
}

async fn until_done<T, E: Display, F: Future<Output = Result<T, E>>>(
    what: &'static str,
    retry: Duration,
    ask: impl Fn() -> F,
) {
    let mut was_told = false;
    while let Err(error) = ask().await {
        // The last known values stay in use; a failure is logged once, however long it lasts.
        if !std::mem::replace(&mut was_told, true) {
            tracing::warn!(what, %error, "a refresh failed, and is retried");
        }
        sleep(retry).await;
    }
}
