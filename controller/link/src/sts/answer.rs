//! Parser of STS's answer, which identifies the signer.

use roxmltree::{Document, Node};

use super::CallerFault;
use crate::identity::is_account;

/// Maximum length of an answer in bytes. STS's has about 500.
pub const LONGEST_ANSWER: usize = 16 * 1024;

/// Error codes that say nothing about the proof (API reference of STS, Common Errors).
const PASSING: [&str; 6] = [
    "InternalFailure",
    "RequestLimitExceeded",
    "ServiceUnavailable",
    "Throttling",
    "ThrottlingException",
    "RequestThrottled",
];

/// Session of a role.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// AWS partition, such as `aws` or `aws-cn`.
    pub partition: String,
    /// AWS account ID, twelve digits.
    pub account: String,
    /// Name of the role, without its path, which STS does not return.
    pub role: String,
    /// Name of the session; for an instance's own credentials, the instance ID.
    pub session: String,
}

/// Reads an answer by its status and body.
///
/// # Errors
/// It does not identify the signer.
pub fn read(status: u16, body: &[u8]) -> Result<Caller, CallerFault> {
    if body.len() > LONGEST_ANSWER {
        return Err(CallerFault::Unreadable);
    }
    let text = std::str::from_utf8(body).map_err(|_| CallerFault::Unreadable);
    let document = text.and_then(|text| Document::parse(text).map_err(|_| CallerFault::Unreadable));
    if status == 200 {
        return caller(document?.root_element()).ok_or(CallerFault::Unreadable);
    }
    let code = document.ok().and_then(|document| code(document.root_element()));
    match code {
        Some(code) if (400..500).contains(&status) && !PASSING.contains(&code.as_str()) => {
            Err(CallerFault::Refused(code))
        }
        _ if status >= 500 || status == 429 || code.is_some() => {
            Err(CallerFault::Unavailable(code.unwrap_or_else(|| format!("status {status}"))))
        }
        // This includes redirects, which are not followed.
        _ => Err(CallerFault::Unreadable),
    }
}

fn child<'a, 'i>(node: Node<'a, 'i>, name: &str) -> Option<Node<'a, 'i>> {
    let mut found = node.children().filter(|child| child.is_element() && child.tag_name().name() == name);
    let first = found.next();
    first.filter(|_| found.next().is_none())
}

fn caller(root: Node<'_, '_>) -> Option<Caller> {
    if root.tag_name().name() != "GetCallerIdentityResponse" {
        return None;
    }
    let result = child(root, "GetCallerIdentityResult")?;
    let arn = child(result, "Arn")?.text()?;
    let account = child(result, "Account")?.text()?;
    let caller = Caller::of_arn(arn)?;
    (caller.account == account).then_some(caller)
}

/// Returns the code of an error, if it is well-formed: it is logged.
fn code(root: Node<'_, '_>) -> Option<String> {
    let code = child(child(root, "Error")?, "Code")?.text()?;
    (code.len() <= 64 && code.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'.')).then(|| code.to_owned())
}

