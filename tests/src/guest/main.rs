//! What runs inside a world's namespaces and machines: one program, called by the names of those it stands in for.
//!
//! ```text
//!   cloud-init init | final   keeps the user data; runs what EC2 would run of it
//!   nodeadm init              renders what EKS's nodeadm renders, starts containerd and the kubelet
//!   imds PATH                 what metadata has there
//!   aws eks get-token         the token by which a kubelet is known to the cluster
//!   device-plugin FILE        registers devices with the kubelet
//! ```

mod cloud_init;
mod device_plugin;
mod get_token;
mod metadata;
mod nodeadm;
mod user_data;

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut words = std::env::args();
    let called = words.next().unwrap_or_default();
    let called = called.rsplit('/').next().unwrap_or_default().to_owned();
    let name = if called == "muster-guest" { words.next().unwrap_or_default() } else { called };
    let words: Vec<String> = words.collect();
    match run(&name, &words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("{name}: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn run(name: &str, words: &[String]) -> anyhow::Result<()> {
    match (name, words) {
        ("cloud-init", [stage]) if stage == "init" => cloud_init::init(),
        ("cloud-init", [stage]) if stage == "final" => cloud_init::last(),
        ("nodeadm", [command, words @ ..]) if command == "init" => nodeadm::init(words),
        ("aws", [eks, command, words @ ..]) if eks == "eks" && command == "get-token" => {
            print(&get_token::get_token(words)?);
            Ok(())
        }
        ("device-plugin", [file]) => device_plugin::serve(file),
        ("imds", [path]) => {
            print(&metadata::Metadata::connect()?.text(path)?);
            Ok(())
        }
        _ => anyhow::bail!("unknown program, or not its arguments: {words:?}"),
    }
}

#[expect(clippy::print_stderr, reason = "a program that runs inside a machine writes to its console")]
fn say(line: &str) {
    eprintln!("{line}");
}

#[expect(clippy::print_stdout, reason = "the program that it stands in for answers there")]
fn print(line: &str) {
    println!("{line}");
}
