//! Limit of open files: each agent is an open socket of this process.

use muster_gateway::Limits;
use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit, setrlimit};

/// Number of files for the rest of the controller: watches, writes, AWS, probes, and a reserve of the same size.
const REST: u64 = 500;

/// Raises the soft limit of open files to the hard limit, and returns the limits of connections that fit beside
/// everything else. The usual soft limit of 1024 is for programs that call `select`.
pub(super) fn allow(wanted: Limits) -> Limits {
    let own = match raise() {
        Ok(limit) => limit,
        Err(error) => {
            tracing::warn!(%error, "the limit of open files stays as it is");
            getrlimit(Resource::RLIMIT_NOFILE).map_or(RLIM_INFINITY, |(soft, _)| soft)
        }
    };
    let own = (own != RLIM_INFINITY).then_some(own);
    // Handshakes of nodes and of strangers have places apart.
    let others = wanted.strangers + 2 * wanted.handshakes;
    let (connections, fitting) = within((wanted.connections, others), own);
    // Strangers and handshakes in the proportion in which they are wanted.
    let strangers = fitting * wanted.strangers / others.max(1);
    let handshakes = (fitting - strangers) / 2;
    if connections < wanted.connections {
        let hint = "raise the hard limit of open files (`ulimit -Hn`) of the container";
        tracing::warn!(
            connections,
            wanted = wanted.connections,
            hint,
            "fewer agents can be connected: too few files may be open"
        );
    }
    Limits { connections, strangers, handshakes, ..wanted }
}

/// Raises the soft limit to the hard one, and returns it.
fn raise() -> nix::Result<u64> {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
    Ok(hard)
}

/// Returns how many connections of nodes and of others fit into a limit of open files; `None` is unlimited. Agents
/// are cut before the connections to the API server.
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
