//! The packing engine: computes the cheapest set of nodes for the pending pods in a snapshot of a cluster.
//!
//! ```text
//!  Problem ──► compile ──► pack ──────────────────────► Solution ──► validate   (shares only `model` with packing)
//!  (model)     classes,    existing nodes, zones,          │     ──► replay     (what kube-scheduler would do with it)
//!              shapes,     fluid prices, fill,             │     ──► explain    (why a pod is pending, or on its node)
//!              rules       exact endgame                   ▼
//!                                                        bound                  (no plan can cost less)
//!
//!  nominations that do not hold ──► exchange            (permutes the nodes of the pods, without launching any)
//!
//!  DisruptionInput ──► disrupt ──► Decision ──► validate_disruption   (nodes to remove, and new places of their pods)
//! ```
//!
//! Everything here is a total, synchronous function of its arguments: no clock, no random number, no I/O, and no order
//! that depends on a hash. A pod that cannot be placed is a value with reasons, not an error.
//!
//! # Example
//!
//! ```
//! use muster_scheduling::explain::Explainer;
//! use muster_scheduling::labels::{CAPACITY_TYPE, INSTANCE_TYPE, ZONE};
//! use muster_scheduling::model::{
//!     InstanceType, Labels, NodePool, Offering, Operator, Options, Pod, PodSpec, PoolState, Problem, Requirement,
//!     Requirements, Resource, Resources,
//! };
//! use muster_scheduling::{lower_bound, lower_bound_of, replay, solve, validate};
//!
//! let only = |key: &str, value: &str| (key.to_owned(), Requirement::new(Operator::In, [value]));
//! let amounts = |cpu: i64, gib: i64, pods: i64| {
//!     Resources::from_iter([(Resource::Cpu, cpu), (Resource::Memory, gib << 30), (Resource::Pods, pods)])
//! };
//! // One instance type, sold on demand in one zone for 0.20 USD per hour.
//! let place = [only(ZONE, "a"), only(CAPACITY_TYPE, "on-demand")];
//! let large = InstanceType {
//!     name: "m.xlarge".into(),
//!     requirements: place.iter().cloned().chain([only(INSTANCE_TYPE, "m.xlarge")]).collect(),
//!     capacity: amounts(4000, 16, 20),
//!     overhead: amounts(100, 1, 0),
//!     offerings: vec![Offering {
//!         requirements: place.into_iter().collect(),
//!         price: Some(0.2),
//!         available: true,
//!         reservation_capacity: 0,
//!     }],
//! };
//! let mut problem = Problem::default();
//! problem.catalogues.push(vec![large].into());
//! problem.pools.push(NodePool {
//!     name: "general".into(),
//!     weight: 0,
//!     requirements: Requirements::new(),
//!     labels: Labels::default(),
//!     annotations: Labels::default(),
//!     taints: Vec::new(),
//!     startup_taints: Vec::new(),
//!     limits: None,
//!     usage: Resources::new(),
//!     catalogue: 0,
//!     state: PoolState::Ready,
//!     missing_replicas: None,
//! });
//! // Three pods that fit on one node, and one that fits on none.
//! for (name, cpu) in [("web-0", 1000), ("web-1", 1000), ("web-2", 1000), ("huge-0", 64_000)] {
//!     let spec = problem.intern(PodSpec::unconstrained("shop", amounts(cpu, 2, 1)));
//!     problem.pods.push(Pod { name: format!("shop/{name}").into(), spec });
//! }
//!
//! let options = Options::default();
//! let solution = solve(&problem, &options);
//! assert_eq!(solution.new_nodes.len(), 1);
//! assert_eq!(solution.new_nodes[0].pods, [0, 1, 2]);
//! assert_eq!(solution.unschedulable[0].reason.name(), "Resources");
//!
//! assert_eq!(validate(&problem, &options, &solution), []);
//! let bound = lower_bound(&problem, &options, &solution);
//! assert!(bound > 0.0 && bound <= 0.2);
//! assert!(lower_bound_of(&problem, &options, [0]) <= 0.2);
//! assert_eq!(replay(&problem, &options, &solution).expected_price, 0.2);
//!
//! let explainer = Explainer::new(&problem, &options, &solution);
//! assert!(explainer.placed(0).is_some() && explainer.placed(3).is_none());
//! ```

mod bound;
mod claim_requirements;
mod compile;
pub mod disrupt;
mod exchange;
pub mod explain;
mod index;
pub mod labels;
mod logarithm;
pub mod model;
pub mod overlay;
mod pack;
mod replay;
mod second_round;
mod solution;
mod validate;

pub use bound::{lower_bound, lower_bound_of};
pub use disrupt::validate_disruption;
pub use exchange::{Exchange, Move, exchange};
pub use pack::{Forgone, forgone, solve};
pub use replay::{Nominated, Replay, Waiting, nominations_that_hold, replay, schedule};
pub use solution::{NewNode, PoolVerdict, Reason, Solution, Unschedulable};
pub use validate::{Place, Promise, Violation, validate};
