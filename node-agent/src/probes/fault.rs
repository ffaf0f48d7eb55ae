//! Reasons why a probe has no answer.

use std::io;
use std::time::Duration;

use hyper::StatusCode;
use rustls::pki_types::pem;

use crate::preflight::way::Way;

/// Reason why a URL does not name a server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UrlFault {
    /// The text is not a URL.
    #[error("`{0}` is no URL")]
    Malformed(String),
    /// The URL has no host.
    #[error("`{0}` names no host")]
    NoHost(String),
}

/// Reason why certificates, or a key, cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CertificateFault {
    /// No authority is given, and the system has none.
    #[error("there is none, and the system has no CA bundle")]
    NoBundle,
    /// The text has no certificate.
    #[error("there is no certificate in it")]
    Empty,
    /// The certificate authority is malformed.
    #[error("{0}")]
    Authority(#[source] pem::Error),
    /// The client certificate is malformed.
    #[error("client certificate: {0}")]
    Client(#[source] pem::Error),
    /// The key of the client certificate is malformed.
    #[error("client key: {0}")]
    Key(#[source] pem::Error),
    /// TLS does not accept a certificate or a key.
    #[error("{0}")]
    Unusable(#[from] rustls::Error),
}

/// Reason why a proxy does not connect.
#[derive(Debug, thiserror::Error)]
pub enum ProxyFault {
    /// The connection broke.
    #[error("{0}")]
    Broken(#[from] io::Error),
    /// The head of its answer does not end.
    #[error("its answer is too long")]
    TooLong,
    /// It refuses: its status line.
    #[error("{0}")]
    Refused(String),
}

/// Reason why a request has no usable answer.
#[derive(Debug, thiserror::Error)]
pub enum Unanswered {
    /// The request cannot be written. The message must not have the token.
    #[error("the request cannot be made: is the token one line of text?")]
    Malformed,
    /// No answer in time.
    #[error("no answer for {} ms", .0.as_millis())]
    Silent(Duration),
    /// The answer did not end in time.
    #[error("no whole answer for {} ms", .0.as_millis())]
    Cut(Duration),
    /// The connection broke.
    #[error("{0}")]
    Broken(#[from] hyper::Error),
    /// The body broke, or is too large.
    #[error("{0}")]
    Body(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The server refuses.
    #[error("{0}")]
    Refused(StatusCode),
}

/// Reason why instance metadata does not say something.
#[derive(Debug, thiserror::Error)]
pub enum MetadataFault {
    /// Instance metadata is disabled.
    #[error("it is turned off")]
    Off,
    /// The endpoint is not a URL.
    #[error(transparent)]
    Url(#[from] UrlFault),
    /// It cannot be reached.
    #[error("{0}")]
    Way(Way),
    /// It does not answer.
    #[error(transparent)]
    Unanswered(#[from] Unanswered),
    /// It answers a request with an error: the request and the status.
    #[error("{request}: {status}")]
    Status {
        /// Path, or method and path.
        request: String,
        /// Status.
        status: StatusCode,
    },
    /// It has no identity document.
    #[error("there is no identity document")]
    NoDocument,
    /// The credentials of the role are malformed.
    #[error("the role's credentials are no JSON")]
    Malformed,
    /// The credentials of the role are incomplete.
    #[error("the role's credentials are not there yet")]
    NoCredentialsYet,
}

impl MetadataFault {
    /// Returns true if instance metadata is disabled, so that asking again is of no use.
    #[must_use]
    pub fn is_off(&self) -> bool {
        matches!(self, Self::Off)
    }
}
