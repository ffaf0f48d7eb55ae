//! Prices of pods from relaxations of packing, which the bound proves with and the packer takes its prices from:
//! [`fluid`] treats resources as divisible, `split` distributes each shape's price over its resources. Both are linear
//! programs, which [`simplex`] solves.

pub(crate) mod columns;
pub(crate) mod envelope;
pub(crate) mod fluid;
pub(crate) mod simplex;
pub(crate) mod split;
