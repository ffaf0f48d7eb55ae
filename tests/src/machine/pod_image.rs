//! The two container images that machines know: nothing can be pulled where there is no registry.

use std::path::Path;

use fs_err as fs;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::files::Files;
use crate::error::{Error, Result};

/// What a pod sandbox runs, under the name that EKS's images give it.
pub const PAUSE: &str = "localhost/kubernetes/pause:latest";
/// Busybox. It runs until it is told to end, and ends at once. Not `latest`, which a kubelet would try to pull.
pub const BUSYBOX: &str = "localhost/busybox:1";

const BINARY: &str = "/bin/busybox";
/// The names by which busybox is called in the image.
const APPLETS: [&str; 14] =
    ["cat", "echo", "env", "false", "httpd", "ip", "ls", "nc", "ping", "sh", "sleep", "test", "true", "wget"];
/// A shell that waits in `wait` takes a signal at once; one that waits for `sleep` would not, and each pod would need
/// its whole grace period to end.
const UNTIL_TOLD: [&str; 3] = ["sh", "-c", "trap 'exit 0' TERM INT; while :; do sleep 3600 & wait; done"];

/// Writes both, as a file that `ctr images import` takes.
pub(super) fn write(path: &Path) -> Result<()> {
    let busybox = fs::read(BINARY).map_err(|error| Error::Missing {
        what: format!("there is no statically linked busybox: {error}"),
        hint: "run `tests/setup`".to_owned(),
    })?;
    let layer = layer(&busybox)?;
    let config = json!({
        "architecture": "amd64",
        "os": "linux",
        "config": {"Cmd": UNTIL_TOLD, "Env": ["PATH=/bin"]},
        "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{}", digest(&layer))]},
    });
    let config = config.to_string().into_bytes();
    let name = format!("{}.json", digest(&config));
    let manifest: Value = json!([{"Config": name, "RepoTags": [PAUSE, BUSYBOX], "Layers": ["layer.tar"]}]);
    let mut archive = Files::new();
    for (name, bytes) in
        [("layer.tar", layer.as_slice()), (&name, &config), ("manifest.json", manifest.to_string().as_bytes())]
    {
        archive.put_bytes(name, bytes, 0o644)?;
    }
    archive.write(path)
}

fn layer(busybox: &[u8]) -> Result<Vec<u8>> {
    let mut layer = Files::new();
    for folder in ["bin", "dev", "etc", "proc", "sys", "tmp"] {
        layer.folder(folder)?;
    }
    layer.put_bytes("bin/busybox", busybox, 0o755)?;
    for applet in APPLETS {
        layer.link(format!("bin/{applet}"), "busybox")?;
    }
    layer.pack()
}

fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
