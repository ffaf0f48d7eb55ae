//! EC2NodeClass: kubelet, disks, network, metadata service, processor.

use serde_json::{Value, json};

use crate::classes::{class, spec};
use crate::{OK, check_table};

/// The patch of the kubelet's settings.
fn kubelet(kubelet: Value) -> Value {
    spec(json!({"kubelet": kubelet}))
}

/// The path of one of the kubelet's settings.
fn at(rest: &str) -> String {
    format!("spec.kubelet{rest}")
}

#[test]
fn kubelet_values() {
    check_table(
        &class(),
        &[
            (kubelet(json!({})), OK, ""),
            (
                kubelet(json!({"clusterDNS": ["10.0.0.10"], "maxPods": 110, "podsPerCore": 10, "cpuCFSQuota": false})),
                OK,
                "",
            ),
            (kubelet(json!({"maxPods": 0, "podsPerCore": 0, "evictionMaxPodGracePeriod": 0})), OK, ""),
            (kubelet(json!({"evictionMaxPodGracePeriod": -1})), &at(".evictionMaxPodGracePeriod"), "must be from 0"),
            (kubelet(json!({"cpuManagerPolicy": "static", "maxPods": "min(110, max_pods)"})), OK, ""),
            (kubelet(json!({"maxpods": 1})), &at(".maxpods"), "did you mean `maxPods`?"),
            (kubelet(json!({"registerWithTaints": []})), &at(".registerWithTaints"), "is set by the controller"),
            (kubelet(json!({"maxPods": -1})), &at(".maxPods"), "must be from 0"),
            (kubelet(json!({"maxPods": "110"})), OK, ""),
            (kubelet(json!({"maxPods": "many"})), &at(".maxPods"), "uses `many`"),
            (kubelet(json!({"maxPods": true})), &at(".maxPods"), "must be a whole number"),
            (kubelet(json!({"maxPods": 2_147_483_648_i64})), &at(".maxPods"), "must be from 0"),
            (kubelet(json!({"podsPerCore": -1})), &at(".podsPerCore"), "must be from 0"),
            (kubelet(json!({"cpuCFSQuota": "no"})), &at(".cpuCFSQuota"), "must be true or false"),
            (kubelet(json!({"clusterDNS": "10.0.0.10"})), &at(".clusterDNS"), "must be a list"),
        ],
    );
}

#[test]
fn kubelet_image_garbage_collection() {
    check_table(
        &class(),
        &[
            (kubelet(json!({"imageGCHighThresholdPercent": 50, "imageGCLowThresholdPercent": 40})), OK, ""),
            (kubelet(json!({"imageGCHighThresholdPercent": 50})), OK, ""),
            (
                kubelet(json!({"imageGCHighThresholdPercent": 50, "imageGCLowThresholdPercent": 50})),
                &at(".imageGCHighThresholdPercent"),
                "must be above",
            ),
            (
                kubelet(json!({"imageGCHighThresholdPercent": 40, "imageGCLowThresholdPercent": 50})),
                &at(".imageGCHighThresholdPercent"),
                "must be above",
            ),
            (
                kubelet(json!({"imageGCHighThresholdPercent": 101})),
                &at(".imageGCHighThresholdPercent"),
                "must be from 0 to 100",
            ),
            (
                kubelet(json!({"imageGCLowThresholdPercent": -1})),
                &at(".imageGCLowThresholdPercent"),
                "must be from 0 to 100",
            ),
        ],
    );
}

#[test]
fn kubelet_reservations() {
    for field in ["systemReserved", "kubeReserved"] {
        let reserved = |key: &str, value: Value| kubelet(json!({field: {key: value}}));
        let at = |rest: &str| format!("spec.kubelet.{field}{rest}");
        check_table(
            &class(),
            &[
                (reserved("cpu", json!("100m")), OK, ""),
                (reserved("memory", json!("1Gi")), OK, ""),
                (reserved("ephemeral-storage", json!("1G")), OK, ""),
                (reserved("pid", json!("1000")), OK, ""),
                (reserved("disk", json!("1")), &at("[disk]"), "cannot reserve `disk`"),
                (reserved("cpu", json!("-1")), &at("[cpu]"), "negative"),
                (reserved("cpu", json!("max(1, 2)")), OK, ""),
                (reserved("cpu", json!("max(1,")), &at("[cpu]"), "neither a number nor a CEL expression"),
                (reserved("cpu", json!(1)), &at("[cpu]"), "must be text"),
            ],
        );
    }
}

