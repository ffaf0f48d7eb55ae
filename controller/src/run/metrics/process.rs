//! This process.

use std::time::Duration;

use jiff::Timestamp;
use sysinfo::{ProcessRefreshKind, ProcessesToUpdate, System};

use super::catalogue as names;
use super::page::{Page, Rendered};

pub(super) fn write(page: &mut Page, started: Timestamp) {
    let arch = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    page.declare(&names::BUILD_INFO);
    let build = Rendered::new([("version", env!("CARGO_PKG_VERSION")), ("goarch", arch)]);
    page.sample(&names::BUILD_INFO, "", &[&build], 1.0);
    page.single(&names::PROCESS_START, started.as_second() as f64);
    let (Ok(own), Ok(mut system)) = (sysinfo::get_current_pid(), System::new()) else { return };
    let kind = ProcessRefreshKind::nothing().without_tasks().with_cpu().with_memory();
    system.refresh_processes_specifics(ProcessesToUpdate::Some(&[own]), false, kind);
    let Some(process) = system.process(own) else { return };
    let cpu = Duration::from_millis(process.accumulated_cpu_time());
    page.single(&names::PROCESS_CPU, cpu.as_secs_f64());
    page.single(&names::PROCESS_RESIDENT, process.memory() as f64);
    page.single(&names::PROCESS_VIRTUAL, process.virtual_memory() as f64);
    page.single(&names::PROCESS_FILES, process.open_files().unwrap_or_default() as f64);
}
