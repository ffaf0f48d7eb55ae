//! The only source of randomness. Its algorithm is fixed: a seed gives the same day on every machine.
//!
//! A draw has a name, and depends on the seed and the name only, not on earlier draws. So a change of a script does not
//! affect unrelated events, and two policies are compared in the same world.

use std::time::Duration;

use rand_pcg::Pcg64;
use rand_pcg::rand_core::Rng;

/// Random numbers by name.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Dice {
    seed: u64,
}

// === impl Dice ===

impl Dice {
    pub(crate) const fn new(seed: u64) -> Self {
        Self { seed }
    }

    /// Returns a number below `sides`; zero if `sides` is zero.
    pub(crate) fn below(self, name: &str, sides: u64) -> u64 {
        // The modulo bias is 2⁻⁴⁰ for a million sides.
        if sides == 0 { 0 } else { self.draw(name) % sides }
    }

    /// Returns a duration from 70 % to 130 % of `middle`, in whole milliseconds.
    pub(crate) fn about(self, name: &str, middle: Duration) -> Duration {
        let middle = u64::try_from(middle.as_millis()).unwrap_or(u64::MAX / 200);
        Duration::from_millis(middle.saturating_mul(70 + self.below(name, 61)) / 100)
    }

    fn draw(self, name: &str) -> u64 {
        // FNV-1a: short, and its results never change.
        let hash = name
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        Pcg64::new(u128::from(self.seed), u128::from(hash)).next_u64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_draw_is_its_seed_and_its_name() {
        let dice = Dice::new(7);
        assert_eq!(dice.below("a", 1000), Dice::new(7).below("a", 1000));
        let draws: std::collections::BTreeSet<u64> =
            (0..100).map(|number| dice.below(&number.to_string(), 1_000_000)).collect();
        assert!(draws.len() > 95, "{}", draws.len());
        assert_eq!(dice.below("a", 0), 0);
        let span = dice.about("boot", Duration::from_secs(10));
        assert!((Duration::from_secs(7)..=Duration::from_secs(13)).contains(&span), "{span:?}");
    }

    #[test]
    fn the_algorithm_is_fixed() {
        assert_eq!([Dice::new(0).draw(""), Dice::new(1).draw("a")].map(|draw| draw % 1000), [990, 918]);
    }
}
