//! Log of `muster run`: its level and its destinations.

use std::fs::OpenOptions;
use std::io;
use std::sync::Mutex;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::writer::{BoxMakeWriter, MakeWriterExt};

use super::super::arguments::LogArguments;
use super::super::failure::Failure;

/// Log directives for libraries whose debug messages do not concern nodes.
const QUIET: &str = "hyper=info,hyper_util=info,kube=info,kube_client=info,tower=info,rustls=info,h2=info";

/// Configuration of the log.
pub(super) struct Log {
    pub(super) filter: EnvFilter,
    pub(super) writer: BoxMakeWriter,
    /// Warnings for its beginning.
    pub(super) warnings: Vec<String>,
}

impl Log {
    /// Opens the destinations of the log.
    pub(super) fn new(arguments: &LogArguments, dry_run: bool, warnings: Vec<String>) -> Result<Self, Failure> {
        let LogArguments { log_level, log_output_paths } = arguments;
        let writer = writer(log_output_paths, dry_run)?;
        let directives =
            if log_level.contains(['=', ',']) { log_level.clone() } else { format!("{log_level},{QUIET}") };
        let filter = EnvFilter::try_new(directives).map_err(|error| {
            Failure::Usage(format!(
                "`--log-level`: `{log_level}`: {error}\n\nhint: use `debug`, `info`, `warn` or `error`"
            ))
        })?;
        Ok(Self { filter, writer, warnings })
    }
}

/// Returns the writer of the log for paths that are separated by commas, as Karpenter's chart joins them.
pub(super) fn writer(paths: &str, dry_run: bool) -> Result<BoxMakeWriter, Failure> {
    let wrong = |path: &str, reason: &dyn std::fmt::Display| {
        Failure::Usage(format!(
            "`--log-output-paths`: logs cannot be written to `{path}`: {reason}\n\nhint: use `stdout`, `stderr` or a file"
        ))
    };
    let mut writers: Option<BoxMakeWriter> = None;
    for path in paths.split(',').map(str::trim).filter(|path| !path.is_empty()) {
        let writer = match path {
            // stdout is used for the reports.
            "stdout" if dry_run => BoxMakeWriter::new(io::stderr),
            "stdout" => BoxMakeWriter::new(io::stdout),
            "stderr" => BoxMakeWriter::new(io::stderr),
            file => {
                let file = OpenOptions::new().create(true).append(true).open(file);
                BoxMakeWriter::new(Mutex::new(file.map_err(|error| wrong(path, &error))?))
            }
        };
        writers = Some(match writers {
            None => writer,
            Some(before) => BoxMakeWriter::new(before.and(writer)),
        });
    }
    writers.ok_or_else(|| wrong(paths, &"there is no path"))
}