#[test]
fn kubelet_eviction_signals() {
    let signals = [
        "memory.available",
        "nodefs.available",
        "nodefs.inodesFree",
        "imagefs.available",
        "imagefs.inodesFree",
        "pid.available",
    ];
    for signal in signals {
        check_table(
            &class(),
            &[
                (kubelet(json!({"evictionHard": {signal: "5%"}})), OK, ""),
                (kubelet(json!({"evictionSoft": {signal: "5%"}, "evictionSoftGracePeriod": {signal: "1m"}})), OK, ""),
            ],
        );
    }
    check_table(
        &class(),
        &[
            (
                kubelet(json!({"evictionHard": {"memory": "5%"}})),
                &at(".evictionHard[memory]"),
                "does not have the signal",
            ),
            (
                kubelet(json!({"evictionSoft": {"memory": "5%"}, "evictionSoftGracePeriod": {"memory": "1m"}})),
                &at(".evictionSoft[memory]"),
                "does not have the signal",
            ),
            (
                kubelet(json!({"evictionSoft": {"memory": "5%"}, "evictionSoftGracePeriod": {"memory": "1m"}})),
                &at(".evictionSoftGracePeriod[memory]"),
                "does not have the signal",
            ),
        ],
    );
}

#[test]
fn kubelet_eviction_thresholds() {
    let hard = |value: &str| kubelet(json!({"evictionHard": {"memory.available": value}}));
    let memory = at(".evictionHard[memory.available]");
    check_table(
        &class(),
        &[
            (hard("10.25%"), OK, ""),
            (hard("100%"), OK, ""),
            (hard("100Mi"), OK, ""),
            (hard(""), &memory, "is neither"),
            (hard("110%"), &memory, "is neither"),
            (hard("-5%"), &memory, "is neither"),
            (hard("10Mb"), &memory, "is neither"),
        ],
    );
}

#[test]
fn kubelet_eviction_grace_periods() {
    check_table(
        &class(),
        &[
            (
                kubelet(json!({"evictionSoft": {"memory.available": "5%"}})),
                &at(".evictionSoft"),
                "each signal of `evictionSoft`",
            ),
            (
                kubelet(json!({"evictionSoftGracePeriod": {"memory.available": "1m"}})),
                &at(".evictionSoftGracePeriod"),
                "each signal of `evictionSoftGracePeriod`",
            ),
            (
                kubelet(
                    json!({"evictionSoft": {"memory.available": "5%"}, "evictionSoftGracePeriod": {"pid.available": "1m"}}),
                ),
                &at(".evictionSoft"),
                "each signal of `evictionSoft`",
            ),
        ],
    );
    let grace = |period: &str| {
        kubelet(json!({"evictionSoft": {"pid.available": "5%"}, "evictionSoftGracePeriod": {"pid.available": period}}))
    };
    let period = at(".evictionSoftGracePeriod[pid.available]");
    check_table(
        &class(),
        &[
            (grace("1m30s"), OK, ""),
            (grace("1.5h"), OK, ""),
            (grace("soon"), &period, "must be a duration"),
            (grace("5"), &period, "must be a duration"),
        ],
    );
}

