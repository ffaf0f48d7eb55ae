//! Controller
