//! The cloud.

use super::{Chapter, Metric, Presence, counter, gauge, histogram};

const OFFERING: &[&str] = &["instance_type", "capacity_type", "zone"];
const TYPE: &[&str] = &["instance_type"];

pub(in crate::run) static CLOUD_DURATION: Metric = histogram(
    "karpenter_cloudprovider_duration_seconds",
    &["controller", "method", "provider"],
    "Time of calls of the cloud, its answer included",
);
pub(in crate::run) static CLOUD_ERRORS: Metric = counter(
    "karpenter_cloudprovider_errors_total",
    &["controller", "method", "provider", "error"],
    "Calls of the cloud that failed",
);
pub(in crate::run) static CLOUD_OFFERING_AVAILABLE: Metric = gauge(
    "karpenter_cloudprovider_instance_type_offering_available",
    OFFERING,
    "1 if an instance type can be launched so, 0 if the cloud has none of it",
);
pub(in crate::run) static CLOUD_OFFERING_PRICE: Metric = gauge(
    "karpenter_cloudprovider_instance_type_offering_price_estimate",
    OFFERING,
    "Price of an instance type, in USD per hour",
);
pub(in crate::run) static CLOUD_TYPE_CPU: Metric =
    gauge("karpenter_cloudprovider_instance_type_cpu_cores", TYPE, "Cores of an instance type");
pub(in crate::run) static CLOUD_TYPE_MEMORY: Metric =
    gauge("karpenter_cloudprovider_instance_type_memory_bytes", TYPE, "Memory of an instance type");
pub(in crate::run) static CLOUD_LAUNCH_FAILURES: Metric = counter(
    "karpenter_cloudprovider_instance_launch_failures_total",
    &["zone", "zone_id", "capacity_type", "reason"],
    "Offerings that the cloud refused to launch; `zone_id` is empty",
);
pub(in crate::run) static CLOUD_TERMINATION_FAILURES: Metric = counter(
    "karpenter_cloudprovider_instance_termination_failures_total",
    &["zone", "zone_id"],
    "Instances that the cloud refused to terminate; `zone_id` is empty",
);

pub(in crate::run) static CLOUD_BATCH_SIZE: Metric = histogram(
    "karpenter_cloudprovider_batcher_batch_size",
    &["batcher"],
    "Requests that are sent as one call; only with `--cloud aws`",
)
.buckets(super::BATCH_SIZES);
pub(in crate::run) static CLOUD_BATCH_TIME: Metric = histogram(
    "karpenter_cloudprovider_batcher_batch_time_seconds",
    &["batcher"],
    "Time for which requests that are sent as one call are collected; only with `--cloud aws`",
);
pub(in crate::run) static USER_DATA_BYTES: Metric = gauge(
    "karpenter_ec2nodeclasses_userdata_bytes",
    &["nodeclass"],
    "Size of the user data of the latest launch template of an EC2NodeClass, before it is encoded; only with `--cloud aws`",
)
.presence(Presence::Once);

pub(super) const CLOUDPROVIDER: Chapter = Chapter {
    title: "Cloudprovider",
    bound: "instance types times zones and capacity types, of all classes in use together; calls by method and kind of \
            error; classes",
    metrics: &[
        &CLOUD_DURATION,
        &CLOUD_ERRORS,
        &CLOUD_OFFERING_AVAILABLE,
        &CLOUD_OFFERING_PRICE,
        &CLOUD_TYPE_CPU,
        &CLOUD_TYPE_MEMORY,
        &CLOUD_LAUNCH_FAILURES,
        &CLOUD_TERMINATION_FAILURES,
        &CLOUD_BATCH_SIZE,
        &CLOUD_BATCH_TIME,
        &USER_DATA_BYTES,
    ],
};
