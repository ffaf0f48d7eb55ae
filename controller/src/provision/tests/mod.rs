//! What becomes of pods that wait, round by round.

mod claims;
pub(crate) mod fixture;
mod kin;
mod places;
mod property;
mod rounds;
mod together;
mod turns;
