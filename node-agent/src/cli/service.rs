//! Commands that run the service or connect to it.

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use muster_proto::muster::admission_client::AdmissionClient;
use muster_proto::muster::{AdmitKubeletRequest, AdmitKubeletResponse};
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;
use tonic::transport::{Endpoint, Uri};
use tower::service_fn;

use super::arguments::{GateArguments, OutputFormat, RunArguments, ServiceArguments, StatusArguments};
use super::failure::Failure;
use super::node;
use super::palette::Palette;
use super::start;
use crate::publish::{endpoint, status};
use crate::service::Settings;

/// Exit code with which `ExecCondition=` makes systemd skip the start. The unit does not fail.
const NO: u8 = 100;
/// Timeout of the gate, after which the kubelet starts anyway. A running service answers sooner.
const PATIENCE: Duration = Duration::from_secs(10);

pub(super) fn runtime() -> io::Result<Runtime> {
    // The agent is idle nearly all of the time, and each thread costs memory.
    Builder::new_current_thread().enable_all().build()
}

pub(super) fn run(arguments: RunArguments) -> Result<(), Failure> {
    let RunArguments { report_only, run_dir, log_dir, state_dir, metadata_endpoint } = arguments;
    let (run_folder, log_folder, state_folder) = (run_dir, log_dir, state_dir);
    start::run(Settings { run_folder, log_folder, state_folder, metadata_endpoint, report_only })
}

/// Installs or removes the service.
pub(super) fn set_up(arguments: ServiceArguments) -> Result<(), Failure> {
    let ServiceArguments { action, run } = arguments;
    start::set_up(action, run)
}

/// Prints the report of the service. The outer error means that nothing was printed; the inner one that the report has
/// an error.
pub(super) fn status(
    arguments: StatusArguments,
    palette: Palette,
    out: &mut dyn Write,
) -> Result<Result<(), Failure>, Failure> {
    let StatusArguments { run_dir, output } = arguments;
    let report = status::read(&run_dir).map_err(|error| no_status(&run_dir, &error))?;
    match output {
        OutputFormat::Json => {
            serde_json::to_writer_pretty(&mut *out, &report).map_err(io::Error::from)?;
            writeln!(out)?;
        }
        OutputFormat::Table => {
            let lives = runtime().and_then(|runtime| runtime.block_on(endpoint::connect(&run_dir)).map(drop));
            // Without permission to connect, it is unknown if the service runs.
            let is_gone = lives.is_err_and(|error| error.kind() != io::ErrorKind::PermissionDenied);
            out.write_all(node::text(&report, is_gone, palette).as_bytes())?;
        }
    }
    Ok(if report.has_error() { Err(Failure::No) } else { Ok(()) })
}

/// Returns the failure for a status that cannot be read.
fn no_status(folder: &Path, error: &io::Error) -> Failure {
    let path = status::path(folder);
    let path = path.display();
    Failure::Outside(match error.kind() {
        io::ErrorKind::NotFound => {
            format!("there is no status in `{path}`\n\nhint: is the service running? `{}`", start::ASK)
        }
        io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => format!(
            "`{path}` is not a status: {error}\n\nhint: the service writes it anew when it starts; ask how it does: `{}`",
            start::ASK
        ),
        // The error already names the file.
        io::ErrorKind::PermissionDenied => format!("the status cannot be read: {error}\n\nhint: ask as administrator"),
        _ => format!("the status cannot be read: {error}\n\nhint: check that `--run-dir` is the service's folder"),
    })
}

/// Asks the service whether the kubelet may start. On any failure the kubelet may start.
pub(super) fn gate(arguments: GateArguments) -> ExitCode {
    let GateArguments { run_dir } = arguments;
    let answer = runtime().map_err(GateFault::Runtime).and_then(|runtime| {
        runtime.block_on(async { timeout(PATIENCE, ask(&run_dir)).await.map_err(|_| GateFault::Silent)? })
    });
    let mut stderr = io::stderr().lock();
    // A closed stderr is ignored: the exit code still counts.
    let (line, code) = match answer {
        Ok(answer) if answer.admitted => return ExitCode::SUCCESS,
        Ok(answer) => {
            (format!("muster-agent keeps the kubelet from starting: {}: {}", answer.code, answer.message), NO)
        }
        Err(error) => (format!("muster-agent cannot be asked, the kubelet starts without it: {error}"), 0),
    };
    let _nobody_listens = writeln!(stderr, "{line}");
    ExitCode::from(code)
}

/// Reason why the service does not say whether the kubelet may start.
#[derive(Debug, thiserror::Error)]
enum GateFault {
    /// This program cannot ask.
    #[error("{0}")]
    Runtime(#[source] io::Error),
    /// No answer in time.
    #[error("it does not answer")]
    Silent,
    /// The socket cannot be connected to.
    #[error("{0}")]
    Connection(#[from] tonic::transport::Error),
    /// The service answers with an error.
    #[error("{}", .0.message())]
    Refused(#[source] Box<tonic::Status>),
}

async fn ask(folder: &Path) -> Result<AdmitKubeletResponse, GateFault> {
    let folder = folder.to_owned();
    let connect = service_fn(move |_: Uri| {
        let folder = folder.clone();
        async move { endpoint::connect(&folder).await.map(TokioIo::new) }
    });
    let endpoint = Endpoint::from_static("http://muster-agent");
    let channel = endpoint.connect_with_connector(connect).await?;
    let answer = AdmissionClient::new(channel).admit_kubelet(AdmitKubeletRequest {}).await;
    answer.map(tonic::Response::into_inner).map_err(|status| GateFault::Refused(Box::new(status)))
}
