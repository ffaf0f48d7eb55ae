//! Numbers that look random and are the same in every run.

/// FNV-1a over the text, mixed as splitmix64 does.
pub(super) fn number(text: &str) -> u64 {
    let fnv = text
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
    let mixed = (fnv ^ (fnv >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// A number from 0 to 1, 1 excluded.
pub(super) fn fraction(text: &str) -> f64 {
    // 32 bits fit a float without loss.
    let bits = u32::try_from(number(text) >> 32).unwrap_or_default();
    f64::from(bits) / 4_294_967_296.0
}

/// Hexadecimal digits.
pub(super) fn hex(text: &str, digits: usize) -> String {
    let mut hex = format!("{:016x}{:016x}", number(text), number(&format!("{text}#")));
    hex.truncate(digits);
    hex
}
