//! Offerings that the controller considers launchable: all except those refused recently.

use std::cell::RefCell;
use std::collections::BTreeMap;

use muster_scheduling::model::{Catalogue, Refused};

use crate::supply::Supply;

/// Catalogues by class name, cached while the set of refused offerings stays the same.
#[derive(Debug, Default)]
pub(super) struct Offers {
    refused: Vec<Refused>,
    made: RefCell<BTreeMap<String, Catalogue>>,
}

// === impl Offers ===

impl Offers {
    /// Sets the currently refused offerings.
    pub(super) fn renew(&mut self, refused: Vec<Refused>) {
        if refused != self.refused {
            *self = Self { refused, made: RefCell::default() };
        }
    }

    /// Returns the types of a class.
    pub(super) fn of(&self, class: &str, supply: &Supply) -> Catalogue {
        let make = || {
            let mut types = supply.of(class).cloned().unwrap_or_default();
            types.refuse(&self.refused);
            types
        };
        self.made.borrow_mut().entry(class.to_owned()).or_insert_with(make).clone()
    }
}
