//! A device plugin that serves whatever devices a file says, in place of NVIDIA's or EFA's.
//!
//! ```text
//!   /run/devices/NAME.json ──► Inventory ──► ListAndWatch ──► kubelet
//!            ▲ SIGHUP: read again            Allocate
//! ```
//!
//! As the real ones it registers anew when the kubelet was restarted: it ends, and its unit starts it again.

#[expect(warnings, clippy::all, reason = "generated")]
mod v1beta1;

use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::pin::Pin;

use anyhow::{Context, Result, bail};
use hyper_util::rt::TokioIo;
use muster_tests::machine::Inventory;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use tokio::net::{UnixListener, UnixStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio_stream::wrappers::{UnixListenerStream, WatchStream};
use tokio_stream::{Stream, StreamExt};
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Request, Response, Status};

use self::v1beta1::device_plugin_server::{DevicePlugin, DevicePluginServer};
use self::v1beta1::registration_client::RegistrationClient;
use self::v1beta1::{
    AllocateRequest, AllocateResponse, ContainerAllocateResponse, Device, DevicePluginOptions, DeviceSpec, Empty,
    ListAndWatchResponse, RegisterRequest,
};

/// The kubelet's constant, wherever its root is.
const FOLDER: &str = "/var/lib/kubelet/device-plugins";
const KUBELET: &str = "kubelet.sock";

/// Serves the devices of `file` until the kubelet goes.
pub(crate) fn serve(file: &str) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(run(PathBuf::from(file)))
}

async fn run(file: PathBuf) -> Result<()> {
    let inventory = read(&file)?;
    let resource = inventory.resource.clone();
    let endpoint = format!("{}.sock", resource.replace(['/', '.'], "-"));
    let socket = Path::new(FOLDER).join(&endpoint);
    if socket.exists() {
        fs_err::remove_file(&socket)?;
    }
    let listener = UnixListener::bind(&socket)?;
    let (inventory_tx, inventory_rx) = watch::channel(inventory);
    let server = Server::builder().add_service(DevicePluginServer::new(Plugin { inventory_rx }));
    let server = tokio::spawn(server.serve_with_incoming(UnixListenerStream::new(listener)));
    let restarted = tokio::task::spawn_blocking(kubelet_restarted);
    register(&resource, &endpoint).await?;
    let mut again = signal(SignalKind::hangup())?;
    let mut restarted = std::pin::pin!(restarted);
    let mut server = std::pin::pin!(server);
    loop {
        tokio::select! {
            _ = again.recv() => {
                inventory_tx.send_replace(read(&file)?);
            }
            ended = &mut restarted => {
                ended??;
                // The thread that watches has ended with it; the unit starts us again.
                return Ok(());
            }
            ended = &mut server => bail!("the server ended: {ended:?}"),
        }
    }
}

fn read(file: &Path) -> Result<Inventory> {
    let text = fs_err::read_to_string(file)?;
    serde_json::from_str(&text).with_context(|| format!("`{}`", file.display()))
}

async fn register(resource: &str, endpoint: &str) -> Result<()> {
    let mut kubelet = RegistrationClient::new(connect().await?);
    let request = RegisterRequest {
        version: "v1beta1".to_owned(),
        endpoint: endpoint.to_owned(),
        resource_name: resource.to_owned(),
        options: None,
    };
    kubelet.register(request).await.map(drop).context("the kubelet refused the registration")
}

async fn connect() -> Result<Channel> {
    let connector =
        tower::service_fn(|_| async { UnixStream::connect(Path::new(FOLDER).join(KUBELET)).await.map(TokioIo::new) });
    // The name is never looked up: the connector knows one way only.
    let kubelet = Endpoint::from_static("http://kubelet");
    kubelet.connect_with_connector(connector).await.context("the kubelet does not answer")
}

/// Returns when the kubelet has made its socket anew.
fn kubelet_restarted() -> Result<()> {
    let watch = Inotify::init(InitFlags::IN_CLOEXEC)?;
    watch.add_watch(FOLDER, AddWatchFlags::IN_CREATE)?;
    while !watch.read_events()?.iter().any(|event| event.name.as_deref() == Some(OsStr::new(KUBELET))) {}
    Ok(())
}

struct Plugin {
    inventory_rx: watch::Receiver<Inventory>,
}

#[tonic::async_trait]
impl DevicePlugin for Plugin {
    async fn get_device_plugin_options(&self, _: Request<Empty>) -> Result<Response<DevicePluginOptions>, Status> {
        Ok(Response::new(DevicePluginOptions::default()))
    }

    type ListAndWatchStream = Pin<Box<dyn Stream<Item = Result<ListAndWatchResponse, Status>> + Send>>;

    async fn list_and_watch(&self, _: Request<Empty>) -> Result<Response<Self::ListAndWatchStream>, Status> {
        let lists = WatchStream::new(self.inventory_rx.clone()).map(|inventory| {
            let health = |healthy| if healthy { "Healthy" } else { "Unhealthy" }.to_owned();
            let devices = inventory.devices.into_iter();
            let devices = devices.map(|device| Device { id: device.id, health: health(device.healthy) }).collect();
            Ok(ListAndWatchResponse { devices })
        });
        Ok(Response::new(Box::pin(lists)))
    }

    async fn allocate(&self, request: Request<AllocateRequest>) -> Result<Response<AllocateResponse>, Status> {
        let inventory = self.inventory_rx.borrow().clone();
        let requests = request.into_inner().container_requests.into_iter();
        let container_responses = requests.map(|request| given(&inventory, &request.devices_ids)).collect();
        Ok(Response::new(AllocateResponse { container_responses }))
    }
}

/// What a container gets with the devices `ids`.
fn given(inventory: &Inventory, ids: &[String]) -> ContainerAllocateResponse {
    let own = inventory.devices.iter().filter(|device| ids.contains(&device.id));
    let spec = |path: &String| DeviceSpec {
        container_path: path.clone(),
        host_path: path.clone(),
        permissions: "rw".to_owned(),
    };
    let variable = inventory.variable.clone();
    ContainerAllocateResponse {
        envs: variable.map(|name| HashMap::from([(name, ids.join(","))])).unwrap_or_default(),
        devices: own.flat_map(|device| &device.nodes).map(spec).collect(),
    }
}