#[test]
fn disks() {
    let ebs = |ebs: Value| spec(json!({"blockDeviceMappings": [{"deviceName": "/dev/xvda", "ebs": ebs}]}));
    let size = |size: &str| ebs(json!({"volumeSize": size}));
    let at = |rest: &str| format!("spec.blockDeviceMappings{rest}");
    let root = |first: Value, second: Value| {
        spec(
            json!({"blockDeviceMappings": [{"deviceName": "a", "rootVolume": first}, {"deviceName": "b", "rootVolume": second}]}),
        )
    };
    check_table(
        &class(),
        &[
            (size("1Gi"), OK, ""),
            (size("100Gi"), OK, ""),
            (size("59000Gi"), OK, ""),
            (size("64000G"), OK, ""),
            (size("58Ti"), OK, ""),
            (size("64T"), OK, ""),
            (size("0Gi"), &at("[0].ebs.volumeSize"), "is malformed"),
            (size("59001Gi"), &at("[0].ebs.volumeSize"), "is malformed"),
            (size("64001G"), &at("[0].ebs.volumeSize"), "is malformed"),
            (size("59Ti"), &at("[0].ebs.volumeSize"), "is malformed"),
            (size("65T"), &at("[0].ebs.volumeSize"), "is malformed"),
            (size("100Mi"), &at("[0].ebs.volumeSize"), "is malformed"),
            (size("100"), &at("[0].ebs.volumeSize"), "is malformed"),
            (size("1.5Ti"), &at("[0].ebs.volumeSize"), "is malformed"),
            (ebs(json!({"volumeSize": 100})), &at("[0].ebs.volumeSize"), "must be a string"),
            (ebs(json!({"snapshotID": "snap-1"})), OK, ""),
            (ebs(json!({})), &at("[0].ebs"), "needs `snapshotID` or `volumeSize`"),
            (ebs(json!({"snapshotID": "snap-1", "volumeInitializationRate": 100})), OK, ""),
            (ebs(json!({"snapshotID": "snap-1", "volumeInitializationRate": 300})), OK, ""),
            (
                ebs(json!({"volumeSize": "1Gi", "volumeInitializationRate": 100})),
                &at("[0].ebs"),
                "needs a `snapshotID`",
            ),
            (ebs(json!({"snapshotID": "", "volumeInitializationRate": 100})), &at("[0].ebs"), "needs a `snapshotID`"),
            (
                ebs(json!({"snapshotID": "s", "volumeInitializationRate": 99})),
                &at("[0].ebs.volumeInitializationRate"),
                "at least 100",
            ),
            (
                ebs(json!({"snapshotID": "s", "volumeInitializationRate": 301})),
                &at("[0].ebs.volumeInitializationRate"),
                "at most 300",
            ),
            (
                ebs(
                    json!({"volumeSize": "1Gi", "volumeType": "gp3", "iops": 3000, "throughput": 125, "encrypted": true, "kmsKeyID": "k", "deleteOnTermination": true}),
                ),
                OK,
                "",
            ),
            (ebs(json!({"volumeSize": "1Gi", "volumeType": "gp4"})), &at("[0].ebs.volumeType"), "`gp3`"),
            (ebs(json!({"volumeSize": "1Gi", "iops": "3000"})), &at("[0].ebs.iops"), "must be a whole number"),
            (ebs(json!({"volumeSize": "1Gi", "encrypted": "true"})), &at("[0].ebs.encrypted"), "must be true or false"),
            (root(json!(true), json!(false)), OK, ""),
            (root(json!(false), json!(false)), OK, ""),
            (root(json!(true), json!(null)), OK, ""),
            (root(json!(true), json!(true)), &at(""), "at most one"),
            (spec(json!({"blockDeviceMappings": vec![json!({"deviceName": "a"}); 50]})), OK, ""),
            (spec(json!({"blockDeviceMappings": vec![json!({"deviceName": "a"}); 51]})), &at(""), "at most 50"),
            (spec(json!({"instanceStorePolicy": "RAID0"})), OK, ""),
            (spec(json!({"instanceStorePolicy": "RAID1"})), "spec.instanceStorePolicy", "`RAID0`"),
        ],
    );
}

#[test]
fn network_interfaces() {
    let with = |list: Value| spec(json!({"networkInterfaces": list}));
    let interface = |card: i64, device: i64, kind: &str| json!({"networkCardIndex": card, "deviceIndex": device, "interfaceType": kind});
    let at = |rest: &str| format!("spec.networkInterfaces{rest}");
    let primary = interface(0, 0, "interface");
    check_table(
        &class(),
        &[
            (with(json!([])), OK, ""),
            (with(json!([primary])), OK, ""),
            (with(json!([primary, interface(0, 1, "efa-only"), interface(1, 0, "efa-only")])), OK, ""),
            (with(json!([primary, interface(0, 1, "interface")])), OK, ""),
            (with(json!([interface(0, 1, "interface")])), &at(""), "primary"),
            (with(json!([interface(1, 0, "interface")])), &at(""), "primary"),
            (with(json!([interface(0, 0, "efa-only")])), &at(""), "primary"),
            (with(json!([primary, primary])), &at(""), "once"),
            (with(json!([primary, interface(0, 0, "efa-only")])), &at(""), "once"),
            (
                with(json!([primary, interface(1, 0, "efa-only"), interface(1, 1, "efa-only")])),
                &at(""),
                "one `efa-only`",
            ),
            (with(json!([primary, interface(-1, 0, "interface")])), &at("[1].networkCardIndex"), "at least 0"),
            (with(json!([primary, interface(0, -1, "interface")])), &at("[1].deviceIndex"), "at least 0"),
            (with(json!([primary, interface(0, 1, "efa")])), &at("[1].interfaceType"), "`efa-only`"),
            (with(json!([{"networkCardIndex": 0, "deviceIndex": 0}])), &at("[0].interfaceType"), "must be set"),
            (
                with(json!([{"deviceIndex": 0, "interfaceType": "interface"}])),
                &at("[0].networkCardIndex"),
                "must be set",
            ),
            (
                with(json!([{"networkCardIndex": 0, "interfaceType": "interface"}])),
                &at("[0].deviceIndex"),
                "must be set",
            ),
            (with((0..151).map(|i| interface(i, 0, "interface")).collect()), &at(""), "at most 150"),
        ],
    );
}

