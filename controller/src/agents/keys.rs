//! Keys for serving agents, as a Secret holds them. Pure.
//!
//! They are recreated if an operator deletes the Secret. Nodes that are not connected at that moment then no longer
//! trust the controller; they keep working as nodes, but do not report until they are replaced. [`super::rotation`]
//! replaces keys without that loss.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use muster_api::annotations;
use muster_gateway::{Authority, AuthorityFault, Pair};
use muster_link::{LAUNCH_KEY_BYTES, LaunchKey};

use super::launch_keys::LaunchKeys;
use super::rotation::{Authorities, Former, Next};
use crate::permissions::AGENTS_SECRET;

/// Entries of the Secret: the CA that signs, and the time since which it exists.
const CERTIFICATE: &str = "ca.crt";
const KEY: &str = "ca.key";
const SINCE: &str = "ca.since";
/// Next CA, its certificate signed by the current CA, and the time since which it is known.
const NEXT_CERTIFICATE: &str = "next.crt";
const NEXT_KEY: &str = "next.key";
const NEXT_VOUCHED: &str = "next.cross.crt";
const NEXT_SINCE: &str = "next.since";
/// Previous CA, the current CA's certificate signed by it, and the time of its replacement.
const FORMER_CERTIFICATE: &str = "trusted.crt";
const FORMER_VOUCHED: &str = "cross.crt";
const FORMER_SINCE: &str = "trusted.since";
/// Launch key, the time since which it is used, and the previous launch key.
const LAUNCH: &str = "launch.key";
const LAUNCH_SINCE: &str = "launch.since";
const FORMER_LAUNCH: &str = "launch.former.key";

/// Keys for serving agents.
pub(super) struct Keys {
    pub(super) authorities: Authorities,
    /// CA in the form that the gateway uses.
    pub(super) authority: Arc<Authority>,
    pub(super) launch: LaunchKeys,
    /// True if an operator has requested another CA.
    pub(super) is_asked: bool,
    /// True if an operator has requested another launch key.
    pub(super) is_launch_asked: bool,
    /// Secret that holds them.
    pub(super) secret: Secret,
}

/// Reason why the keys are unavailable.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    #[error("the Secret `{AGENTS_SECRET}` cannot be read or written: {0}")]
    Kube(#[from] kube::Error),
    #[error("the Secret `{AGENTS_SECRET}` lacks `{0}`, or it cannot be read")]
    Missing(&'static str),
    #[error("the Secret `{AGENTS_SECRET}`: {0}")]
    Authority(#[from] AuthorityFault),
    #[error("the Secret `{AGENTS_SECRET}` cannot be read or written: no answer within {} s", .0.as_secs())]
    Silence(Duration),
    #[error("no random numbers are available")]
    NoRandom,
}

/// Makes new keys, in a Secret that does not exist yet.
pub(super) fn make(now: Timestamp) -> Result<Secret, Fault> {
    let authorities = Authorities::of(Pair::make(now)?, Some(now));
    let launch = LaunchKeys::of(launch_key()?, now);
    let labels = BTreeMap::from([("app.kubernetes.io/managed-by".to_owned(), "muster".to_owned())]);
    let metadata = ObjectMeta { name: Some(AGENTS_SECRET.to_owned()), labels: Some(labels), ..ObjectMeta::default() };
    let bare = Secret { metadata, type_: Some("Opaque".to_owned()), ..Secret::default() };
    Ok(with_launch(with(bare, &authorities), &launch))
}

/// Makes a new launch key.
pub(super) fn launch_key() -> Result<LaunchKey, Fault> {
    let mut bytes = [0; LAUNCH_KEY_BYTES];
    aws_lc_rs::rand::fill(&mut bytes).map_err(|_| Fault::NoRandom)?;
    Ok(LaunchKey::new(bytes))
}

/// Returns the Secret with other launch keys; its other entries stay.
fn with_launch(secret: Secret, launch: &LaunchKeys) -> Secret {
    let LaunchKeys { present, since, former } = launch;
    let entries = [
        (LAUNCH, Some(present.expose())),
        (LAUNCH_SINCE, since.map(|at| at.to_string())),
        (FORMER_LAUNCH, former.as_ref().map(LaunchKey::expose)),
    ];
    holding(secret, entries)
}

/// Returns the Secret with other CAs; its other entries stay.
fn with(secret: Secret, authorities: &Authorities) -> Secret {
    let Authorities { signing, since, next, former } = authorities;
    let moment = |at: &Timestamp| at.to_string();
    let (next, former) = (next.as_ref(), former.as_ref());
    let entries = [
        (CERTIFICATE, Some(signing.certificate.clone())),
        (KEY, Some(signing.key.clone())),
        (SINCE, since.as_ref().map(moment)),
        (NEXT_CERTIFICATE, next.map(|it| it.pair.certificate.clone())),
        (NEXT_KEY, next.map(|it| it.pair.key.clone())),
        (NEXT_VOUCHED, next.map(|it| it.vouched.clone())),
        (NEXT_SINCE, next.map(|it| moment(&it.since))),
        (FORMER_CERTIFICATE, former.map(|it| it.certificate.clone())),
        (FORMER_VOUCHED, former.map(|it| it.vouched.clone())),
        (FORMER_SINCE, former.and_then(|it| it.since.as_ref().map(moment))),
    ];
    holding(secret, entries)
}

/// Returns the Secret with the entries that have a value, and without those that are `None`.
fn holding<'n>(mut secret: Secret, entries: impl IntoIterator<Item = (&'n str, Option<String>)>) -> Secret {
    let data = secret.data.get_or_insert_default();
    for (name, text) in entries {
        match text {
            Some(text) => drop(data.insert(name.to_owned(), ByteString(text.into_bytes()))),
            None => drop(data.remove(name)),
        }
    }
    secret
}

