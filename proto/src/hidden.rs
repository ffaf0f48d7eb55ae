//! `Debug` output of messages that hold a secret: the secret is omitted.

use std::fmt;

use crate::muster::{EnrolRequest, RoleProof};

impl fmt::Debug for EnrolRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EnrolRequest").finish_non_exhaustive()
    }
}

impl fmt::Debug for RoleProof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RoleProof").field("date", &self.date).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_secret_is_printed() {
        let secret = || "mlt-4f9aQ2".to_owned();
        let role_proof =
            RoleProof { authorization: secret(), date: "20261122T160018Z".to_owned(), security_token: secret() };
        assert_eq!(format!("{role_proof:?}"), "RoleProof { date: \"20261122T160018Z\", .. }");
        let request = EnrolRequest {
            nonce: vec![1],
            launch_token: secret(),
            identity_document: secret(),
            role_proof: Some(role_proof),
            previous_key: None,
        };
        assert_eq!(format!("{request:?}"), "EnrolRequest { .. }");
    }
}
