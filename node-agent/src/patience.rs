//! Times for which what others bring may be missing before that is a fault.

use jiff::SignedDuration;

/// Time allowed for pods that the agent does not control (a CNI plugin, a device plugin, a controller that removes a
/// startup taint) before their absence counts as a fault. Karpenter allows 15 minutes for a whole node; images of 1 GB
/// are pulled in less than a minute.
pub const PATIENCE_WITH_PODS: SignedDuration = SignedDuration::from_secs(90);

/// Time allowed for drivers of devices. An image may build its driver at boot, beside the kubelet, and that of NVIDIA's
/// GPU Operator comes as a pod, with an image of gigabytes, and may be compiled there.
pub const PATIENCE_WITH_DRIVERS: SignedDuration = SignedDuration::from_mins(10);
