//! The agent as a Windows service: service states, installation, log.
//!
//! ```text
//!  service control manager ──► main ──► START_PENDING ──► service::run ──► ready ──► RUNNING
//!                               ▲                              │
//!                               stop, shutdown ──► stop ──► STOP_PENDING ──► STOPPED (exit code)
//! ```

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fs_err as fs;
use tokio::runtime::Builder;
use tokio::sync::Notify;
use windows_registry::LOCAL_MACHINE;
use windows_service::service::{
    ServiceAccess, ServiceAction, ServiceActionType, ServiceControl, ServiceControlAccept, ServiceDependency,
    ServiceErrorControl, ServiceExitCode, ServiceFailureActions, ServiceFailureResetPeriod, ServiceInfo,
    ServiceStartType, ServiceState, ServiceStatus, ServiceType,
};
use windows_service::service_control_handler::{self, ServiceControlHandlerResult, ServiceStatusHandle};
use windows_service::service_manager::{ServiceManager, ServiceManagerAccess};
use windows_service::{define_windows_service, service_dispatcher};

use super::{Fault, Settings};
use crate::log;

/// Name of the service.
pub const NAME: &str = "muster-agent";
/// Service group that Windows starts before services without a group, such as the kubelet. A dependency of the kubelet
/// on the agent is avoided: it would keep the kubelet from running without the agent.
const GROUP: &str = "NetworkProvider";
/// Services for DNS resolution and event logging.
const NEEDS: [&str; 2] = ["Dnscache", "EventLog"];
/// Wait hint for the start. It takes milliseconds, or longer on a busy first boot.
const STARTS_IN: Duration = Duration::from_secs(10);
const STOPS_IN: Duration = Duration::from_secs(5);
const RESTART_AFTER: Duration = Duration::from_secs(2);
const NOT_STARTED_BY_THE_MANAGER: i32 = 1063;
const DOES_NOT_EXIST: i32 = 1060;
const DOES_NOT_RUN: i32 = 1062;
/// Exit code of a failed service. The reason is in its log.
const FAILED: u32 = 1;

/// Settings for `main`, which the service control manager calls without arguments.
static SETTINGS: Mutex<Option<Settings>> = Mutex::new(None);

