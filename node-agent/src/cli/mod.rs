//! The command line of `muster-agent`.

mod arguments;
mod document;
mod failure;
mod image;
mod inputs;
mod kubelet;
mod node_class;
mod palette;
mod text;
mod wiring;

#[cfg(test)]
mod reference;

pub use wiring::main;