impl Caller {
    /// Parses `arn:aws:sts::123456789012:assumed-role/NodeRole/i-0123456789abcdef0`; `None` for another kind of caller.
    fn of_arn(arn: &str) -> Option<Self> {
        let mut parts = arn.split(':');
        let (scheme, partition, service) = (parts.next()?, parts.next()?, parts.next()?);
        let (region, account, resource) = (parts.next()?, parts.next()?, parts.next()?);
        let mut names = resource.split('/');
        let (kind, role, session) = (names.next()?, names.next()?, names.next()?);
        // IAM, Reserved characters and limits.
        let is_name = |name: &str| {
            let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || b"_+=,.@-".contains(&byte);
            (1..=64).contains(&name.len()) && name.bytes().all(is_inner)
        };
        let is_session = scheme == "arn"
            && service == "sts"
            && region.is_empty()
            && kind == "assumed-role"
            && (parts.next(), names.next()) == (None, None)
            && is_account(account)
            && is_name(role)
            && is_name(session)
            && partition.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-');
        is_session.then(|| Self {
            partition: partition.to_owned(),
            account: account.to_owned(),
            role: role.to_owned(),
            session: session.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(arn: &str, account: &str) -> String {
        format!(
            "<GetCallerIdentityResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><GetCallerIdentityResult>\
             <Arn>{arn}</Arn><UserId>AROA123456789EXAMPLE:i-0123456789abcdef0</UserId><Account>{account}</Account>\
             </GetCallerIdentityResult><ResponseMetadata><RequestId>01234567</RequestId></ResponseMetadata>\
             </GetCallerIdentityResponse>"
        )
    }

    #[test]
    fn a_session_of_a_role_is_read() {
        let text = answer("arn:aws:sts::123456789012:assumed-role/NodeRole/i-0123456789abcdef0", "123456789012");
        let caller = read(200, text.as_bytes()).unwrap();
        let expected = ("aws", "123456789012", "NodeRole", "i-0123456789abcdef0");
        let Caller { partition, account, role, session } = &caller;
        assert_eq!((partition.as_str(), account.as_str(), role.as_str(), session.as_str()), expected);
    }

    #[test]
    fn nobody_else_is() {
        for arn in [
            "arn:aws:iam::123456789012:user/NodeRole",
            "arn:aws:sts::123456789012:federated-user/NodeRole/i-0",
            "arn:aws:sts::123456789012:assumed-role/NodeRole",
            "arn:aws:sts::123456789012:assumed-role/NodeRole/a/b",
            "arn:aws:sts::123456789012:assumed-role//i-0",
            "arn:aws:sts::210987654321:assumed-role/NodeRole/i-0",
            "arn:aws:sts::123456789012:assumed-role/NodeRole/i-0:more",
            "assumed-role/NodeRole/i-0",
            "",
        ] {
            assert_eq!(read(200, answer(arn, "123456789012").as_bytes()), Err(CallerFault::Unreadable), "{arn}");
        }
        let good = answer("arn:aws:sts::123456789012:assumed-role/NodeRole/i-0", "123456789012");
        let twice = good.replacen("<UserId>", "<Arn>arn:aws:sts::123456789012:assumed-role/Other/i-0</Arn><UserId>", 1);
        assert_eq!(read(200, twice.as_bytes()), Err(CallerFault::Unreadable), "two answers are none");
        let entity = format!("<!DOCTYPE a [<!ENTITY b \"c\">]>{good}");
        assert_eq!(read(200, entity.as_bytes()), Err(CallerFault::Unreadable), "no entities");
        assert_eq!(read(200, &vec![b' '; LONGEST_ANSWER + 1]), Err(CallerFault::Unreadable));
        assert_eq!(read(302, good.as_bytes()), Err(CallerFault::Unreadable), "a redirect is no answer");
    }

    #[test]
    fn a_refusal_is_told_from_a_bad_moment() {
        let error = |code: &str| {
            format!("<ErrorResponse><Error><Type>Sender</Type><Code>{code}</Code></Error></ErrorResponse>")
        };
        let refused = |code: &str| Err(CallerFault::Refused(code.to_owned()));
        let unavailable = |code: &str| Err(CallerFault::Unavailable(code.to_owned()));
        for (status, code, expected) in [
            (403, "SignatureDoesNotMatch", refused("SignatureDoesNotMatch")),
            (403, "ExpiredToken", refused("ExpiredToken")),
            (400, "Throttling", unavailable("Throttling")),
            (503, "ServiceUnavailable", unavailable("ServiceUnavailable")),
            (403, "a secret of the proxy", Err(CallerFault::Unreadable)),
        ] {
            assert_eq!(read(status, error(code).as_bytes()), expected, "{status} {code}");
        }
        assert_eq!(read(500, b"oops"), unavailable("status 500"));
    }
}
