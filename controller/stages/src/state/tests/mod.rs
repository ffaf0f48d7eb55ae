//! The cache against the objects themselves.

mod indexes;
mod objects;
mod odd;
mod order;
mod queue;
mod templates;
