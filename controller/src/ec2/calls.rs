//! Metrics of AWS calls, and a log line for each missing permission.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use muster_aws::live::{CallObserver, Ec2Cloud, Ended, Pause};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::buckets::{BATCH_SIZES, DURATIONS};

/// Labels: operation and result.
type Labels = [(&'static str, String); 2];

/// Labels of a batch and of user data.
type Batcher = [(&'static str, &'static str); 1];
type Class = [(&'static str, String); 1];

/// Counts calls, and forwards them to another observer if there is one.
#[derive(Clone)]
pub(super) struct Calls {
    counted: Family<Labels, Counter>,
    batch_sizes: Family<Batcher, Histogram, fn() -> Histogram>,
    batch_times: Family<Batcher, Histogram, fn() -> Histogram>,
    user_data: Family<Class, Gauge>,
    /// Operations that were denied for lack of permission. Locked briefly.
    refused: Arc<Mutex<BTreeSet<&'static str>>>,
    other: Option<Arc<dyn CallObserver>>,
}

/// Metric of the queued launches, computed on each scrape.
#[derive(Debug)]
pub(super) struct Line(pub(super) Ec2Cloud);

// === impl Line ===

impl Collector for Line {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let help = "Launches that wait because the rate of CreateFleet is limited";
        let queued = i64::try_from(self.0.count_queued()).unwrap_or(i64::MAX);
        let descriptor = encoder.encode_descriptor("muster_launches_queued", help, None, MetricType::Gauge)?;
        ConstGauge::new(queued).encode(descriptor)
    }
}

// === impl Calls ===

impl Calls {
    pub(super) fn with(other: Option<Arc<dyn CallObserver>>) -> Self {
        let sizes: fn() -> Histogram = || Histogram::new(BATCH_SIZES.iter().copied());
        let times: fn() -> Histogram = || Histogram::new(DURATIONS.iter().copied());
        Self {
            counted: Family::default(),
            batch_sizes: Family::new_with_constructor(sizes),
            batch_times: Family::new_with_constructor(times),
            user_data: Family::default(),
            refused: Arc::default(),
            other,
        }
    }

    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register("muster_aws_calls", "AWS API calls, by result", self.counted.clone());
        let (sizes, times) = (self.batch_sizes.clone(), self.batch_times.clone());
        registry.register("karpenter_cloudprovider_batcher_batch_size", "Requests that are sent as one call", sizes);
        let help = "Time for which requests that are sent as one call are collected";
        registry.register("karpenter_cloudprovider_batcher_batch_time_seconds", help, times);
        let help = "Size of the user data of the latest launch template of an EC2NodeClass, before it is encoded";
        registry.register("karpenter_ec2nodeclasses_userdata_bytes", help, self.user_data.clone());
    }

    fn count(&self, operation: &'static str, ended: Ended<'_>) {
        let result = match ended {
            Ended::Answered => "ok",
            Ended::Refused { code, .. } => code,
            Ended::Unanswered => "no_answer",
        };
        self.counted.get_or_create(&[("operation", operation.to_owned()), ("result", result.to_owned())]).inc();
    }

    /// Returns true if permission for the operation is missing and that has not been logged yet.
    fn is_news(&self, operation: &'static str, ended: Ended<'_>) -> bool {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        match ended {
            Ended::Refused { .. } if ended.is_unauthorized() => refused.insert(operation),
            // A permission that was granted may be revoked again.
            Ended::Answered => {
                refused.remove(operation);
                false
            }
            _ => false,
        }
    }
}

impl CallObserver for Calls {
    fn before<'a>(&'a self, operation: &'static str) -> Pause<'a> {
        match &self.other {
            Some(other) => other.before(operation),
            None => Box::pin(std::future::ready(())),
        }
    }

    fn after<'a>(&'a self, operation: &'static str, ended: Ended<'a>) -> Pause<'a> {
        self.count(operation, ended);
        if let Ended::Refused { message, .. } = ended
            && self.is_news(operation, ended)
        {
            tracing::error!(
                action = operation,
                message,
                hint = "compare the role's policy with `muster iam-policy`",
                "a permission is missing"
            );
        } else if ended == Ended::Answered {
            self.is_news(operation, ended);
        }
        match &self.other {
            Some(other) => other.after(operation, ended),
            None => Box::pin(std::future::ready(())),
        }
    }

    fn batched(&self, batcher: &'static str, requests: usize, waited: Duration) {
        let labels = [("batcher", batcher)];
        self.batch_sizes.get_or_create(&labels).observe(requests as f64);
        self.batch_times.get_or_create(&labels).observe(waited.as_secs_f64());
    }

    fn templated(&self, class: &str, user_data_bytes: usize) {
        let bytes = i64::try_from(user_data_bytes).unwrap_or(i64::MAX);
        self.user_data.get_or_create(&[("nodeclass", class.to_owned())]).set(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_right_is_named_once_until_it_was_there() {
        let calls = Calls::with(None);
        let denied = Ended::Refused { code: "UnauthorizedOperation", message: "You are not authorized" };
        let operation = "ec2:DescribeSubnets";
        assert!(calls.is_news(operation, denied));
        assert!(!calls.is_news(operation, denied));
        assert!(calls.is_news("ec2:DescribeImages", denied), "each by itself");
        assert!(!calls.is_news(operation, Ended::Refused { code: "RequestLimitExceeded", message: "slow down" }));
        assert!(!calls.is_news(operation, Ended::Answered));
        assert!(calls.is_news(operation, denied));
    }

    #[tokio::test]
    async fn every_try_is_counted() {
        let calls = Calls::with(None);
        for ended in [Ended::Answered, Ended::Unanswered, Ended::Answered] {
            calls.before("ec2:CreateFleet").await;
            calls.after("ec2:CreateFleet", ended).await;
        }
        let count = |result: &str| {
            let labels = [("operation", "ec2:CreateFleet".to_owned()), ("result", result.to_owned())];
            calls.counted.get_or_create(&labels).get()
        };
        assert_eq!((count("ok"), count("no_answer")), (2, 1));
    }
}
