//! What is generated and checked in is what the `.proto` files say.

use std::path::Path;

use prost::Message;

/// What the agent offers on its socket, and so describes by reflection.
const AGENT: [&str; 2] = ["grpc/health/v1/health.proto", "muster/v1/admission.proto"];
/// What the controller offers.
const CONTROLLER: [&str; 5] = [
    "grpc/health/v1/health.proto",
    "muster/v1/diagnosis.proto",
    "muster/v1/enrolment.proto",
    "muster/v1/fleet.proto",
    "muster/v1/node_reports.proto",
];
/// Only asked of others.
const ASKED: [&str; 2] = ["cri/runtime/v1/images.proto", "kubelet/podresources/v1/podresources.proto"];
/// Holds a secret: what is generated to print it would print that.
const SECRET: [&str; 2] = ["muster.v1.EnrolRequest", "muster.v1.RoleProof"];

#[test]
fn the_code_is_that_of_the_protocols() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let out = tempfile::tempdir().unwrap();
    for (name, offered) in [("agent.bin", &AGENT[..]), ("controller.bin", &CONTROLLER[..])] {
        let described = protox::compile(offered, [folder]).unwrap();
        std::fs::write(out.path().join(name), described.encode_to_vec()).unwrap();
    }
    let all = protox::compile(AGENT.iter().chain(&CONTROLLER).chain(&ASKED), [folder]).unwrap();
    let generator = tonic_prost_build::configure().build_transport(false).skip_debug(SECRET).out_dir(out.path());
    // Maps of an order are looked at in one order.
    let generator = generator.btree_map(".muster.v1").codec_path("crate::codec::Codec");
    generator.compile_fds(all).unwrap();
    let mut changed = Vec::new();
    for name in ["agent.bin", "controller.bin", "grpc.health.v1.rs", "muster.v1.rs", "runtime.v1.rs", "v1.rs"] {
        let new = std::fs::read(out.path().join(name)).unwrap();
        let path = folder.join("src/generated").join(name);
        if std::fs::read(&path).unwrap_or_default() != new {
            std::fs::write(&path, new).unwrap();
            changed.push(path.display().to_string());
        }
    }
    assert!(changed.is_empty(), "written anew, look at the difference and commit it: {changed:?}");
}
