//! Log of the service: a line for each event of this crate. On Linux it goes to stderr, from where systemd takes it to
//! the journal with its level; on Windows to a file too.

#[cfg(target_os = "linux")]
mod journal;
#[cfg(windows)]
mod rotated;

#[cfg(target_os = "linux")]
pub(crate) use self::journal::install;
#[cfg(windows)]
pub(crate) use self::rotated::install;

use std::fmt::{Debug, Write as _};

use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{Interest, Subscriber};
use tracing::{Event, Level, Metadata};

/// Module path of this crate. Libraries log for their developers.
const TARGET: &str = "muster_agent";

/// Subscriber that writes the lines of events. The agent has no spans: a subscriber with fields, filters and formats
/// would be larger than the rest of the log.
struct Log<W>(W);

impl<W: Fn(Level, &str) + Send + Sync + 'static> Subscriber for Log<W> {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if self.enabled(metadata) { Interest::always() } else { Interest::never() }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::INFO)
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let target = metadata.target();
        let is_own = target.strip_prefix(TARGET).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"));
        is_own && metadata.is_event() && *metadata.level() <= Level::INFO
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(String::new());
        event.record(&mut line);
        let Self(write) = self;
        write(*event.metadata().level(), &line.0);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// Line of an event: its message, then its fields.
struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let Self(line) = self;
        // Writing to a string does not fail.
        let _written = match field.name() {
            "message" => write!(line, "{value:?}"),
            name => write!(line, " {name}={value:?}"),
        };
    }
}

/// Writes the events from now on with `write`. The first call counts.
fn write_with(write: impl Fn(Level, &str) + Send + Sync + 'static) {
    let _is_the_first = tracing::subscriber::set_global_default(Log(write));
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn events_of_this_crate_are_lines() {
        let (lines, written) = mpsc::channel();
        let log = Log(move |level: Level, line: &str| lines.send(format!("{level} {line}")).unwrap());
        tracing::subscriber::with_default(log, || {
            tracing::info!("the kubelet may start, answered after {} ms", 7);
            tracing::warn!(code = "KA17", "kept from running");
            tracing::error!("{}", "100 % {} done");
            tracing::debug!("not shown");
            tracing::info!(target: "h2::codec", "not shown");
            tracing::error!(target: "muster_agents", "not shown");
        });
        let written: Vec<String> = written.try_iter().collect();
        let expected = [
            "INFO the kubelet may start, answered after 7 ms",
            "WARN kept from running code=\"KA17\"",
            "ERROR 100 % {} done",
        ];
        assert_eq!(written, expected);
    }
}
