//! Reasons why an attempt to talk to the controller ends.

use std::io;
use std::time::Duration;

use rustls::pki_types::{InvalidDnsNameError, pem};
use tonic::{Code, Status};

use crate::probes::fault::MetadataFault;

/// Reason why an attempt ended.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// The controller cannot be reached.
    #[error("the controller at {address} cannot be reached: {cause}")]
    Way {
        /// Address of the controller.
        address: String,
        /// Reason.
        cause: WayFault,
    },
    /// The controller does not answer a call.
    #[error("the controller has not answered after {} s", .0.as_secs())]
    Silent(Duration),
    /// The connection ended.
    #[error("the connection has ended")]
    Cut,
    /// The agent is ending.
    #[error("the agent is ending")]
    Ending,
    /// The answer to an enrolment has no certificate.
    #[error("the controller has given no certificate")]
    NoCertificate,
    /// The certificate of the controller for this node is malformed.
    #[error("the controller's certificate cannot be read: {0}")]
    Certificate(#[source] pem::Error),
    /// The nonce has another length.
    #[error("the nonce has another length")]
    Nonce,
    /// The evidence cannot be read.
    #[error("instance metadata does not say who the node is: {0}")]
    Metadata(#[from] MetadataFault),
    /// No certificate can be made for the first connection.
    #[error("no certificate can be made: {0}")]
    OwnCertificate(#[from] rcgen::Error),
    /// The controller returned an error status.
    #[error("the controller answers {}: {}", .0.code(), .0.message())]
    Said(#[source] Box<Status>),
}

/// Reason why the controller cannot be reached.
#[derive(Debug, thiserror::Error)]
pub enum WayFault {
    /// Its certificate authority is malformed.
    #[error("its certificate authority: {0}")]
    Authority(#[source] pem::Error),
    /// Its certificate authority is not usable.
    #[error("its certificate authority: {0}")]
    Unusable(#[source] rustls::Error),
    /// The certificate and the key of this node are not usable.
    #[error("{0}")]
    Identity(#[from] rustls::Error),
    /// Its name is not a DNS name.
    #[error("{0}")]
    Name(#[from] InvalidDnsNameError),
    /// The connection or the TLS handshake failed.
    #[error("{0}")]
    Connection(#[from] io::Error),
    /// No answer in time.
    #[error("no answer in time")]
    Silent,
    /// The connection does not carry HTTP/2.
    #[error("{0}")]
    Http(#[from] tonic::transport::Error),
}

impl From<Status> for Fault {
    fn from(status: Status) -> Self {
        Self::Said(Box::new(status))
    }
}

impl Fault {
    /// Returns true if the controller refuses this node, as it would again.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        self.code() == Some(Code::PermissionDenied)
    }

    /// Returns true if the controller does not accept the certificate of this node, so that it has to enrol again.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        self.code() == Some(Code::Unauthenticated)
    }

    fn code(&self) -> Option<Code> {
        match self {
            Self::Said(status) => Some(status.code()),
            _ => None,
        }
    }
}
