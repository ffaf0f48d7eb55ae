//! The command line of `muster-agent`.

mod arguments;
mod document;
mod failure;
mod image;
mod inputs;
mod node;
mod node_class;
mod palette;
#[cfg(any(target_os = "linux", windows))]
mod service;
#[cfg(not(any(target_os = "linux", windows)))]
#[path = "service_elsewhere.rs"]
mod service;
#[cfg_attr(windows, path = "start_windows.rs")]
#[cfg(any(target_os = "linux", windows))]
mod start;
mod text;
mod wiring;

#[cfg(test)]
mod reference;

pub use wiring::main;

/// Returns the text that `muster-agent status` prints for a report, without colour.
#[cfg(test)]
pub(crate) fn shown(report: &crate::report::Report, is_gone: bool) -> String {
    node::text(report, is_gone, palette::Palette::new(false))
}
