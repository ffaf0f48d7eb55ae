//! Parser of CEL with a stack of its own: it is recursive, and 24 nested signs overflow two megabytes in a program
//! that is not optimised. The stack of the caller is not known, so a text must not decide whether it suffices.

use std::thread;

/// Stack of the parser in bytes. Expressions are limited to a few dozen signs.
const STACK: usize = 64 << 20;

/// Parses an expression; `None` if it is not CEL, or no thread can be started.
pub(super) fn parse(text: &str) -> Option<cel::Program> {
    thread::scope(|scope| {
        let parser = thread::Builder::new().stack_size(STACK);
        let parsed = parser.spawn_scoped(scope, || cel::Program::compile(text).ok()).ok()?;
        parsed.join().ok().flatten()
    })
}