/// Reason why the service is not installed, removed or started.
#[derive(Debug, thiserror::Error)]
pub enum ManagerFault {
    /// The service control manager refuses or does not answer.
    #[error("{}", message(.0))]
    Manager(#[from] windows_service::Error),
    /// The path of this program is unknown.
    #[error("where this program is, is not known: {0}")]
    Program(#[source] io::Error),
    /// A folder cannot be created.
    #[error("{0}")]
    Folder(#[source] io::Error),
}

define_windows_service!(service_main, main);

/// Runs as a service if the service control manager started this process. Otherwise returns at once.
///
/// # Errors
/// The service control manager does not answer.
pub fn dispatch(settings: &Settings) -> Result<Started, ManagerFault> {
    log::install(settings.log_folder.join("agent.log"));
    *SETTINGS.lock().unwrap_or_else(PoisonError::into_inner) = Some(settings.clone());
    match service_dispatcher::start(NAME, service_main) {
        Ok(()) => Ok(Started::ByTheManager),
        Err(error) if code(&error) == Some(NOT_STARTED_BY_THE_MANAGER) => Ok(Started::ByHand),
        Err(error) => Err(error.into()),
    }
}

/// Starter of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Started {
    /// The service control manager. The service has run and ended.
    ByTheManager,
    /// A user in a console. Nothing has run yet.
    ByHand,
}

/// Entry point of the service.
fn main(_: Vec<OsString>) {
    let Some(settings) = SETTINGS.lock().unwrap_or_else(PoisonError::into_inner).take() else { return };
    let stop = Arc::new(Notify::new());
    let stops = Arc::clone(&stop);
    let handler = move |control| match control {
        ServiceControl::Stop | ServiceControl::Shutdown => {
            stops.notify_one();
            ServiceControlHandlerResult::NoError
        }
        ServiceControl::Interrogate => ServiceControlHandlerResult::NoError,
        _ => ServiceControlHandlerResult::NotImplemented,
    };
    let handle = match service_control_handler::register(NAME, handler) {
        Ok(handle) => handle,
        Err(error) => {
            tracing::error!("the service control manager does not take orders: {}", message(&error));
            return;
        }
    };
    tell(handle, ServiceState::StartPending, 0);
    let outcome = Builder::new_current_thread().enable_all().build().map_err(Fault::Runtime);
    let outcome = outcome.and_then(|runtime| {
        let ready = || {
            tell(handle, ServiceState::Running, 0);
            Ok(())
        };
        let stopped = async {
            stop.notified().await;
            tell(handle, ServiceState::StopPending, 0);
        };
        let outcome = runtime.block_on(super::run(settings, ready, stopped));
        // A pending system call, such as a DNS lookup, must not keep the service from stopping.
        runtime.shutdown_background();
        outcome
    });
    if let Err(error) = &outcome {
        tracing::error!("the agent ends: {error}");
    }
    tell(handle, ServiceState::Stopped, if outcome.is_ok() { 0 } else { FAILED });
}

fn tell(handle: ServiceStatusHandle, state: ServiceState, exit_code: u32) {
    let controls_accepted = match state {
        ServiceState::Running => ServiceControlAccept::STOP | ServiceControlAccept::SHUTDOWN,
        _ => ServiceControlAccept::empty(),
    };
    let wait_hint = match state {
        ServiceState::StartPending => STARTS_IN,
        ServiceState::StopPending => STOPS_IN,
        _ => Duration::ZERO,
    };
    let status = ServiceStatus {
        service_type: ServiceType::OWN_PROCESS,
        current_state: state,
        controls_accepted,
        exit_code: ServiceExitCode::Win32(exit_code),
        checkpoint: 0,
        wait_hint,
        process_id: None,
    };
    if let Err(error) = handle.set_service_status(status) {
        tracing::warn!("the service control manager does not hear that the agent is {state:?}: {}", message(&error));
    }
}

/// Installs or updates the service to run `arguments` of this program. Returns notes on optional settings that could
/// not be made.
///
/// # Errors
/// The service cannot be installed, mostly for lack of permission.
pub fn install(arguments: Vec<OsString>, folders: &[&Path]) -> Result<Vec<String>, ManagerFault> {
    let mut notes = Vec::new();
    let program = std::env::current_exe().map_err(ManagerFault::Program)?;
    let info = ServiceInfo {
        name: NAME.into(),
        display_name: "Muster agent".into(),
        service_type: ServiceType::OWN_PROCESS,
        start_type: ServiceStartType::AutoStart,
        error_control: ServiceErrorControl::Normal,
        executable_path: program,
        launch_arguments: arguments,
        dependencies: NEEDS.iter().map(|name| ServiceDependency::Service(name.into())).collect(),
        account_name: None,
        account_password: None,
    };
    for folder in folders {
        close(folder).map_err(ManagerFault::Folder)?;
    }
    let access = ServiceAccess::CHANGE_CONFIG | ServiceAccess::START;
    let manager = ServiceManager::local_computer(
        None::<&str>,
        ServiceManagerAccess::CONNECT | ServiceManagerAccess::CREATE_SERVICE,
    )?;
    let service = match manager.open_service(NAME, access) {
        Ok(service) => service.change_config(&info).map(|()| service),
        Err(error) if code(&error) == Some(DOES_NOT_EXIST) => manager.create_service(&info, access),
        Err(error) => Err(error),
    }?;
    let restart = ServiceAction { action_type: ServiceActionType::Restart, delay: RESTART_AFTER };
    let failures = ServiceFailureActions {
        reset_period: ServiceFailureResetPeriod::After(Duration::from_hours(1)),
        reboot_msg: None,
        command: None,
        actions: Some(vec![restart.clone(), restart.clone(), restart]),
    };
    let mut note = |what: &str, set: windows_service::Result<()>| {
        if let Err(error) = set {
            notes.push(format!("{what} is not set: {}", message(&error)));
        }
    };
    note("the description", service.set_description("Checks this node before its kubelet runs, and watches it"));
    note("the restart after a failure", service.update_failure_actions(failures));
    note("the restart after an exit code", service.set_failure_actions_on_non_crash_failures(true));
    // The service API has no other way to set the group.
    let key = LOCAL_MACHINE.create(format!(r"SYSTEM\CurrentControlSet\Services\{NAME}"));
    if let Err(error) = key.and_then(|key| key.set_string("Group", GROUP)) {
        notes.push(format!("the place in the order of services is not set: {error}"));
    }
    Ok(notes)
}

/// Creates a folder if it does not exist, so that only the system and administrators may access it. Without this, a
/// folder of ProgramData lets all users read the agent's key.
///
/// # Errors
/// The folder cannot be created or closed.
pub(super) fn make(folder: &Path) -> io::Result<()> {
    if folder.exists() { Ok(()) } else { close(folder) }
}

/// Restricts a folder, created if necessary, to the system and administrators. What another user granted before, to
/// themselves as its owner or to others, is taken away.
fn close(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    // SIDs, because account names are localized.
    const STEPS: [&[&str]; 3] = [
        &["/setowner", "*S-1-5-32-544", "/T"],
        &["/reset", "/T"],
        &["/inheritance:r", "/grant:r", "*S-1-5-18:(OI)(CI)F", "*S-1-5-32-544:(OI)(CI)F"],
    ];
    for step in STEPS {
        let mut command = Command::new("icacls.exe");
        command.arg(folder).args(step).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        if !command.status().is_ok_and(|status| status.success()) {
            let message =
                format!("`{}` cannot be closed to others: icacls.exe {} has failed", folder.display(), step[0]);
            return Err(io::Error::other(message));
        }
    }
    Ok(())
}

/// Stops and removes the service. Its folders are kept. A service that is not installed is not an error.
///
/// # Errors
/// The service cannot be removed, mostly for lack of permission.
pub fn uninstall() -> Result<(), ManagerFault> {
    let taken = || -> windows_service::Result<()> {
        let manager = ServiceManager::local_computer(None::<&str>, ServiceManagerAccess::CONNECT)?;
        let service = match manager.open_service(NAME, ServiceAccess::STOP | ServiceAccess::DELETE) {
            Err(error) if code(&error) == Some(DOES_NOT_EXIST) => return Ok(()),
            opened => opened?,
        };
        match service.stop() {
            Err(error) if code(&error) != Some(DOES_NOT_RUN) => return Err(error),
            _ => {}
        }
        // It is removed once it has stopped.
        service.delete()
    };
    Ok(taken()?)
}

fn code(error: &windows_service::Error) -> Option<i32> {
    match error {
        windows_service::Error::Winapi(error) => error.raw_os_error(),
        _ => None,
    }
}

fn message(error: &windows_service::Error) -> String {
    match error {
        windows_service::Error::Winapi(error) => error.to_string(),
        other => other.to_string(),
    }
}
