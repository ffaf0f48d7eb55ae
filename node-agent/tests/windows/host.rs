//! What stands for EKS-WindowsServiceHost.exe: a service whose command line is the kubelet's, and that answers at the
//! kubelet's health port while it runs. `HOST kubelet PATH\kubelet.exe --config=FILE …`

#[cfg(not(windows))]
fn main() {}

#[cfg(windows)]
fn main() -> windows_service::Result<()> {
    service::start()
}

#[cfg(windows)]
mod service {
    use std::ffi::OsString;
    use std::io::{Read, Write};
    use std::net::{Ipv4Addr, TcpListener};
    use std::sync::mpsc;
    use std::time::Duration;

    use windows_service::service::{
        ServiceControl, ServiceControlAccept, ServiceExitCode, ServiceState, ServiceStatus, ServiceType,
    };
    use windows_service::service_control_handler::{self, ServiceControlHandlerResult};
    use windows_service::{define_windows_service, service_dispatcher};

    define_windows_service!(service_main, run);

    pub(super) fn start() -> windows_service::Result<()> {
        service_dispatcher::start("kubelet", service_main)
    }

    fn run(_: Vec<OsString>) {
        let (stop_tx, stop_rx) = mpsc::channel();
        let handler = move |control| match control {
            ServiceControl::Stop => {
                let _stops_once = stop_tx.send(());
                ServiceControlHandlerResult::NoError
            }
            ServiceControl::Interrogate => ServiceControlHandlerResult::NoError,
            _ => ServiceControlHandlerResult::NotImplemented,
        };
        let Ok(handle) = service_control_handler::register("kubelet", handler) else { return };
        let tell = |current_state| {
            let _shows_in_the_test = handle.set_service_status(ServiceStatus {
                service_type: ServiceType::OWN_PROCESS,
                current_state,
                controls_accepted: ServiceControlAccept::STOP,
                exit_code: ServiceExitCode::Win32(0),
                checkpoint: 0,
                wait_hint: Duration::from_secs(5),
                process_id: None,
            });
        };
        tell(ServiceState::Running);
        let listener = health_port().and_then(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok());
        if let Some(listener) = listener {
            std::thread::spawn(move || {
                for mut stream in listener.incoming().flatten() {
                    let mut request = [0; 1024];
                    if stream.read(&mut request).is_ok() {
                        let _gone = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
                    }
                }
            });
        }
        let _told_or_dead = stop_rx.recv();
        tell(ServiceState::Stopped);
    }

    /// As the configuration says that the command line names.
    fn health_port() -> Option<u16> {
        let path = std::env::args().find_map(|it| it.strip_prefix("--config=").map(ToOwned::to_owned))?;
        let config: serde_json::Value = serde_json::from_slice(&std::fs::read(path).ok()?).ok()?;
        config.get("healthzPort")?.as_u64()?.try_into().ok()
    }
}
