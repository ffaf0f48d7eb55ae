//! Random numbers from a seed.

use std::f64::consts::TAU;

/// SplitMix64: passes the usual test batteries, and is small enough to be read at a glance.
#[derive(Debug, Clone)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Evenly from 0 to 1, 1 excluded.
    pub(crate) fn fraction(&mut self) -> f64 {
        // 53 bits are what an f64 holds.
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// One of `choices`, each as likely.
    pub(crate) fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        let index = (self.fraction() * choices.len() as f64) as usize;
        choices[index.min(choices.len() - 1)]
    }

    /// A number whose logarithm is normal with this mean and deviation.
    pub(crate) fn lognormal(&mut self, mean: f64, deviation: f64) -> f64 {
        // Box and Muller; 1 − x keeps the logarithm away from zero.
        let radius = (-2.0 * (1.0 - self.fraction()).ln()).sqrt();
        let normal = radius * (TAU * self.fraction()).cos();
        (mean + deviation * normal).exp()
    }
}
