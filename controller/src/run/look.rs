//! One look at one claim, or at one class.

use std::time::Duration;

use jiff::Timestamp;
use muster_api::conditions::nodeclaim;
use muster_cloud::after;

use super::agenda::Verdict;
use super::desk::Desk;
use super::now;
use super::offers::offers;
use super::provider::{Provider, judged};
use crate::edge::{End, Held, Looked};
use crate::lifecycle::{breaker, decide, is_true};
use crate::state::{self, LiveClass, Surroundings};
use crate::step::Step;

/// How long pods are told of their node before anybody is told that they are being told.
const QUIETLY: Duration = Duration::from_secs(3);
/// How often to ask whether they have been.
const ASK: Duration = Duration::from_millis(250);
/// After a write the picture changes, which is a reason to look. If it does not, this is.
const LOST: Duration = Duration::from_secs(10);

/// What a look at a claim begins with.
enum Start {
    /// Not now.
    Wait(Option<Timestamp>),
    /// With these objects.
    Look(Box<Begun>),
}

struct Begun {
    held: Held,
    class: crate::lifecycle::Class,
    alternatives: Vec<muster_cloud::Alternative>,
    listing: Option<crate::lifecycle::Listing>,
    hold: Option<String>,
}

/// Decides what becomes of a claim, and does it.
pub(super) async fn claim<P: Provider>(desk: &Desk<P>, name: &str) -> Verdict {
    let mut begun = match begin(desk, name, now()) {
        Start::Wait(moment) => return Verdict::Rest(moment),
        Start::Look(begun) => begun,
    };
    let Begun { held, class, alternatives, listing, hold } = &mut *begun;
    let looked = desk
        .edge
        .look(held, |answers, now| {
            let cluster = desk.picture.glance();
            let Some(around) = cluster.around(name) else { return Step::rest() };
            let held = state::Held {
                class,
                pause: cluster.pause(&desk.settings.namespace),
                registration_hold: hold.as_deref(),
                alternatives,
                listing: *listing,
                answers: answers.clone(),
            };
            decide(&around.seen(held), now)
        })
        .await;
    if let Some(answer) = &looked.answers.launch {
        desk.remember_launch(answer, now());
    }
    conclude(desk, "NodeClaim", name, held, &looked)
}

/// Judges whether anything is launched with a class.
pub(super) async fn class<P: Provider>(desk: &Desk<P>, name: &str) -> Verdict {
    let class = {
        let cluster = desk.picture.glance();
        let mut classes = cluster.classes();
        let Some(live) = classes.find(|live| live.reference.kind == P::CLASS && live.reference.name == name) else {
            return Verdict::Rest(None);
        };
        desk.provider.judge(live)
    };
    let mut held = Held::default().class(&class);
    let looked = desk.edge.look(&mut held, |_, now| breaker::judge(&class, now)).await;
    conclude(desk, P::CLASS, name, &held, &looked)
}

fn begin<P: Provider>(desk: &Desk<P>, name: &str, now: Timestamp) -> Start {
    let cluster = desk.picture.glance();
    let Some(around) = cluster.around(name) else { return Start::Wait(None) };
    // Claims of another cloud's classes are somebody else's.
    let reference = &around.claim.spec.node_class_ref;
    if reference.kind != P::CLASS {
        return Start::Wait(None);
    }
    let memory = desk.memory();
    let shown = around.claim.metadata.resource_version.as_deref();
    let is_behind = memory.is_behind("NodeClaim", name, shown, now)
        || around.nodes.iter().any(|node| {
            let name = node.metadata.name.as_deref().unwrap_or_default();
            memory.is_behind("Node", name, node.metadata.resource_version.as_deref(), now)
        });
    if is_behind {
        return Start::Wait(Some(after(now, ASK)));
    }
    let hold = match hold_of(desk, &around, &memory, now) {
        Ok(hold) => hold,
        Err(wait) => return Start::Wait(Some(wait)),
    };
    let live = cluster.class(reference);
    let class = judged(&desk.provider, live, reference);
    let is_launched = is_true(around.claim, nodeclaim::LAUNCHED);
    let alternatives = if is_launched || around.claim.metadata.deletion_timestamp.is_some() {
        Vec::new()
    } else {
        let catalogue = desk.provider.types(live.and_then(LiveClass::manifest));
        offers(around.claim, &catalogue, &memory.refusals, now)
    };
    let provider_id = around.claim.status.as_ref().and_then(|status| status.provider_id.as_ref());
    let listing = provider_id.and_then(|id| memory.listings.get(id)).copied();
    let held =
        around.nodes.iter().fold(Held::default().claim(around.claim).class(&class), |held, node| held.node(node));
    Start::Look(Box::new(Begun { held, class, alternatives, listing, hold }))
}

/// What holds the registration of the claim's Node back, or until when to wait without a word.
fn hold_of<P: Provider>(
    desk: &Desk<P>,
    around: &Surroundings<'_>,
    memory: &super::desk::Memory,
    now: Timestamp,
) -> Result<Option<String>, Timestamp> {
    let claim = around.claim;
    let is_coming = is_true(claim, nodeclaim::LAUNCHED)
        && !is_true(claim, nodeclaim::REGISTERED)
        && claim.metadata.deletion_timestamp.is_none();
    let (true, true, [node]) = (is_coming, desk.settings.nominates, around.nodes.as_slice()) else { return Ok(None) };
    let name = claim.metadata.name.as_deref().unwrap_or_default();
    let seen = memory.holds.get(name).filter(|(uid, _)| Some(uid) == node.metadata.uid.as_ref());
    let made_at = node.metadata.creation_timestamp.as_ref().map_or(now, |time| time.0);
    match seen {
        Some((_, None)) => Ok(None),
        Some((_, Some(hold))) if now < after(made_at, QUIETLY) && now < hold.until => Err(after(now, ASK)),
        Some((_, Some(hold))) => Ok((now < hold.until).then(|| hold.why.clone())),
        None if memory.plan.has_places(name) && now < after(made_at, QUIETLY) => Err(after(now, ASK)),
        None => Ok(None),
    }
}

fn conclude<P: Provider>(desk: &Desk<P>, kind: &'static str, name: &str, held: &Held, looked: &Looked) -> Verdict {
    let now = now();
    desk.memory().note_written(held, now);
    match &looked.end {
        End::Done if looked.has_written => Verdict::Rest(Some(looked.again.unwrap_or_else(|| after(now, LOST)))),
        End::Done => Verdict::Rest(looked.again),
        End::Stale => Verdict::Again,
        End::Failed(why) => {
            tracing::warn!(kind, name, why, "will be tried again");
            Verdict::Failed
        }
        // Whoever leads next begins anew.
        End::Fenced => Verdict::Rest(None),
    }
}