#[test]
fn metadata_connections_and_the_rest() {
    let options = |options: Value| spec(json!({"metadataOptions": options}));
    let tracking = |tracking: Value| spec(json!({"connectionTracking": tracking}));
    let o = |rest: &str| format!("spec.metadataOptions{rest}");
    let t = |rest: &str| format!("spec.connectionTracking{rest}");
    check_table(
        &class(),
        &[
            (options(json!({})), OK, ""),
            (
                options(
                    json!({"httpEndpoint": "disabled", "httpProtocolIPv6": "enabled", "httpTokens": "optional", "httpPutResponseHopLimit": 64}),
                ),
                OK,
                "",
            ),
            (options(json!({"httpEndpoint": "on"})), &o(".httpEndpoint"), "`disabled`"),
            (options(json!({"httpProtocolIPv6": "on"})), &o(".httpProtocolIPv6"), "`disabled`"),
            (options(json!({"httpTokens": "never"})), &o(".httpTokens"), "`optional`"),
            (options(json!({"httpPutResponseHopLimit": 0})), &o(".httpPutResponseHopLimit"), "at least 1"),
            (options(json!({"httpPutResponseHopLimit": 65})), &o(".httpPutResponseHopLimit"), "at most 64"),
            (tracking(json!({"tcpEstablishedTimeout": 60})), OK, ""),
            (tracking(json!({"tcpEstablishedTimeout": 432_000, "udpStreamTimeout": 180, "udpTimeout": 60})), OK, ""),
            (tracking(json!({})), &t(""), "needs"),
            (tracking(json!({"tcpEstablishedTimeout": 59})), &t(".tcpEstablishedTimeout"), "at least 60"),
            (tracking(json!({"tcpEstablishedTimeout": 432_001})), &t(".tcpEstablishedTimeout"), "at most 432000"),
            (tracking(json!({"udpStreamTimeout": 59})), &t(".udpStreamTimeout"), "at least 60"),
            (tracking(json!({"udpStreamTimeout": 181})), &t(".udpStreamTimeout"), "at most 180"),
            (tracking(json!({"udpTimeout": 29})), &t(".udpTimeout"), "at least 30"),
            (tracking(json!({"udpTimeout": 61})), &t(".udpTimeout"), "at most 60"),
            (spec(json!({"cpuOptions": {"nestedVirtualization": "enabled"}})), OK, ""),
            (spec(json!({"enclaveOptions": {"enabled": true}})), OK, ""),
            (spec(json!({"enclaveOptions": {}})), "spec.enclaveOptions.enabled", "must be set"),
            (
                spec(json!({"cpuOptions": {"nestedVirtualization": "yes"}})),
                "spec.cpuOptions.nestedVirtualization",
                "`disabled`",
            ),
            (
                spec(
                    json!({"detailedMonitoring": true, "associatePublicIPAddress": false, "context": "c", "userData": "x"}),
                ),
                OK,
                "",
            ),
            (spec(json!({"associatePublicIPAddress": "no"})), "spec.associatePublicIPAddress", "must be true or false"),
            (spec(json!({"ipPrefixCount": 0})), OK, ""),
            (spec(json!({"ipPrefixCount": -1})), "spec.ipPrefixCount", "at least 0"),
            (
                json!({"status": {"capacityReservations": [{"id": "x"}]}}),
                "status.capacityReservations[0].ownerID",
                "must be set",
            ),
        ],
    );
}
