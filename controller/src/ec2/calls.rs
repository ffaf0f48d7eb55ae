//! Metrics of AWS calls, and a log line for each missing permission.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use muster_aws::live::{CallObserver, Ec2Cloud, Ended, Pause};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

/// Labels: operation and result.
type Labels = [(&'static str, String); 2];

/// Counts calls, and forwards them to another observer if there is one.
#[derive(Clone, Default)]
pub(super) struct Calls {
    counted: Family<Labels, Counter>,
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
        Self { other, ..Self::default() }
    }

    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register("muster_aws_calls", "AWS API calls, by result", self.counted.clone());
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_right_is_named_once_until_it_was_there() {
        let calls = Calls::default();
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
        let calls = Calls::default();
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
