//! Reads the inputs of `validate`: files, the kubelet's version and flags, the image. The pure rules then judge them.

use std::io::Read;
use std::path::Path;

use muster_bootstrap::image::WINDOWS;
use muster_bootstrap::input::File;
use muster_bootstrap::kubelet::arguments::FlagSet;
use muster_bootstrap::kubelet::instance::Figures;
use muster_bootstrap::kubelet::taints::Taint;
use muster_bootstrap::kubelet::version::Minor;
use muster_bootstrap::userdata::UserData;
use muster_bootstrap::{BootstrapInput, Report, validate, validate_node_class};

use super::arguments::ValidateArguments;
use super::failure::Failure;
use super::image;
use super::node_class;
use crate::probes::kubelet::{self, Kubelet, KubeletFault};

/// Maximum size of an input, larger than any user data, manifest or configuration. It stops the read of an endless
/// device file.
const LARGEST: u64 = 1 << 20;

/// Reads all inputs named by the arguments, and judges them.
pub(super) fn read(
    arguments: ValidateArguments,
    stdin: &mut dyn Read,
    notes: &mut Vec<String>,
) -> Result<Report, Failure> {
    if names_no_input(&arguments) {
        let message = "nothing to validate\n\nhint: give --user-data FILE, -f with an EC2NodeClass, --env-file FILE, \
                       --kubelet-config FILE, --kubelet PATH or --image";
        return Err(Failure::Usage(message.to_owned()));
    }
    let ValidateArguments {
        user_data,
        file,
        ami_family,
        kubelet_version,
        kubelet,
        arch,
        require_taints,
        require_labels,
        env_file,
        kubelet_config,
        image,
        instance_type,
        // Only named files are read anyway, so `--offline` has no effect.
        offline: _,
        output: _,
    } = arguments;
    let asked = kubelet.as_deref().map(ask).transpose()?.unwrap_or_default();
    let Kubelet { flags: asked_flags, arch: kubelet_arch } = asked;
    let flags = of_version(asked_flags.unwrap_or_default(), kubelet_version, notes)?;
    if let Some(name) = instance_type.as_deref().filter(|name| Figures::of(name).is_none()) {
        notes.push(format!(
            "instance type `{name}` is not among the types known: its pods, addresses and drivers are not judged"
        ));
    }
    let mut input = BootstrapInput {
        user_data: None,
        family: ami_family,
        is_of_node_class: false,
        flags,
        arch,
        kubelet_arch: kubelet_arch.zip(kubelet.as_ref()).map(|(arch, path)| (arch, path.display().to_string())),
        required_taints: require_taints,
        required_labels: require_labels,
        environment_file: env_file.as_deref().map(|path| text_file(path, stdin)).transpose()?,
        kubelet_command: None,
        kubelet_config: kubelet_config.iter().map(|path| text_file(path, stdin)).collect::<Result<_, _>>()?,
        image: None,
        instance_type,
        containerd_version: None,
        class: None,
    };
    if image {
        read_image(&mut input, notes)?;
    }
    if let Some(path) = file {
        let manifest = text_file(&path, stdin)?;
        let class = node_class::read(&manifest.name, &manifest.text, notes)?;
        input.family = Some(input.family.unwrap_or(class.family));
        input.required_taints.push(Taint::unregistered());
        input.class = Some(class.settings);
        return Ok(validate_node_class(input, &class.name, &class.user_data, &class.launch));
    }
    if let Some(path) = user_data {
        let bytes = read_bytes(&path, stdin)?;
        input.user_data = Some(UserData::read(&bytes, "user-data"));
    }
    Ok(validate(&input))
}

/// Returns true if the arguments name nothing to read.
fn names_no_input(arguments: &ValidateArguments) -> bool {
    arguments.user_data.is_none()
        && arguments.file.is_none()
        && arguments.env_file.is_none()
        && arguments.kubelet_config.is_empty()
        && !arguments.image
        && arguments.kubelet.is_none()
}

/// Reads the image of this machine, which must be of the input's family.
fn read_image(input: &mut BootstrapInput, notes: &mut Vec<String>) -> Result<(), Failure> {
    let places = image::places(input.family)?;
    input.image = Some(image::look(image::root(), places));
    input.containerd_version = image::containerd_version(image::root());
    if *places == WINDOWS {
        notes.push("not on this platform: the machine id, cloud-init, nodeadm, runc and drivers of Neuron".to_owned());
    }
    Ok(())
}

/// Returns the flags of the kubelet, with its version if an argument names one.
fn of_version(flags: FlagSet, named: Option<Minor>, notes: &mut Vec<String>) -> Result<FlagSet, Failure> {
    if let (Some(of_binary), Some(named)) = (flags.version, named)
        && of_binary != named
    {
        let message = format!("the kubelet is not {named} but {of_binary}\n\nhint: leave --kubelet-version away");
        return Err(Failure::Usage(message));
    }
    let version = named.or(flags.version);
    if let Some(version) = version.filter(|version| !version.is_known()) {
        notes.push(format!(
            "kubelet {version} is not among the versions known, 1.29 to 1.37: flags that came or went are not judged"
        ));
    }
    Ok(FlagSet { version, ..flags })
}

fn ask(path: &Path) -> Result<Kubelet, Failure> {
    let name = path.display();
    kubelet::ask(path).map_err(|fault| match fault {
        KubeletFault::Unreadable(error) => Failure::unreadable(&name.to_string(), &error),
        KubeletFault::Silent(reason) => Failure::Outside(format!(
            "`{name}` does not answer: {reason}\n\nhint: name a kubelet for this machine, or use --kubelet-version"
        )),
    })
}

fn name_of(path: &Path) -> String {
    if path.as_os_str() == "-" { "stdin".to_owned() } else { path.display().to_string() }
}

fn read_bytes(path: &Path, stdin: &mut dyn Read) -> Result<Vec<u8>, Failure> {
    let name = name_of(path);
    let failed = |error| Failure::unreadable(&name, &error);
    let mut bytes = Vec::new();
    let limit = LARGEST + 1;
    if path.as_os_str() == "-" {
        stdin.take(limit).read_to_end(&mut bytes).map_err(failed)?;
    } else {
        std::fs::File::open(path).map_err(failed)?.take(limit).read_to_end(&mut bytes).map_err(failed)?;
    }
    if bytes.len() as u64 == limit {
        let message = format!(
            "`{name}` is larger than 1 MiB\n\nhint: give the document itself, no archive, log or image: EC2 takes 16 KiB \
             of user data, and a manifest or a configuration has no more"
        );
        return Err(Failure::Usage(message));
    }
    Ok(bytes)
}

fn text_file(path: &Path, stdin: &mut dyn Read) -> Result<File, Failure> {
    let bytes = read_bytes(path, stdin)?;
    Ok(File { name: name_of(path), text: String::from_utf8_lossy(&bytes).into_owned() })
}
