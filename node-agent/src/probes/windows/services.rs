//! Windows service control manager.

use std::ffi::OsStr;
use std::io;

use tokio::task::spawn_blocking;
use windows_service::Error;
use windows_service::service::{ServiceAccess, ServiceActionType, ServiceExitCode, ServiceState};
use windows_service::service_manager::{ServiceManager, ServiceManagerAccess};

use crate::watch::services::{Service, Services, State};
use crate::watch::units::Unit;

/// Services that the agent follows. An image may lack some of them.
pub const SERVICES: [&str; 4] = ["kubelet", "kube-proxy", "containerd", "csi-proxy"];

const DOES_NOT_EXIST: i32 = 1060;
const RUNS_ALREADY: i32 = 1056;
const DOES_NOT_RUN: i32 = 1062;

/// Returns the states of the services; `None` if the service control manager does not answer.
pub async fn services() -> Option<Vec<Service>> {
    spawn_blocking(|| {
        let manager = manager().ok()?;
        SERVICES.iter().map(|name| look(&manager, name).ok()).collect()
    })
    .await
    .ok()?
}

/// Returns the states of the services as units, without their history.
pub async fn units() -> Option<Vec<Unit>> {
    let mut seen = Services::default();
    Some(services().await?.iter().map(|service| seen.look(service).unit).collect())
}

/// Returns the command line of a service.
pub async fn text_of(service: &str) -> Option<String> {
    let name = service.to_owned();
    let config = spawn_blocking(move || {
        manager().ok()?.open_service(name, ServiceAccess::QUERY_CONFIG).ok()?.query_config().ok()
    });
    Some(config.await.ok()??.executable_path.to_string_lossy().into_owned())
}

/// Returns `None`: all services share the agent's own environment.
pub async fn environment() -> Option<String> {
    None
}

/// Starts or stops a service. Returns true on success, or if it is in that state already.
pub async fn order(verb: &'static str, service: &str) -> bool {
    let name = service.to_owned();
    let ordered = spawn_blocking(move || -> windows_service::Result<()> {
        let manager = manager()?;
        if verb == "start" {
            let service = manager.open_service(name, ServiceAccess::START | ServiceAccess::QUERY_STATUS)?;
            match service.start::<&OsStr>(&[]) {
                // A stopping service is reported as running too. It has to be started once it has stopped.
                Err(error) if code(&error) == Some(RUNS_ALREADY) => {
                    let runs = service.query_status()?.current_state == ServiceState::Running;
                    if runs { Ok(()) } else { Err(error) }
                }
                started => started,
            }
        } else {
            manager.open_service(name, ServiceAccess::STOP)?.stop().map(drop)
        }
    });
    match ordered.await {
        Ok(Ok(())) => true,
        Ok(Err(error)) => verb == "stop" && code(&error) == Some(DOES_NOT_RUN),
        Err(_) => false,
    }
}

fn manager() -> windows_service::Result<ServiceManager> {
    ServiceManager::local_computer(None::<&str>, ServiceManagerAccess::CONNECT)
}

fn look(manager: &ServiceManager, name: &str) -> windows_service::Result<Service> {
    let absent = Service { name: name.to_owned(), ..Service::default() };
    let service = match manager.open_service(name, ServiceAccess::QUERY_STATUS | ServiceAccess::QUERY_CONFIG) {
        Ok(service) => service,
        Err(error) if code(&error) == Some(DOES_NOT_EXIST) => return Ok(absent),
        Err(error) => return Err(error),
    };
    let status = service.query_status()?;
    let state = match status.current_state {
        ServiceState::Stopped => State::Stopped,
        ServiceState::StartPending => State::Starting,
        ServiceState::StopPending => State::Stopping,
        ServiceState::Running | ServiceState::ContinuePending | ServiceState::PausePending | ServiceState::Paused => {
            State::Running
        }
    };
    let exit_code = match status.exit_code {
        ServiceExitCode::Win32(code) | ServiceExitCode::ServiceSpecific(code) => code,
    };
    // Only relevant after a failure.
    let is_restarted = state == State::Stopped
        && exit_code != 0
        && service.get_failure_actions().is_ok_and(|it| {
            it.actions.into_iter().flatten().any(|action| action.action_type == ServiceActionType::Restart)
        });
    Ok(Service { state: Some(state), process: status.process_id.unwrap_or(0), exit_code, is_restarted, ..absent })
}

fn code(error: &Error) -> Option<i32> {
    match error {
        Error::Winapi(error) => io::Error::raw_os_error(error),
        _ => None,
    }
}
