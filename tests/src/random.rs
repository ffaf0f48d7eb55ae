//! Random text, for names that nobody else has and for secrets. Nothing that a test decides depends on it.

use std::io::Read;

use fs_err as fs;

use crate::error::Result;

/// Hexadecimal text of so many random bytes.
pub(crate) fn text(bytes: usize) -> Result<String> {
    let mut random = Vec::with_capacity(bytes);
    fs::File::open("/dev/urandom")?.take(bytes as u64).read_to_end(&mut random)?;
    Ok(random.iter().map(|byte| format!("{byte:02x}")).collect())
}
