//! What becomes of pods that wait, round by round.

mod buffers;
mod claims;
mod equivalent_pods;
pub(crate) mod fixture;
mod gang;
mod places;
mod property;
mod rounds;
mod turns;
