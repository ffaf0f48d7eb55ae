//! Steps of a connection to the API server: name, connection, TLS, response.

use std::fmt;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use muster_bootstrap::finding::{Finding, Severity};
use muster_bootstrap::place::Source;
use muster_bootstrap::verdicts::{self, Verdict};

/// Result of connecting to the API server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Way {
    /// The name does not resolve.
    Unknown {
        /// Host name.
        host: String,
        /// Error of the resolver.
        error: String,
    },
    /// No response.
    Silent {
        /// `host:port`.
        to: String,
        /// Time waited.
        after: Duration,
    },
    /// No route, or the connection was refused.
    Refused {
        /// `host:port`.
        to: String,
        /// Error of the operating system.
        error: String,
    },
    /// The proxy is unreachable, or does not connect.
    Proxy {
        /// Proxy, as `host:port`.
        by: String,
        /// Requested server, as `host:port`.
        to: String,
        /// Error.
        error: String,
    },
    /// The TLS handshake failed.
    Tls {
        /// `host:port`.
        to: String,
        /// Reason.
        fault: TlsFault,
    },
    /// The server is not a healthy API server.
    Odd {
        /// `host:port`.
        to: String,
        /// Error or status returned.
        error: String,
    },
    /// The API server answers.
    Open {
        /// `host:port`.
        to: String,
        /// Server time and local time.
        clock: Option<(Timestamp, Timestamp)>,
        /// Server version, such as `v1.37.1`, if anonymous requests may read it.
        version: Option<String>,
    },
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { host, error } => write!(f, "{host}: {error}"),
            Self::Silent { to, after } => write!(f, "{to}: no answer for {:.1} s", after.as_secs_f64()),
            Self::Refused { to, error } | Self::Odd { to, error } => write!(f, "{to}: {error}"),
            Self::Proxy { by, to, error } => write!(f, "{to} by the proxy {by}: {error}"),
            Self::Tls { to, .. } => write!(f, "{to}: TLS failed"),
            Self::Open { to, .. } => write!(f, "{to}: open"),
        }
    }
}

/// Reason why TLS failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TlsFault {
    /// The configured certificate authority is not valid.
    Authority(String),
    /// The certificate is signed by another authority.
    Issuer,
    /// The certificate is for another name.
    Name(String),
    /// The certificate is expired or not yet valid.
    Time(String),
    /// Another reason.
    Other(String),
}

/// Clock offset from which signatures are refused (aws-iam-authenticator). Certificates tolerate seconds.
const WRONG: SignedDuration = SignedDuration::from_mins(5);
const DRIFTING: SignedDuration = SignedDuration::from_secs(30);

pub(crate) fn check(way: &Way, now: Timestamp) -> Vec<Finding> {
    let one = |verdict: &'static Verdict, message: String, source: &str, text: &str| {
        vec![Finding::new(verdict, &message, Some((Source::whole(source).anywhere(), text)))]
    };
    match way {
        Way::Unknown { host, error } => one(&verdicts::NW01, format!("`{host}` has no address"), "DNS", error),
        Way::Silent { to, after } => {
            let text = format!("no answer for {:.1} s", after.as_secs_f64());
            one(&verdicts::NW02, format!("`{to}` does not answer"), "TCP", &text)
        }
        Way::Refused { to, error } => one(&verdicts::NW03, format!("`{to}` cannot be reached"), "TCP", error),
        Way::Proxy { by, to, error } => {
            let message = format!("the proxy `{by}` does not lead to `{to}`");
            let fix =
                "correct `HTTPS_PROXY`, or name the API server in `NO_PROXY` if the node reaches it without a proxy";
            let findings = one(&verdicts::NW06, message, "proxy", error);
            findings.into_iter().map(|it| it.with_severity(Severity::Error).with_fix(fix)).collect()
        }
        Way::Odd { to, error } => one(&verdicts::NW13, format!("`{to}` answers with an error"), "HTTP", error),
        Way::Tls { to, fault } => match fault {
            TlsFault::Authority(why) => one(&verdicts::UD28, "the certificate authority is none".to_owned(), "CA", why),
            TlsFault::Issuer => {
                let message = format!("the certificate of `{to}` is not of the cluster's authority");
                one(&verdicts::NW04, message, "TLS", "unknown issuer")
            }
            TlsFault::Name(names) => {
                one(&verdicts::NW05, format!("the certificate of `{to}` is for another name"), "TLS", names)
            }
            TlsFault::Time(why) => {
                let text = format!("{why}; the clock here says {now:.0}");
                one(&verdicts::ID12, format!("the certificate of `{to}` is not valid at this time"), "TLS", &text)
            }
            TlsFault::Other(why) => one(&verdicts::NW13, format!("`{to}` does not speak TLS as it should"), "TLS", why),
        },
        Way::Open { to, clock, .. } => {
            let Some((theirs, ours)) = clock else { return Vec::new() };
            let offset = ours.duration_since(*theirs);
            let distance = offset.abs();
            if distance < DRIFTING {
                return Vec::new();
            }
            let direction = if offset.is_negative() { "slow" } else { "fast" };
            let message = format!("the clock is {} s {direction}", distance.as_secs());
            let severity = if distance < WRONG { Severity::Warning } else { Severity::Error };
            let text = format!("`{to}` says {theirs:.0}, the clock here {ours:.0}");
            let place = Source::whole("Date header").anywhere();
            vec![Finding::new(&verdicts::ID12, &message, Some((place, &text))).with_severity(severity)]
        }
    }
}
