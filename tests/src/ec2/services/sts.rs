//! `GetCallerIdentity`, also through a presigned address: the proof of who a node is.

use super::super::answer::{Answer, ApiError};
use super::super::request::Request;
use super::super::shared::Shared;
use super::super::xml;

/// The signature has been checked if the key is known.
pub(super) fn caller(shared: &Shared, request: &Request, request_id: &str) -> Result<Answer, ApiError> {
    let state = shared.state();
    let Some(credentials) = state.identities.of_key(&request.access_key) else {
        let message = "The security token included in the request is invalid.";
        return Err(ApiError::new(403, "InvalidClientTokenId", message));
    };
    let result = xml::branch(
        "GetCallerIdentityResult",
        [
            xml::leaf("Arn", &credentials.arn),
            xml::leaf("UserId", &credentials.user_id),
            xml::leaf("Account", &shared.account),
        ],
    );
    let metadata = xml::branch("ResponseMetadata", [xml::leaf("RequestId", request_id)]);
    let mut root = xml::branch("GetCallerIdentityResponse", [result, metadata]);
    root.attributes.insert("xmlns".into(), "https://sts.amazonaws.com/doc/2011-06-15/".to_owned());
    Ok(Answer::xml(200, &root))
}
