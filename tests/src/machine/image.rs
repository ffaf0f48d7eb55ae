//! Machine images: folders laid over the host's root.

use std::path::{Path, PathBuf};

use crate::error::Result;

/// What a machine boots. The host's own root is below all of them, for systemd and the tools; what is particular to the
/// host, as its enabled units, is masked by `images/base`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Image {
    /// Nothing but systemd: for tests of what stands before Kubernetes.
    Bare,
    /// As EKS's image of Amazon Linux 2023: `nodeadm-config`, cloud-init, `nodeadm-run`, containerd, kubelet.
    Al2023,
    /// As EKS's image of Amazon Linux 2: `/etc/eks/bootstrap.sh`, called by the user data.
    Al2,
    /// A folder of the test's, laid over `Bare` with containerd, the kubelet and cloud-init in it.
    Custom(PathBuf),
}

impl Image {
    /// Its folders, the uppermost last.
    pub(super) fn layers(&self) -> Result<Vec<PathBuf>> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("images");
        let mut layers = vec![folder.join("base")];
        match self {
            Self::Bare => {}
            Self::Al2023 => layers.extend([folder.join("node"), folder.join("al2023")]),
            Self::Al2 => layers.extend([folder.join("node"), folder.join("al2")]),
            Self::Custom(own) => layers.extend([folder.join("node"), own.clone()]),
        }
        for layer in &layers {
            if !layer.is_dir() {
                let what = format!("there is no image folder `{}`", layer.display());
                let hint = "give the folder that is laid over the root".to_owned();
                return Err(crate::Error::Missing { what, hint });
            }
        }
        Ok(layers)
    }
}
