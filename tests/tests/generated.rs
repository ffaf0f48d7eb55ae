//! What is generated and checked in is what its source says.

use std::path::Path;
use std::process::Command;

/// Writes the code of the device plugin API anew and fails when it was another.
#[test]
fn the_device_plugin_api_is_that_of_its_proto() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/guest/device_plugin");
    let out = tempfile::tempdir().unwrap();
    let files = protox::compile(["deviceplugin.proto"], [&folder]).unwrap();
    tonic_prost_build::configure().build_transport(false).out_dir(out.path()).compile_fds(files).unwrap();
    let made = out.path().join("v1beta1.rs");
    // As `cargo fmt` leaves it.
    let style = folder.join("../../../../rustfmt.toml");
    let status = Command::new("rustfmt").args(["--edition", "2024", "--config-path"]).arg(style).arg(&made).status();
    assert!(status.unwrap().success());
    let new = std::fs::read_to_string(made).unwrap();
    let path = folder.join("v1beta1.rs");
    let old = std::fs::read_to_string(&path).unwrap_or_default();
    if old != new {
        std::fs::write(&path, &new).unwrap();
        panic!("`{}` was written anew: look at the difference and commit it", path.display());
    }
}
