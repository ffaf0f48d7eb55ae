//! The library behind the program `muster-agent`.
//!
//! ```text
//!  arguments ──► inputs ──► muster_bootstrap::judge ──► document ──► JSON, or text for people
//!                files,     findings, effective
//!                EC2NodeClass,
//!                kubelet --help, image
//! ```
//!
//! Only [`cli`] touches the process, and it writes nothing but its output.

pub mod cli;
