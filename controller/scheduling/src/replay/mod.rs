//! stub
use crate::model::{Options,Problem};use crate::solution::Solution;
/// x
pub struct Replay{/// x
pub expected_price:f64}
/// x
pub fn replay(_:&Problem,_:&Options,_:&Solution)->Replay{Replay{expected_price:0.0}}
