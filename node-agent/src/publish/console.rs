//! The serial console: what EC2 keeps of it can be read when nothing else of the node can be reached.

use std::fs::OpenOptions;
use std::io::Write;
#[cfg(target_os = "linux")]
use std::os::unix::fs::OpenOptionsExt;

#[cfg(target_os = "linux")]
use rustix::fs::OFlags;

use crate::report::{Report, Verdict, Weight};

/// The console that EC2 keeps: on Windows the first serial port, into which EC2Launch writes that Windows is ready.
const CONSOLE: &str = if cfg!(windows) { r"\\.\COM1" } else { "/dev/console" };

/// One line that a program can find and read: `key=value`, values in quotes as JSON writes them.
#[must_use]
pub fn line(report: &Report, verdict: &Verdict) -> String {
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let instance = report.instance_id.as_deref().unwrap_or("unknown");
    format!(
        "MUSTER-AGENT VERDICT code={} severity=error phase={} instance={instance} held={} message={} fix={}",
        verdict.code,
        verdict.phase,
        report.held,
        quoted(&verdict.message),
        quoted(&verdict.fix)
    )
}

/// Writes the line of the verdict to the console, if it is an error that `said` is not already about.
pub fn say(report: &Report, said: &mut Option<String>) {
    let Some(verdict) = report.verdict.as_ref().filter(|verdict| verdict.severity == Weight::Error) else {
        *said = None;
        return;
    };
    let line = line(report, verdict);
    if said.as_ref() == Some(&line) {
        return;
    }
    // A console that nobody listens to must not stop the agent: what it does not take at once is lost.
    let mut options = OpenOptions::new();
    options.write(true);
    #[cfg(target_os = "linux")]
    options.custom_flags(OFlags::NONBLOCK.union(OFlags::NOCTTY).bits().cast_signed());
    if let Ok(mut console) = options.open(CONSOLE) {
        let _lost_with_the_console = writeln!(console, "{line}");
    }
    *said = Some(line);
}
