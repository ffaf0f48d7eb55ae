//! Limits on the resources of this replica that clients can use.

use std::time::Duration;

use crate::bucket::Rate;

/// Limits of a gateway. [`Limits::default`] is for 10,000 nodes on one replica.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Maximum number of connections of enrolled nodes.
    pub connections: usize,
    /// Maximum number of connections of other clients after their handshakes. They are counted apart, so that strangers
    /// cannot keep enrolled nodes out. About as many can enrol while one of them waits for its turn.
    pub strangers: usize,
    /// Maximum number of connections of other clients from one network (an IPv4 /24 or an IPv6 /64), handshakes
    /// included.
    pub strangers_of_network: usize,
    /// Lifetime of a stranger's connection: an enrolment takes seconds, after a wait of up to 30. A connection on which
    /// an operator was authenticated lasts as long as a node's.
    pub stranger_age: Duration,
    /// Maximum number of connections from one address (of IPv6, one /80): a node has one, and a second while it
    /// reconnects.
    pub connections_of_address: usize,
    /// Rate of connections from one address (of IPv6, one /80). Each costs a key exchange, a signature and a
    /// verification.
    pub arrivals: Rate,
    /// Rate of connections from one network. All nodes of a subnet reconnect within half a minute.
    pub arrivals_of_network: Rate,
    /// Maximum number of handshakes in progress, and as many for the sources of nodes' connections of the last hour. A
    /// place is taken for milliseconds by a node, and for `hello` by a client that says nothing.
    pub handshakes: usize,
    /// Maximum number of these from one network, apart from those sources: as many as an IPv4 /24 has addresses.
    pub handshakes_of_network: usize,
    /// Timeout of the first message of a handshake, which a client sends as soon as it is connected.
    pub hello: Duration,
    /// Timeout of a handshake.
    pub handshake: Duration,
    /// Lifetime of a connection. Reconnecting spreads nodes over replicas and drops expired and revoked certificates.
    /// Up to a tenth is added, depending on the peer's key, so that nodes do not all reconnect at once.
    pub age: Duration,
    /// Time that calls may continue after that.
    pub grace: Duration,
    /// Timeout for a peer to read what it is sent, or to answer a ping.
    pub patience: Duration,
    /// Maximum number of calls on a connection before one is admitted as a node's or an operator's: an enrolment makes
    /// two. The connection ends after them.
    pub stranger_calls: u32,
    /// Maximum number of concurrent enrolments; others wait. Each makes requests to EC2 and STS, and a write.
    pub enrolments: usize,
    /// Minimum interval between certificates of a node: it renews one after hours.
    pub certificate_interval: Duration,
    /// Minimum interval between stored reports of a node.
    pub report_interval: Duration,
    /// Maximum number of TokenReviews per second, for all clients together, and as many for addresses from which a user
    /// was allowed lately. An API server that is busy with tokens of strangers has less time for the leader.
    pub reviews_per_second: u32,
    /// Rate of tokens from one address that turn out to be unknown or not allowed.
    pub unknown_tokens: Rate,
    /// Maximum number of operators' watches. Each may hold an outdated snapshot of the rows, some 30 MB for 10,000
    /// nodes.
    pub watches: usize,
    /// Maximum number of operators' reflection streams.
    pub reflections: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 12_000,
            strangers: 4096,
            strangers_of_network: 1024,
            stranger_age: Duration::from_mins(2),
            connections_of_address: 8,
            arrivals: Rate::new(16, Duration::from_millis(250)),
            arrivals_of_network: Rate::new(2048, Duration::from_millis(4)),
            handshakes: 2048,
            handshakes_of_network: 256,
            hello: Duration::from_secs(3),
            handshake: Duration::from_secs(10),
            age: Duration::from_mins(30),
            grace: Duration::from_secs(10),
            patience: Duration::from_secs(20),
            stranger_calls: 8,
            enrolments: 200,
            certificate_interval: Duration::from_secs(60),
            report_interval: Duration::from_millis(500),
            reviews_per_second: 20,
            unknown_tokens: Rate::new(8, Duration::from_secs(1)),
            watches: 16,
            reflections: 16,
        }
    }
}
