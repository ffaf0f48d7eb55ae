//! Collects the facts of a preflight in parallel. Constant facts, and recent good answers that cost a round trip, are
//! cached.

use std::path::Path;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use muster_bootstrap::input::Arch;
use muster_bootstrap::kubelet::arguments::FlagSet;
use muster_bootstrap::userdata::{UserData, base64};
use muster_bootstrap::{BootstrapInput, validate};
use tokio::time::sleep;

#[cfg(target_os = "linux")]
use super::cri;
use super::documents::{self, Documents};
use super::kubeconfig::{Kubeconfig, KubeconfigFault, Token};
use super::{api, kubelet, machine, metadata, supervisor};
use crate::preflight::Facts;
use crate::preflight::credentials::CredentialCheck;
use crate::preflight::identity::Metadata;
use crate::preflight::proxy::Route;
use crate::preflight::way::{self, Way};

/// Time that a good answer of the API server is cached.
const BELIEVED: SignedDuration = SignedDuration::from_secs(60);

/// Collector of facts, with its caches.
#[derive(Default)]
pub struct Gatherer {
    endpoint: String,
    has_gathered: bool,
    metadata: Option<Metadata>,
    flags: Option<(FlagSet, Option<Arch>)>,
    token: Option<Token>,
    way: Option<(Kubeconfig, Way, Timestamp)>,
    standing: Option<(Kubeconfig, CredentialCheck, Timestamp)>,
}

impl Gatherer {
    /// Returns a collector that reads instance metadata at this URL.
    #[must_use]
    pub fn new(metadata_endpoint: String) -> Self {
        Self { endpoint: metadata_endpoint, ..Self::default() }
    }

    /// Collects the facts. `is_bootstrapped` is true if the kubelet is about to start, so that missing files will not
    /// be written any more.
    pub async fn gather(&mut self, is_bootstrapped: bool) -> Facts {
        let known = self.metadata.take().filter(|it| matches!(it, Metadata::Answers(_)));
        let metadata = async {
            match known {
                Some(known) => known,
                None => ask_metadata(&self.endpoint, self.has_gathered).await,
            }
        };
        // Read before the units: otherwise a kubelet that starts in between would look like another process on its
        // ports.
        let ports = machine::ports();
        let unit = async { supervisor::text_of("kubelet").await };
        let (metadata, flags, unit, manager, units) = tokio::join!(
            metadata,
            ask_kubelet(self.flags.take()),
            unit,
            supervisor::environment(),
            supervisor::units()
        );
        let documents = documents::read(unit.as_deref(), manager.as_deref());
        let name =
            documents.command.as_ref().and_then(|(_, arguments)| documents::value_of(arguments, "hostname-override"));
        let name = name.map(|name| name.trim().to_lowercase());
        let config = kubeconfig(&documents, &metadata, &flags.0);
        let config = config.map(|config| config.map(|config| config.within(&documents.environment)));
        let has_proxy = matches!(&config, Some(Ok(config)) if matches!(config.route(), Route::Other(_)));
        self.has_gathered = true;
        self.metadata = Some(metadata.clone());
        self.flags = Some(flags.clone());
        #[cfg(target_os = "linux")]
        let sandbox = cri::sandbox().await;
        // On Windows, containerd's pipe is not queried.
        #[cfg(not(target_os = "linux"))]
        let sandbox = None;
        let mut devices = machine::hardware();
        devices.instance_type = metadata.instance().map(|it| it.instance_type.clone());
        let (way, standing) = match config {
            Some(Ok(config)) => self.reach(config, name.as_deref()).await,
            Some(Err((path, why))) => (None, Some(CredentialCheck::Kubeconfig(path, why.to_string()))),
            None => (None, None),
        };
        let kubelet = units.iter().flatten().find(|unit| unit.name == "kubelet");
        let is_kubelet_active = kubelet.is_some_and(crate::watch::units::Unit::is_active);
        Facts {
            now: Timestamp::now(),
            family: machine::family(),
            arch: std::env::consts::ARCH.parse().ok(),
            metadata,
            flags: flags.0,
            kubelet_arch: flags.1.map(|arch| (arch, machine::KUBELET.to_owned())),
            command: documents.command,
            config: documents.config,
            missing: documents.missing,
            has_proxy,
            machine: machine::read(ports),
            way,
            standing,
            devices,
            sandbox,
            units: units.unwrap_or_default(),
            // Set by the course.
            has_joined: false,
            is_kubelet_active,
            is_bootstrapped,
        }
    }

