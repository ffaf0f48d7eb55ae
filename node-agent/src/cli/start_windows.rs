//! Start of the service on Windows, by the service control manager or in a console.

use std::ffi::OsString;
use std::io::{self, Write};

use super::arguments::{RunArguments, ServiceAction};
use super::failure::Failure;
use super::service::runtime;
use crate::service::windows::{self, Started};
use crate::service::{self, Settings};

/// Command that shows if the service runs.
pub(super) const ASK: &str = "sc.exe query muster-agent";

/// Runs the service: until the service control manager stops it, or in a console until Ctrl-C.
pub(super) fn run(settings: Settings) -> Result<(), Failure> {
    if windows::dispatch(&settings).map_err(|fault| Failure::Outside(fault.to_string()))? == Started::ByTheManager {
        return Ok(());
    }
    let runtime = runtime().map_err(|error| Failure::Outside(error.to_string()))?;
    let stop = async {
        if tokio::signal::ctrl_c().await.is_err() {
            // Without a console, Ctrl-C cannot arrive.
            std::future::pending::<()>().await;
        }
    };
    let outcome = runtime.block_on(service::run(settings, || Ok(()), stop));
    runtime.shutdown_background();
    outcome.map_err(|fault| Failure::Outside(fault.to_string()))
}

/// Installs or removes the service.
pub(super) fn set_up(action: ServiceAction, run: RunArguments) -> Result<(), Failure> {
    let outcome = match action {
        ServiceAction::Uninstall => windows::uninstall(),
        ServiceAction::Install => {
            let RunArguments { report_only, run_dir, log_dir, state_dir, metadata_endpoint } = run;
            let mut words: Vec<OsString> = ["run", "--metadata-endpoint", &metadata_endpoint].map(Into::into).into();
            words.extend(["--run-dir".into(), run_dir.clone().into(), "--log-dir".into(), log_dir.clone().into()]);
            words.extend(["--state-dir".into(), state_dir.clone().into()]);
            words.extend(report_only.then(|| "--report-only".into()));
            windows::install(words, &[&run_dir, &log_dir, &state_dir]).map(|notes| {
                for note in notes {
                    let _nobody_listens = writeln!(io::stderr().lock(), "note: {note}");
                }
            })
        }
    };
    outcome.map_err(|error| Failure::Outside(format!("{error}\n\nhint: are these the rights of an administrator?")))
}
