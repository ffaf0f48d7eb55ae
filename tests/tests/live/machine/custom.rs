//! An image of the test's own.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use k8s_openapi::api::core::v1::Node as KubeNode;
use kube::Api;
use kube::ResourceExt;
use muster_tests::machine::Image;
use muster_tests::{Ground, on_site, wait};

use super::{MOST, node::is_ready};

/// What somebody's own image has: a script that joins, called by the user data, and a kubelet with its own arguments.
const JOIN: &str = r#"#!/bin/sh
set -eu
mkdir -p /etc/kubernetes /var/lib/kubelet
cat >/etc/kubernetes/ca.crt
cat >/var/lib/kubelet/kubeconfig <<END
apiVersion: v1
kind: Config
current-context: own
contexts: [{name: own, context: {cluster: own, user: own}}]
clusters: [{name: own, cluster: {server: "$1", certificate-authority: /etc/kubernetes/ca.crt}}]
users:
  - name: own
    user:
      exec:
        apiVersion: client.authentication.k8s.io/v1beta1
        command: /usr/bin/aws
        args: [eks, get-token, --cluster-name, "$2"]
END
cat >/etc/kubernetes/kubelet.yaml <<END
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
failCgroupV1: false
cgroupDriver: cgroupfs
providerID: aws:///$(imds meta-data/placement/availability-zone)/$(imds meta-data/instance-id)
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
authentication:
  x509:
    clientCAFile: /etc/kubernetes/ca.crt
END
systemctl start containerd kubelet
"#;

const KUBELET: &str = "[Unit]\nAfter=containerd.service\n\n[Service]\nExecStart=/usr/bin/kubelet \
    --config /etc/kubernetes/kubelet.yaml --kubeconfig /var/lib/kubelet/kubeconfig --node-labels=example.com/image=own\n\
    Restart=on-failure\nKillMode=process\n";

fn image(folder: &Path) {
    let put = |path: &str, text: &str, mode: u32| {
        let path = folder.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    };
    put("usr/local/bin/join", JOIN, 0o755);
    put("etc/systemd/system/kubelet.service", KUBELET, 0o644);
    std::fs::create_dir_all(folder.join("etc/containerd")).unwrap();
    symlink("/etc/eks/containerd/config.toml", folder.join("etc/containerd/config.toml")).unwrap();
    let wants = folder.join("etc/systemd/system/multi-user.target.wants");
    std::fs::create_dir_all(&wants).unwrap();
    for unit in ["cloud-init.service", "cloud-final.service"] {
        symlink(format!("../{unit}"), wants.join(unit)).unwrap();
    }
}

#[test]
fn a_custom_image_joins_in_its_own_way() {
    on_site("custom", Ground::Cluster, async |case| {
        let (site, cluster) = (case.site(), case.cluster().unwrap());
        let folder = tempfile::tempdir().unwrap();
        image(folder.path());
        let mut instance = site.instance();
        let (endpoint, authority) = (cluster.inside().unwrap(), cluster.authority().unwrap());
        let script = format!("#!/bin/sh\n/usr/local/bin/join {endpoint} muster <<'END'\n{authority}END\n");
        instance.user_data = Some(script.into_bytes());
        let image = Image::Custom(folder.path().to_owned());
        let node = site.boot(instance, image, |_| {}).await.unwrap();
        let nodes: Api<KubeNode> = Api::all(cluster.client());
        let found = wait::until(nodes, &node.served.instance.host_name, MOST, "the node is Ready", is_ready).await;
        let found = found.unwrap_or_else(|error| panic!("{error}\n{}", node.machine.journal().tail(60)));
        assert_eq!(found.labels()["example.com/image"], "own");
        let id = &node.served.instance.instance_id;
        assert_eq!(found.spec.unwrap().provider_id.unwrap(), format!("aws:///us-west-2a/{id}"));
        assert!(node.machine.run(["ls", "/etc/eks/bootstrap.sh"]).await.is_err(), "nothing of EKS's images");
        site.terminate(node).await.unwrap();
    });
}

#[test]
fn an_image_that_is_not_there_is_named() {
    on_site("missing", Ground::Network, async |case| {
        let site = case.site();
        let image = Image::Custom("/nowhere/image".into());
        let error = site.boot(site.instance(), image, |_| {}).await.unwrap_err().to_string();
        assert!(error.contains("there is no image folder `/nowhere/image`"), "{error}");
    });
}
