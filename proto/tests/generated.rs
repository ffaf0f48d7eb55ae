//! What is generated and checked in is what the `.proto` files say.

use std::path::Path;

use prost::Message;

/// Offered by Muster, and so described by reflection.
const OFFERED: [&str; 2] = ["grpc/health/v1/health.proto", "muster/v1/admission.proto"];
/// Only asked of others.
const ASKED: [&str; 2] = ["cri/runtime/v1/images.proto", "kubelet/podresources/v1/podresources.proto"];

#[test]
fn the_code_is_that_of_the_protocols() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let out = tempfile::tempdir().unwrap();
    let described = protox::compile(OFFERED, [folder]).unwrap();
    std::fs::write(out.path().join("descriptors.bin"), described.encode_to_vec()).unwrap();
    let all = protox::compile(OFFERED.iter().chain(&ASKED), [folder]).unwrap();
    tonic_prost_build::configure().build_transport(false).out_dir(out.path()).compile_fds(all).unwrap();
    let mut changed = Vec::new();
    for name in ["descriptors.bin", "grpc.health.v1.rs", "muster.v1.rs", "runtime.v1.rs", "v1.rs"] {
        let new = std::fs::read(out.path().join(name)).unwrap();
        let path = folder.join("src/generated").join(name);
        if std::fs::read(&path).unwrap_or_default() != new {
            std::fs::write(&path, new).unwrap();
            changed.push(path.display().to_string());
        }
    }
    assert!(changed.is_empty(), "written anew, look at the difference and commit it: {changed:?}");
}
