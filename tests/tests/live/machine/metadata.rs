//! The metadata service as a machine sees it.

use jiff::{SignedDuration, Timestamp};
use muster_tests::imds::{Asked, verify};
use muster_tests::instances::{Node, Site};
use muster_tests::machine::Image;
use muster_tests::{Ground, on_site};

use super::MOST;

async fn booted(site: &Site) -> Node {
    let mut instance = site.instance();
    instance.user_data = Some(b"#!/bin/sh\n".to_vec());
    let node = site.boot(instance, Image::Bare, |_| {}).await.unwrap();
    node.machine.booted(MOST).await.unwrap();
    node
}

#[test]
fn a_machine_reads_its_own_metadata_and_no_other() {
    on_site("metadata", Ground::Network, async |case| {
        let site = case.site();
        let (one, two) = tokio::join!(booted(site), booted(site));
        for node in [&one, &two] {
            let id = node.machine.run(["imds", "meta-data/instance-id"]).await.unwrap();
            assert_eq!(id.trim(), node.served.instance.instance_id);
        }
        assert_eq!(one.machine.run(["imds", "user-data"]).await.unwrap().trim(), "#!/bin/sh");
        let document = one.machine.run(["imds", "dynamic/instance-identity/document"]).await.unwrap();
        let signed = one.machine.run(["imds", "dynamic/instance-identity/rsa2048"]).await.unwrap();
        let certificate = site.metadata().authority().certificate();
        assert_eq!(verify(&signed, &certificate).unwrap(), document.trim_end());
        let asked = one.served.asked();
        let first = Asked {
            method: "PUT".into(),
            path: "/latest/api/token".into(),
            from: one.served.instance.address,
            status: 200,
        };
        assert_eq!(asked[0], first);

        assert!(one.machine.run(["imds", "meta-data/spot/instance-action"]).await.is_err(), "nothing is said yet");
        one.served.interrupt("terminate", Timestamp::UNIX_EPOCH + SignedDuration::from_mins(2));
        let action = one.machine.run(["imds", "meta-data/spot/instance-action"]).await.unwrap();
        assert_eq!(action.trim(), r#"{"action":"terminate","time":"1970-01-01T00:02:00Z"}"#);
        assert!(two.machine.run(["imds", "meta-data/spot/instance-action"]).await.is_err(), "it was for the other");

        one.served.fail("dynamic", 500);
        let error = one.machine.run(["imds", "dynamic/instance-identity/document"]).await.unwrap_err();
        assert!(error.to_string().contains("status 500"), "{error}");
        site.terminate(one).await.unwrap();
        site.terminate(two).await.unwrap();
    });
}

/// A network namespace behind the machine's, as a pod's is: one hop further.
const POD: &str =
    "ip netns add pod && ip link add v0 type veth peer name eth0 netns pod && ip addr add 100.64.1.1/32 dev v0
    ip link set v0 up && ip route add 100.64.1.2/32 dev v0 && echo 1 >/proc/sys/net/ipv4/ip_forward
    ip -n pod addr add 100.64.1.2/32 dev eth0 && ip -n pod link set eth0 up && ip -n pod link set lo up
    ip -n pod route add 100.64.1.1 dev eth0 && ip -n pod route add default via 100.64.1.1";

#[test]
fn a_pod_gets_no_token_when_the_hop_limit_is_one() {
    on_site("hops", Ground::Network, async |case| {
        let site = case.site();
        for (hops, reaches) in [(2, true), (1, false)] {
            let mut instance = site.instance();
            instance.options.hop_limit = hops;
            let node = site.boot(instance, Image::Bare, |_| {}).await.unwrap();
            node.machine.booted(MOST).await.unwrap();
            let pods = node.machine.addresses().pods.clone();
            let setup = POD.replace("100.64.1.", pods.strip_suffix("0/24").unwrap());
            node.machine.run(["sh", "-ec", &setup]).await.unwrap();
            let ask = "exec 3<>/dev/tcp/169.254.169.254/80
                printf 'PUT /latest/api/token HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\nX-aws-ec2-metadata-token-ttl-seconds: 60\\r\\n\\r\\n' >&3
                read -t 2 -r -u 3 line && echo \"$line\"";
            let answer = node.machine.output(["ip", "netns", "exec", "pod", "bash", "-c", ask], "").await.unwrap();
            let said = String::from_utf8_lossy(&answer.stdout).into_owned();
            assert_eq!(said.starts_with("HTTP/1.1 200"), reaches, "hop limit {hops}: {said:?} {answer:?}");
            node.machine.run(["imds", "meta-data/instance-id"]).await.expect("the node itself always gets one");
            site.terminate(node).await.unwrap();
        }
    });
}
