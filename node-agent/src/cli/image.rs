//! Looking at a machine as an image under construction. Nothing is changed and nothing is run.

use std::path::Path;

use muster_bootstrap::image::{BINARIES, DRIVERS, Image, LEFTOVERS};

use crate::probes::kubelet::architecture;
#[cfg(target_os = "linux")]
use crate::probes::machine::why_refused;

/// Collects what the rules ask about the file system at `root`.
pub(super) fn look(root: &Path) -> Image {
    let under = |path: &str| root.join(path.trim_start_matches('/'));
    // An empty machine-id is how systemd marks an image; a leftover has something in it.
    let is_there = |path: &str| std::fs::metadata(under(path)).is_ok_and(|it| it.is_dir() || it.len() > 0);
    Image {
        leftovers: LEFTOVERS.iter().map(|(path, _)| *path).filter(|path| is_there(path)).collect(),
        drivers: DRIVERS.iter().filter(|(_, path)| under(path).exists()).map(|(name, _)| *name).collect(),
        refused: BINARIES.iter().filter_map(|path| Some((*path, why_refused(&under(path))?))).collect(),
        binaries: BINARIES.iter().map(|path| (*path, architecture(&under(path)).ok())).collect(),
    }
}

/// The containerd of the image, by its notes.
pub(super) fn containerd_version(root: &Path) -> Option<String> {
    let text = std::fs::read_to_string(root.join("etc/eks/containerd-version.txt")).ok()?;
    muster_bootstrap::image::program_version(&text).map(ToOwned::to_owned)
}

/// An image of another system is looked at in its files only.
#[cfg(not(target_os = "linux"))]
fn why_refused(_: &Path) -> Option<String> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_bootstrap::question::Arch;

    #[test]
    fn what_a_joined_node_left_is_seen() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, bytes: &[u8]| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, bytes).unwrap();
        };
        write("etc/machine-id", b"");
        write("var/lib/kubelet/kubeconfig", b"apiVersion: v1");
        let mut elf = b"\x7fELF\x02\x01\x01".to_vec();
        elf.resize(18, 0);
        elf.extend([183, 0]);
        write("usr/bin/kubelet", &elf);
        let image = look(root.path());
        assert_eq!(image.leftovers, ["/var/lib/kubelet/kubeconfig"]);
        assert!(image.binaries.contains(&("/usr/bin/kubelet", Some(Some(Arch::Arm64)))), "{image:?}");
        assert!(image.binaries.contains(&("/usr/bin/containerd", None)), "{image:?}");
        assert!(image.drivers.is_empty(), "{image:?}");
        #[cfg(unix)]
        assert_eq!(image.refused, [("/usr/bin/kubelet", "mode 0644".to_owned())]);
        write("usr/bin/nvidia-smi", b"");
        assert_eq!(look(root.path()).drivers, ["nvidia"]);
    }
}
