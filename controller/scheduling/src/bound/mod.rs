//! Lower bounds: what no plan can undercut.

pub(crate) mod fluid;
mod simplex;