impl Keys {
    /// Reads the keys of a Secret.
    pub(super) fn read(secret: Secret, now: Timestamp) -> Result<Self, Fault> {
        let find = |name: &str| {
            let bytes = &secret.data.as_ref()?.get(name)?.0;
            String::from_utf8(bytes.clone()).ok()
        };
        let text = |name: &'static str| find(name).ok_or(Fault::Missing(name));
        let moment = |name| find(name).and_then(|text| text.trim().parse::<Timestamp>().ok());
        let made = secret.metadata.creation_timestamp.as_ref().map(|at| at.0);
        let next = match find(NEXT_CERTIFICATE) {
            Some(certificate) => Some(Next {
                pair: Pair { certificate, key: text(NEXT_KEY)? },
                vouched: text(NEXT_VOUCHED)?,
                since: moment(NEXT_SINCE).ok_or(Fault::Missing(NEXT_SINCE))?,
            }),
            None => None,
        };
        let former = find(FORMER_CERTIFICATE).filter(|text| !text.trim().is_empty()).map(|certificate| Former {
            certificate,
            vouched: find(FORMER_VOUCHED).unwrap_or_default(),
            since: moment(FORMER_SINCE),
        });
        let signing = Pair { certificate: text(CERTIFICATE)?, key: text(KEY)? };
        let authorities = Authorities { signing, since: moment(SINCE).or(made), next, former };
        let authority = Arc::new(Authority::read(&authorities.material(), now)?);
        let key_of = |name| {
            let key = |text: String| LaunchKey::parse(text.trim()).ok_or(Fault::Missing(name));
            find(name).map(key).transpose()
        };
        let launch = LaunchKeys {
            present: key_of(LAUNCH)?.ok_or(Fault::Missing(LAUNCH))?,
            since: moment(LAUNCH_SINCE).or(made),
            former: key_of(FORMER_LAUNCH)?,
        };
        let asked = secret.metadata.annotations.as_ref();
        let asks = |name| asked.is_some_and(|all| all.contains_key(name));
        let (is_asked, is_launch_asked) = (asks(annotations::ROTATE_AUTHORITY), asks(annotations::ROTATE_LAUNCH_KEY));
        Ok(Self { authorities, authority, launch, is_asked, is_launch_asked, secret })
    }

    /// Returns the Secret with the next CAs, for a write at the version that was read. If `answered`, the operator's
    /// request is removed.
    pub(super) fn followed_by(&self, authorities: &Authorities, answered: bool) -> Secret {
        let secret = with(self.secret.clone(), authorities);
        if answered { without(secret, annotations::ROTATE_AUTHORITY) } else { secret }
    }

    /// Returns the Secret with the next launch keys, like [`Self::followed_by`].
    pub(super) fn launched_by(&self, launch: &LaunchKeys, answered: bool) -> Secret {
        let secret = with_launch(self.secret.clone(), launch);
        if answered { without(secret, annotations::ROTATE_LAUNCH_KEY) } else { secret }
    }

    /// Returns the UID and the resource version of the Secret.
    pub(super) fn version(&self) -> (Option<&str>, Option<&str>) {
        (self.secret.metadata.uid.as_deref(), self.secret.metadata.resource_version.as_deref())
    }
}

