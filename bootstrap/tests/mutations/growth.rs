//! Memory of a test that goes through many inputs.

/// Growth that is no leak, in MiB: allocators keep what they may use again.
const MOST: u64 = 64;

/// Returns the resident memory of this process in MiB; none where the kernel does not say.
fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.trim().trim_end_matches(" kB").parse::<u64>().ok()? / 1024)
}

/// Goes through so many inputs, after some that fill what is kept anyway, and checks that nothing is kept of them.
pub(crate) fn without_growth(count: usize, mut go_through: impl FnMut(usize)) -> String {
    go_through(count / 100);
    let before = resident();
    go_through(count);
    let after = resident();
    if let (Some(before), Some(after)) = (before, after) {
        assert!(after <= before + MOST, "{before} MiB before, {after} MiB after");
    }
    format!("{count} inputs, {before:?} MiB before, {after:?} after")
}
