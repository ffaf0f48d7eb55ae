//! Order of pending decisions. Pure.

/// Kind of decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// Launches for pending pods.
    Pods,
    /// Launches for an order.
    Order,
    /// Disruption.
    Disruption,
}

/// Decisions that wait for their turn and could begin at once.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Waiting {
    pub(super) pods: bool,
    pub(super) order: bool,
    pub(super) disruption: bool,
}

impl Waiting {
    /// Returns the decision to begin now. Pods take precedence, except that pods and orders alternate if both are
    /// waiting. A decision about disruption, once begun, runs beside the others. So it comes before an order, which it
    /// does not delay, and is not starved by a continuous stream of orders.
    pub(super) const fn next(self, was_order: bool) -> Option<Turn> {
        let Self { pods, order, disruption } = self;
        if pods && (was_order || !order) {
            Some(Turn::Pods)
        } else if disruption {
            Some(Turn::Disruption)
        } else if order {
            Some(Turn::Order)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the order of turns if these always wait for one, and decisions about launches are made one at a time.
    fn turns(pods: bool, orders: bool, count: usize) -> Vec<Turn> {
        let (mut was_order, mut is_deciding) = (false, false);
        let mut all = Vec::new();
        while all.len() < count {
            // The last launches have been decided. A decision about disruption takes as long as that.
            let mut waiting = Waiting { pods, order: orders, disruption: !is_deciding };
            is_deciding = false;
            while let Some(turn) = waiting.next(was_order) {
                all.push(turn);
                match turn {
                    Turn::Disruption => (waiting.disruption, is_deciding) = (false, true),
                    Turn::Pods | Turn::Order => {
                        was_order = turn == Turn::Order;
                        break;
                    }
                }
            }
        }
        all
    }

    #[test]
    fn orders_that_never_end_leave_what_goes_its_turn() {
        use Turn::{Disruption, Order, Pods};
        assert_eq!(turns(false, true, 5), [Disruption, Order, Order, Disruption, Order]);
        assert_eq!(turns(true, true, 6), [Disruption, Order, Pods, Disruption, Order, Pods]);
    }

    #[test]
    fn pods_come_before_what_goes_and_have_every_second_turn_beside_orders() {
        let all = Waiting { pods: true, order: true, disruption: true };
        assert_eq!(Waiting { order: false, ..all }.next(false), Some(Turn::Pods));
        assert_eq!(all.next(true), Some(Turn::Pods));
        assert_eq!(Waiting { disruption: false, ..all }.next(false), Some(Turn::Order));
        assert_eq!(Waiting::default().next(true), None);
    }
}