fn without(mut secret: Secret, annotation: &str) -> Secret {
    if let Some(all) = secret.metadata.annotations.as_mut() {
        all.remove(annotation);
    }
    secret
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::constant(1_800_000_000, 0);

    #[test]
    fn what_is_made_is_read_again_and_each_is_another() {
        let made = make(NOW).unwrap();
        let (one, again) = (Keys::read(made.clone(), NOW).unwrap(), Keys::read(made, NOW).unwrap());
        assert_eq!(one.authorities, again.authorities);
        assert_eq!(one.launch, again.launch);
        let other = Keys::read(make(NOW).unwrap(), NOW).unwrap();
        assert!(other.launch != one.launch && other.authorities != one.authorities);
    }

    #[test]
    fn what_is_written_is_read_again_and_the_rest_stays() {
        let mut made = make(NOW).unwrap();
        made.metadata.annotations = Some(BTreeMap::from([
            (annotations::ROTATE_AUTHORITY.to_owned(), "yes".to_owned()),
            ("example.com/theirs".to_owned(), "x".to_owned()),
        ]));
        made.data.as_mut().unwrap().insert("theirs".to_owned(), ByteString(b"x".to_vec()));
        let keys = Keys::read(made, NOW).unwrap();
        assert!(keys.is_asked);
        let introduced = keys.authorities.clone().introduce(NOW).unwrap();
        let replaced = introduced.clone().replace(NOW);
        for (authorities, answered) in [(&introduced, true), (&replaced, false), (&replaced.clone().retire(), false)] {
            let read = Keys::read(keys.followed_by(authorities, answered), NOW).unwrap();
            assert_eq!(&read.authorities, authorities);
            assert_eq!(read.is_asked, !answered);
            assert_eq!(read.launch, keys.launch);
            assert!(read.secret.data.unwrap().contains_key("theirs"));
            assert!(read.secret.metadata.annotations.unwrap().contains_key("example.com/theirs"));
        }
    }

    #[test]
    fn keys_of_launches_are_written_and_read_again_and_the_rest_stays() {
        let mut made = make(NOW).unwrap();
        let asked = [annotations::ROTATE_AUTHORITY, annotations::ROTATE_LAUNCH_KEY];
        made.metadata.annotations = Some(asked.map(|name| (name.to_owned(), "yes".to_owned())).into());
        let keys = Keys::read(made, NOW).unwrap();
        assert!(keys.is_launch_asked);
        let replaced = keys.launch.clone().replace(launch_key().unwrap(), NOW);
        assert!(replaced.present != keys.launch.present);
        for (launch, answered) in [(&replaced, true), (&replaced.clone().forget(), false)] {
            let read = Keys::read(keys.launched_by(launch, answered), NOW).unwrap();
            assert_eq!((&read.launch, &read.authorities), (launch, &keys.authorities));
            assert_eq!((read.is_launch_asked, read.is_asked), (!answered, true), "of the other nothing is known");
        }
    }

    #[test]
    fn a_secret_of_before_rotations_is_as_old_as_it_is() {
        let mut old = make(NOW).unwrap();
        for name in [SINCE, LAUNCH_SINCE] {
            old.data.as_mut().unwrap().remove(name);
        }
        let since = |secret: &Secret| {
            let Keys { authorities, launch, .. } = Keys::read(secret.clone(), NOW).unwrap();
            [authorities.since, launch.since]
        };
        assert_eq!(since(&old), [None, None]);
        old.metadata.creation_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(NOW));
        assert_eq!(since(&old), [Some(NOW), Some(NOW)]);
    }

    #[test]
    fn what_is_wrong_with_it_is_named_and_never_quoted() {
        let broken = |name: &str, text: Option<&str>| {
            let mut secret = make(NOW).unwrap();
            let data = secret.data.as_mut().unwrap();
            match text {
                Some(text) => drop(data.insert(name.to_owned(), ByteString(text.as_bytes().to_vec()))),
                None => drop(data.remove(name)),
            }
            Keys::read(secret, NOW).err().unwrap().to_string()
        };
        assert_eq!(broken(KEY, None), "the Secret `muster-agents` lacks `ca.key`, or it cannot be read");
        assert_eq!(broken(LAUNCH, Some("hush")), "the Secret `muster-agents` lacks `launch.key`, or it cannot be read");
        assert_eq!(
            broken(FORMER_LAUNCH, Some("hush")),
            "the Secret `muster-agents` lacks `launch.former.key`, or it cannot be read"
        );
        assert_eq!(broken(KEY, Some("hush")), "the Secret `muster-agents`: the authority's `key` cannot be read");
        assert_eq!(
            broken(NEXT_CERTIFICATE, Some("x")),
            "the Secret `muster-agents` lacks `next.key`, or it cannot be read"
        );
    }
}
