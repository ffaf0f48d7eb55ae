//! Values that are recorded when something happens.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::catalogue::{Kind, Metric, Presence, QUANTILES};
use super::page::{Page, Rendered};

/// Maximum number of series of a metric; values of others are left out.
const MOST: usize = 2000;
/// Number of the last values over which a summary has quantiles.
const REMEMBERED: usize = 1000;

/// All recorded values; clones share them.
#[derive(Debug, Clone, Default)]
pub(in crate::run) struct Series(Arc<Mutex<BTreeMap<&'static str, Family>>>);

#[derive(Debug)]
struct Family {
    metric: &'static Metric,
    samples: BTreeMap<Vec<String>, Sample>,
    /// Number of values that were left out.
    left_out: u64,
}

#[derive(Debug)]
enum Sample {
    Amount(f64),
    Histogram { counts: Vec<u64>, sum: f64, count: u64 },
    Summary { last: VecDeque<f64>, sum: f64, count: u64 },
}

// === impl Series ===

impl Series {
    /// Adds one to a counter.
    pub(in crate::run) fn count(&self, metric: &'static Metric, labels: &[&str]) {
        self.add(metric, labels, 1.0);
    }

    /// Adds to a counter or gauge.
    pub(in crate::run) fn add(&self, metric: &'static Metric, labels: &[&str], amount: f64) {
        self.change(metric, labels, |sample| {
            if let Sample::Amount(sum) = sample {
                *sum += amount;
            }
        });
    }

    /// Sets a gauge.
    pub(in crate::run) fn set(&self, metric: &'static Metric, labels: &[&str], amount: f64) {
        self.change(metric, labels, |sample| *sample = Sample::Amount(amount));
    }

    /// Records a duration, in a histogram or a summary.
    pub(in crate::run) fn observe(&self, metric: &'static Metric, labels: &[&str], duration: Duration) {
        let seconds = duration.as_secs_f64();
        self.change(metric, labels, |sample| match sample {
            Sample::Amount(_) => {}
            Sample::Histogram { counts, sum, count } => {
                if let Some(bucket) = metric.buckets.iter().position(|bound| seconds <= *bound) {
                    counts[bucket] += 1;
                }
                *sum += seconds;
                *count += 1;
            }
            Sample::Summary { last, sum, count } => {
                if last.len() >= REMEMBERED {
                    last.pop_front();
                }
                last.push_back(seconds);
                *sum += seconds;
                *count += 1;
            }
        });
    }

    /// Returns `labels` if they are those of a series of the metric, or if less than half of its series are taken; else
    /// `otherwise`. For labels that strangers choose: what they take is half at most.
    pub(in crate::run) fn either<'l>(
        &self,
        metric: &'static Metric,
        labels: &'l [&'l str],
        otherwise: &'l [&'l str],
    ) -> &'l [&'l str] {
        let all = self.lock();
        let Some(family) = all.get(metric.name) else { return labels };
        let is_there = || family.samples.keys().any(|key| key.iter().eq(labels));
        if family.samples.len() < MOST / 2 || is_there() { labels } else { otherwise }
    }

    /// Forgets all series of a metric.
    pub(in crate::run) fn clear(&self, metric: &'static Metric) {
        self.lock().remove(metric.name);
    }

    /// Forgets what is told by the replica that leads, as it does not any more.
    pub(super) fn forget_leading(&self) {
        let stays = |metric: &Metric| metric.presence != Presence::Leading || metric.kind != Kind::Gauge;
        self.lock().retain(|_, family| stays(family.metric));
    }

    /// Returns the number of values left out, by metric.
    pub(super) fn left_out(&self) -> Vec<(&'static str, u64)> {
        let all = self.lock();
        all.values().filter(|family| family.left_out > 0).map(|family| (family.metric.name, family.left_out)).collect()
    }

    /// Writes all values.
    pub(super) fn write(&self, page: &mut Page) {
        for family in self.lock().values() {
            family.write(page);
        }
    }

    fn change(&self, metric: &'static Metric, labels: &[&str], change: impl FnOnce(&mut Sample)) {
        debug_assert_eq!(metric.labels.len(), labels.len(), "{}", metric.name);
        let mut all = self.lock();
        let new = || Family { metric, samples: BTreeMap::new(), left_out: 0 };
        let family = all.entry(metric.name).or_insert_with(new);
        let key: Vec<String> = labels.iter().map(|&value| value.to_owned()).collect();
        if family.samples.len() >= MOST && !family.samples.contains_key(&key) {
            family.left_out += 1;
            return;
        }
        change(family.samples.entry(key).or_insert_with(|| Sample::new(metric)));
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<&'static str, Family>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Family ===

impl Family {
    fn write(&self, page: &mut Page) {
        page.declare(self.metric);
        for (values, sample) in &self.samples {
            let labels = self.metric.labels.iter().copied().zip(values.iter().map(String::as_str));
            sample.write(self.metric, &Rendered::new(labels), page);
        }
    }
}

// === impl Sample ===

impl Sample {
    fn new(metric: &Metric) -> Self {
        match metric.kind {
            Kind::Counter | Kind::Gauge => Self::Amount(0.0),
            Kind::Histogram => Self::Histogram { counts: vec![0; metric.buckets.len()], sum: 0.0, count: 0 },
            Kind::Summary => Self::Summary { last: VecDeque::new(), sum: 0.0, count: 0 },
        }
    }

    fn write(&self, metric: &Metric, labels: &Rendered, page: &mut Page) {
        let (sum, count) = match self {
            Self::Amount(amount) => return page.sample(metric, "", &[labels], *amount),
            Self::Histogram { counts, sum, count } => {
                let mut below = 0;
                for (bound, here) in metric.buckets.iter().zip(counts) {
                    below += here;
                    let bound = Rendered::new([("le", bound.to_string().as_str())]);
                    page.sample(metric, "_bucket", &[labels, &bound], below as f64);
                }
                page.sample(metric, "_bucket", &[labels, &Rendered::new([("le", "+Inf")])], *count as f64);
                (sum, count)
            }
            Self::Summary { last, sum, count } => {
                let mut sorted: Vec<f64> = last.iter().copied().collect();
                sorted.sort_by(f64::total_cmp);
                for quantile in QUANTILES {
                    let at = (quantile * sorted.len().saturating_sub(1) as f64).round() as usize;
                    let Some(value) = sorted.get(at) else { continue };
                    let quantile = Rendered::new([("quantile", quantile.to_string().as_str())]);
                    page.sample(metric, "", &[labels, &quantile], *value);
                }
                (sum, count)
            }
        };
        page.sample(metric, "_sum", &[labels], *sum);
        page.sample(metric, "_count", &[labels], *count as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::super::catalogue;
    use super::*;

    fn lines(series: &Series, with: &str) -> Vec<String> {
        let mut page = Page::default();
        series.write(&mut page);
        page.text().lines().filter(|line| line.contains(with)).map(str::to_owned).collect()
    }

    #[test]
    fn labels_that_strangers_choose_take_half_of_a_metric() {
        let series = Series::default();
        let metric = &catalogue::OF_NODES.transitions;
        for number in 0..MOST {
            let kind = number.to_string();
            series.count(metric, series.either(metric, &[&kind, "True", "x"], &["other"; 3]));
        }
        assert_eq!(lines(&series, "{").len(), MOST / 2 + 1);
        assert!(lines(&series, "other")[0].ends_with(" 1000"), "{:?}", lines(&series, "other"));
        series.count(metric, series.either(metric, &["7", "True", "x"], &["other"; 3]));
        assert!(lines(&series, "\"7\"")[0].ends_with(" 2"), "what is there goes on");
        assert!(series.left_out().is_empty());
    }

    #[test]
    fn a_histogram_counts_what_is_below_each_bound_and_a_summary_has_the_quantiles_of_the_last() {
        let series = Series::default();
        for seconds in [600, 3600, 10_000_000] {
            series.observe(&catalogue::NODES_LIFETIME_DURATION, &["general"], Duration::from_secs(seconds));
        }
        let buckets = lines(&series, "_bucket");
        assert_eq!(buckets[0], "karpenter_nodes_lifetime_duration_seconds_bucket{nodepool=\"general\",le=\"900\"} 1");
        assert!(buckets[3].ends_with("le=\"3600\"} 2") && buckets[20].ends_with("} 2"), "{buckets:?}");
        assert!(buckets[21].ends_with("le=\"+Inf\"} 3"), "{buckets:?}");
        for seconds in 1..=2000 {
            series.observe(&catalogue::PODS_STARTUP_DURATION, &[], Duration::from_secs(seconds));
        }
        let summary = lines(&series, "pods_startup");
        insta::assert_snapshot!(summary[2..].join("\n"), @r#"
        karpenter_pods_startup_duration_seconds{quantile="0"} 1001
        karpenter_pods_startup_duration_seconds{quantile="0.5"} 1501
        karpenter_pods_startup_duration_seconds{quantile="0.9"} 1900
        karpenter_pods_startup_duration_seconds{quantile="0.99"} 1990
        karpenter_pods_startup_duration_seconds{quantile="1"} 2000
        karpenter_pods_startup_duration_seconds_sum 2001000
        karpenter_pods_startup_duration_seconds_count 2000
        "#);
    }

    #[test]
    fn a_metric_has_so_many_series_and_no_more() {
        let series = Series::default();
        for number in 0..MOST + 7 {
            series.count(&catalogue::NODES_CREATED, &[&number.to_string(), ""]);
        }
        series.count(&catalogue::NODES_CREATED, &["0", ""]);
        assert_eq!(lines(&series, "{").len(), MOST);
        assert_eq!(series.left_out(), [("karpenter_nodes_created_total", 7)]);
        assert_eq!(lines(&series, "nodepool=\"0\""), ["karpenter_nodes_created_total{nodepool=\"0\"} 2"]);
        series.clear(&catalogue::NODES_CREATED);
        assert!(lines(&series, "").is_empty());
    }
}
