//! Inspection of this machine as an image under construction. Nothing is changed or run.

use std::path::{Path, PathBuf};

use muster_bootstrap::Family;
use muster_bootstrap::image::{Image, LINUX, Places, WINDOWS};

use super::failure::Failure;
use crate::probes::kubelet::architecture;
#[cfg(target_os = "linux")]
use crate::probes::machine::why_refused;

/// Returns the paths to inspect for an image of `family`. Fails if the family is of another platform than this machine.
pub(super) fn places(family: Option<Family>) -> Result<&'static Places, Failure> {
    let is_windows = family.map_or(cfg!(windows), Family::is_windows);
    if is_windows == cfg!(windows) {
        return Ok(if is_windows { &WINDOWS } else { &LINUX });
    }
    let (here, family) = (std::env::consts::OS, family.map(Family::name).unwrap_or_default());
    Err(Failure::Usage(format!(
        "`--image` looks at this machine, which runs {here}, and the family is {family}\n\nhint: run the agent of that \
         platform in the machine that becomes the image"
    )))
}

/// Returns the folder that the paths are relative to.
pub(super) fn root() -> &'static Path {
    Path::new(if cfg!(windows) { r"C:\" } else { "/" })
}

/// Collects the facts that the image rules need from the file system at `root`.
pub(super) fn look(root: &Path, places: &'static Places) -> Image {
    let under = |path: &str| under(root, path);
    // systemd marks an image by an empty machine-id. Only non-empty files are leftovers.
    let is_there = |path: &str| std::fs::metadata(under(path)).is_ok_and(|it| it.is_dir() || it.len() > 0);
    // Windows files have no executable bit.
    let refused = |path: &&'static str| Some((*path, why_refused(&under(path)).filter(|_| *places == LINUX)?));
    Image {
        places: Some(places),
        leftovers: places.leftovers.iter().map(|(path, _)| *path).filter(|path| is_there(path)).collect(),
        drivers: places.drivers.iter().filter(|(_, path)| under(path).exists()).map(|(name, _)| *name).collect(),
        refused: places.binaries.iter().filter_map(refused).collect(),
        binaries: places.binaries.iter().map(|path| (*path, architecture(&under(path)).ok())).collect(),
    }
}

/// Converts a path of the image to one below `root`, on any platform.
fn under(root: &Path, path: &str) -> PathBuf {
    match path.strip_prefix(r"C:\") {
        Some(path) => path.split('\\').fold(root.to_owned(), |folder, step| folder.join(step)),
        None => root.join(path.trim_start_matches('/')),
    }
}

/// Returns the version of the image's containerd, as EKS records it in the image.
pub(super) fn containerd_version(root: &Path) -> Option<String> {
    let text = std::fs::read_to_string(root.join("etc/eks/containerd-version.txt")).ok()?;
    muster_bootstrap::image::program_version(&text).map(ToOwned::to_owned)
}

/// The executable bit can only be checked on Linux.
#[cfg(not(target_os = "linux"))]
fn why_refused(_: &Path) -> Option<String> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_bootstrap::input::Arch;

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
        let image = look(root.path(), &LINUX);
        assert_eq!(image.leftovers, ["/var/lib/kubelet/kubeconfig"]);
        assert!(image.binaries.contains(&("/usr/bin/kubelet", Some(Some(Arch::Arm64)))), "{image:?}");
        assert!(image.binaries.contains(&("/usr/bin/containerd", None)), "{image:?}");
        assert!(image.drivers.is_empty(), "{image:?}");
        #[cfg(unix)]
        assert_eq!(image.refused, [("/usr/bin/kubelet", "mode 0644".to_owned())]);
        write("usr/bin/nvidia-smi", b"");
        assert_eq!(look(root.path(), &LINUX).drivers, ["nvidia"]);
    }

    #[test]
    fn an_image_of_windows_is_looked_at_in_its_own_places() {
        let root = tempfile::tempdir().unwrap();
        let mut program = b"MZ".to_vec();
        program.resize(60, 0);
        program.extend(64_u32.to_le_bytes());
        program.extend(b"PE\0\0\x64\x86");
        for path in WINDOWS.binaries {
            let path = under(root.path(), path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            let is_script = path.extension().is_some_and(|it| it == "ps1");
            std::fs::write(&path, if is_script { b"# The image's." } else { program.as_slice() }).unwrap();
        }
        let image = look(root.path(), &WINDOWS);
        assert!(image.leftovers.is_empty() && image.refused.is_empty(), "{image:?}");
        assert!(image.binaries.iter().all(|(_, found)| found.is_some()), "{image:?}");
        let judged = |image| {
            muster_bootstrap::validate(&muster_bootstrap::BootstrapInput {
                image: Some(image),
                arch: Some(Arch::Amd64),
                ..Default::default()
            })
        };
        assert_eq!(judged(image).findings, []);
        let kubeconfig = under(root.path(), r"C:\ProgramData\kubernetes\kubeconfig");
        std::fs::create_dir_all(kubeconfig.parent().unwrap()).unwrap();
        std::fs::write(kubeconfig, "apiVersion: v1").unwrap();
        std::fs::remove_file(under(root.path(), r"C:\Program Files\kubernetes\kubelet.exe")).unwrap();
        let found = judged(look(root.path(), &WINDOWS)).findings;
        let codes: Vec<_> = found.iter().map(|finding| finding.verdict.code).collect();
        assert_eq!(codes, ["UD26", "KA36"], "{found:?}");
    }

    #[test]
    fn an_image_of_another_system_is_not_looked_for_here() {
        let other = if cfg!(windows) { Family::Al2023 } else { Family::Windows2022 };
        assert!(places(Some(other)).is_err());
        assert_eq!(places(None).unwrap(), if cfg!(windows) { &WINDOWS } else { &LINUX });
    }
}
