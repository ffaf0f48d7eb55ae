//! Each agent is an open file of this process.

use muster_gateway::Limits;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// What the rest of the controller has open: watches, writes, AWS, probes, and as much again.
const REST: u64 = 500;

/// As many connections of these as this process may have open beside all else. What it may open by itself is made as much as it is
/// allowed: the usual 1024 are for programs that call `select`.
pub(super) fn allow(wanted: Limits) -> Limits {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let own = match setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        Ok(()) => maximum,
        Err(error) => {
            tracing::warn!(%error, "the limit of open files stays as it is");
            current
        }
    };
    let (connections, strangers) = within((wanted.connections, wanted.strangers), own);
    if connections < wanted.connections {
        let hint = "raise the hard limit of open files (`ulimit -Hn`) of the container";
        tracing::warn!(
            connections,
            wanted = wanted.connections,
            hint,
            "fewer agents can be connected: too few files may be open"
        );
    }
    Limits { connections, strangers, ..wanted }
}

/// How many connections of nodes and of strangers fit into a limit of open files, `None` being none: better few agents than no API
/// server.
fn within((nodes, strangers): (usize, usize), limit: Option<u64>) -> (usize, usize) {
    let room = limit.and_then(|limit| usize::try_from(limit.saturating_sub(REST)).ok());
    match room {
        Some(room) if room < nodes + strangers => {
            let strangers = strangers.min(room / 4);
            (nodes.min(room - strangers), strangers)
        }
        _ => (nodes, strangers),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_else_the_controller_does_goes_before_agents() {
        let wanted = (12_000, 4096);
        assert_eq!(within(wanted, None), wanted);
        assert_eq!(within(wanted, Some(1_048_576)), wanted);
        assert_eq!(within(wanted, Some(16_000)), (11_625, 3875));
        assert_eq!(within(wanted, Some(4500)), (3000, 1000));
        assert_eq!(within(wanted, Some(256)), (0, 0));
    }
}
