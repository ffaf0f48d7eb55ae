//! The programs that an image has and its folder does not hold: Kubernetes', containerd's, and those of this package that
//! stand in for cloud-init, nodeadm and the AWS command line.

use std::path::{Path, PathBuf};

use super::image::Image;
use super::spec::Spec;
use super::{guest, pod_image};
use crate::error::Result;
use crate::programs;

/// Debian's place for the network plugins of containers.
const CNI: &str = "/usr/lib/cni";

/// What is bound where. `shared` is a folder of all machines of the world.
pub(super) fn of(spec: &Spec, shared: &Path) -> Result<Vec<(PathBuf, PathBuf)>> {
    let guest = guest::path()?;
    let mut binds = vec![(guest.clone(), PathBuf::from("/usr/bin/imds"))];
    if spec.image == Image::Bare {
        return Ok(binds);
    }
    let mut bind = |from: PathBuf, at: &str| binds.push((from, PathBuf::from(at)));
    for program in ["kubelet", "containerd", "containerd-shim-runc-v2", "ctr"] {
        bind(programs::path(program)?, &format!("/usr/bin/{program}"));
    }
    for program in ["aws", "cloud-init", "device-plugin"] {
        bind(guest.clone(), &format!("/usr/bin/{program}"));
    }
    if spec.image == Image::Al2023 {
        bind(guest, "/usr/bin/nodeadm");
    }
    bind(PathBuf::from(CNI), "/opt/cni/bin");
    let images = shared.join("images.tar");
    if !images.exists() {
        // Two machines that start together write the same bytes; the second name replaces the first.
        let part = shared.join(format!("images.{}", spec.instance_id));
        pod_image::write(&part)?;
        fs_err::rename(part, &images)?;
    }
    bind(images, "/etc/eks/images.tar");
    Ok(binds)
}