    async fn reach(&mut self, config: Kubeconfig, name: Option<&str>) -> (Option<Way>, Option<CredentialCheck>) {
        let now = Timestamp::now();
        // Ages are negative if the clock was set back.
        let is_young = |at: &Timestamp| (SignedDuration::ZERO..BELIEVED).contains(&now.duration_since(*at));
        let is_believed = |of: &Kubeconfig, at: &Timestamp| *of == config && is_young(at);
        // A reachable API server with a fault (such as a wrong clock) is not cached: the fault may have been fixed.
        let is_good = |way: &Way| matches!(way, Way::Open { .. }) && way::check(way, now).is_empty();
        let way = self.way.take().filter(|(of, way, at)| is_believed(of, at) && is_good(way));
        let standing = self.standing.take();
        let standing =
            standing.filter(|(of, it, at)| is_believed(of, at) && matches!(it, CredentialCheck::Known { .. }));
        let go = async {
            match way {
                Some((_, way, at)) => (way, at),
                None => (api::way(&config).await, now),
            }
        };
        let token = &mut self.token;
        let ask = async {
            match standing {
                Some((_, standing, at)) => Some((standing, at)),
                None => api::standing(&config, name, token).await.map(|it| (it, now)),
            }
        };
        let ((way, gone), standing) = tokio::join!(go, ask);
        // If the API server cannot be reached, that explains the missing identity.
        let standing =
            standing.filter(|(it, _)| matches!(way, Way::Open { .. }) || matches!(it, CredentialCheck::Known { .. }));
        self.way = Some((config.clone(), way.clone(), gone));
        self.standing = standing.clone().map(|(it, at)| (config, it, at));
        (Some(way), standing.map(|(it, _)| it))
    }
}

/// Reads instance metadata. The first time it retries, since the network is unstable right after an instance starts.
async fn ask_metadata(endpoint: &str, has_gathered: bool) -> Metadata {
    const PAUSE: Duration = Duration::from_millis(500);
    let tries = if has_gathered { 1 } else { 4 };
    let mut found = metadata::read(endpoint).await;
    for _ in 1..tries {
        if !matches!(found, Metadata::Silent(_)) {
            break;
        }
        sleep(PAUSE).await;
        found = metadata::read(endpoint).await;
    }
    found
}

/// Returns version and flags of the kubelet, from its binary, else the version recorded in the image. Cached once
/// known.
async fn ask_kubelet(known: Option<(FlagSet, Option<Arch>)>) -> (FlagSet, Option<Arch>) {
    if let Some(known) = known.filter(|(flags, _)| flags.version.is_some()) {
        return known;
    }
    let asked = tokio::task::spawn_blocking(|| kubelet::ask(Path::new(machine::KUBELET))).await;
    match asked {
        Ok(Ok(kubelet)) => (kubelet.flags.unwrap_or_default(), kubelet.arch),
        _ => {
            let version = machine::kubelet_version().and_then(|text| text.trim().parse().ok());
            (FlagSet { version, of_binary: None }, None)
        }
    }
}

/// Returns the kubeconfig that the kubelet will use: the file, or the one that the bootstrap will write from the user
/// data.
fn kubeconfig(
    documents: &Documents,
    metadata: &Metadata,
    flags: &FlagSet,
) -> Option<Result<Kubeconfig, (String, KubeconfigFault)>> {
    if let Some((path, text)) = &documents.kubeconfig {
        return Some(Kubeconfig::of_file(path, text).map_err(|why| (path.clone(), why)));
    }
    let instance = metadata.instance()?;
    let user_data = UserData::read(instance.user_data.as_deref()?, "user-data");
    let effective = validate(&BootstrapInput {
        user_data: Some(user_data),
        family: machine::family(),
        flags: flags.clone(),
        ..BootstrapInput::default()
    })
    .effective;
    let authority = base64(effective.certificate_authority?.trim().as_bytes())?;
    let (endpoint, cluster) = (effective.endpoint?, effective.cluster_name?);
    Some(Ok(Kubeconfig::of_eks(endpoint, authority, &cluster, &instance.region, machine::TOKEN_PROGRAM)))
}
