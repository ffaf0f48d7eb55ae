//! Muster
fn main() {}
