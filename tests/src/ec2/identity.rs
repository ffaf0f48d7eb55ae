//! Who calls: test credentials by name, and what STS says of them.

use std::collections::BTreeMap;

use super::REGION;

/// Credentials that only a proxy knows. The secret is no secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credentials {
    /// Named so in the record and in rules.
    pub name: String,
    /// Who STS says it is.
    pub arn: String,
    /// STS's user id: `AROA…:session` for a role.
    pub user_id: String,
    /// Access key id: `ASIA…` for a role's session.
    pub access_key_id: String,
    /// Secret access key.
    pub secret_access_key: String,
    /// Session token of a role's session.
    pub session_token: Option<String>,
}

/// All identities of one proxy.
#[derive(Debug)]
pub(super) struct Identities {
    account: String,
    by_name: BTreeMap<String, Credentials>,
    /// Names by access key: whoever signs a call is looked up several times.
    names: BTreeMap<String, String>,
}

impl Identities {
    pub(super) fn new(account: &str) -> Self {
        Self { account: account.to_owned(), by_name: BTreeMap::new(), names: BTreeMap::new() }
    }

    /// The credentials called `name`: a session of the role `role`, or of a role of the same name.
    pub(super) fn session(&mut self, role: &str, name: &str) -> Credentials {
        let count = self.by_name.len() + 1;
        let account = &self.account;
        let of = |name: &str| Credentials {
            name: name.to_owned(),
            arn: format!("arn:aws:sts::{account}:assumed-role/{role}/{name}"),
            user_id: format!("AROA{count:017}:{name}"),
            access_key_id: format!("ASIA{account}{count:04}"),
            secret_access_key: format!("test-secret-of-{name}"),
            session_token: Some(format!("test-token-of-{name}")),
        };
        let credentials = self.by_name.entry(name.to_owned()).or_insert_with_key(|name| of(name));
        self.names.insert(credentials.access_key_id.clone(), name.to_owned());
        credentials.clone()
    }

    pub(super) fn of_key(&self, access_key: &str) -> Option<&Credentials> {
        self.by_name.get(self.names.get(access_key)?)
    }

    /// The name of who signs with `access_key`; the key itself if nobody named it.
    pub(super) fn name(&self, access_key: &str) -> String {
        match self.of_key(access_key) {
            Some(credentials) => credentials.name.clone(),
            None if access_key.is_empty() => "anonymous".to_owned(),
            None => access_key.to_owned(),
        }
    }

    pub(super) fn arn(&self, access_key: &str) -> String {
        match self.of_key(access_key) {
            Some(credentials) => credentials.arn.clone(),
            None => format!("arn:aws:iam::{}:user/{}", self.account, self.name(access_key)),
        }
    }
}

impl Credentials {
    /// As environment variables for a program that is started by a test.
    pub fn environment(&self) -> Vec<(&'static str, String)> {
        let mut variables = vec![
            ("AWS_ACCESS_KEY_ID", self.access_key_id.clone()),
            ("AWS_SECRET_ACCESS_KEY", self.secret_access_key.clone()),
            ("AWS_REGION", REGION.to_owned()),
            // The command line knows it by this name only.
            ("AWS_DEFAULT_REGION", REGION.to_owned()),
            ("AWS_EC2_METADATA_DISABLED", "true".to_owned()),
        ];
        variables.extend(self.session_token.clone().map(|token| ("AWS_SESSION_TOKEN", token)));
        variables
    }
}
