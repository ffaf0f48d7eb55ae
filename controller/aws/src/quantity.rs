//! Kubernetes quantities as exact integers: `940m`, `8Gi`, `1e3`, `10M`.

use muster_scheduling::model::Resource;

/// Reason why a string is not a usable quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// The string does not have the form of a quantity.
    #[error("is not a quantity such as `940m`, `2` or `8Gi`")]
    Malformed,
    /// The quantity is negative.
    #[error("must not be negative")]
    Negative,
}

/// Number of digits that are parsed; the largest amount, 2⁶³ with nine decimals, needs 28. Later digits only determine
/// whether the result is rounded up.
const DIGITS: usize = 30;
/// Largest power of ten that fits in 128 bits.
const LARGEST_POWER: i64 = 38;

/// Parses a quantity of `resource`: millicores of CPU, the base unit of other resources. Fractions are rounded up;
/// larger amounts saturate at `i64::MAX`.
///
/// # Errors
/// If `text` is not a quantity, or is negative.
pub fn parse(resource: &Resource, text: &str) -> Result<i64, QuantityError> {
    let scale = if *resource == Resource::Cpu { 3 } else { 0 };
    parse_scaled(text, scale)
}

/// Parses a quantity that does not belong to a resource, such as bytes or counts, like [`parse`].
///
/// # Errors
/// If `text` is not a quantity, or is negative.
pub fn parse_units(text: &str) -> Result<i64, QuantityError> {
    parse_scaled(text, 0)
}

/// Formats `amount` in the shortest usual form that [`parse`] reads back unchanged.
pub fn format(resource: &Resource, amount: i64) -> String {
    match resource {
        Resource::Cpu if amount % 1000 == 0 => (amount / 1000).to_string(),
        Resource::Cpu => format!("{amount}m"),
        Resource::Memory | Resource::EphemeralStorage => format_bytes(amount),
        Resource::Other(name) if name.starts_with("hugepages-") => format_bytes(amount),
        Resource::Pods | Resource::Other(_) => amount.to_string(),
    }
}

fn format_bytes(bytes: i64) -> String {
    // The kubelet and Karpenter print Mi; Gi is used only for whole amounts.
    for (shift, suffix) in [(30, "Gi"), (20, "Mi"), (10, "Ki")] {
        if bytes != 0 && bytes % (1 << shift) == 0 {
            return format!("{}{suffix}", bytes >> shift);
        }
    }
    bytes.to_string()
}

/// Returns `text` × 10^`scale`.
fn parse_scaled(text: &str, scale: i64) -> Result<i64, QuantityError> {
    let is_negative = text.starts_with('-');
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return Err(QuantityError::Malformed);
    }
    let (binary, decimal) = suffix_exponents(suffix).ok_or(QuantityError::Malformed)?;
    let digits = format!("{whole}{}", fraction.trim_end_matches('0'));
    let digits = digits.trim_start_matches('0');
    if digits.is_empty() {
        return Ok(0);
    }
    if is_negative {
        return Err(QuantityError::Negative);
    }
    let (read, beyond) = digits.split_at(digits.len().min(DIGITS));
    let mantissa: u128 = read.parse().map_err(|_| QuantityError::Malformed)?;
    let length = |digits: &str| i64::try_from(digits.len()).unwrap_or(i64::MAX);
    let decimal = decimal
        .saturating_add(scale)
        .saturating_sub(length(fraction.trim_end_matches('0')))
        .saturating_add(length(beyond));
    let has_rest = beyond.bytes().any(|digit| digit != b'0');
    Ok(shift(mantissa, has_rest, binary, decimal))
}

/// Returns the powers of two and of ten of a suffix.
fn suffix_exponents(suffix: &str) -> Option<(u32, i64)> {
    let exponents = match suffix {
        "" => (0, 0),
        "n" => (0, -9),
        "u" => (0, -6),
        "m" => (0, -3),
        "k" => (0, 3),
        "M" => (0, 6),
        "G" => (0, 9),
        "T" => (0, 12),
        "P" => (0, 15),
        "E" => (0, 18),
        "Ki" => (10, 0),
        "Mi" => (20, 0),
        "Gi" => (30, 0),
        "Ti" => (40, 0),
        "Pi" => (50, 0),
        "Ei" => (60, 0),
        _ => {
            let exponent = suffix.strip_prefix(['e', 'E'])?;
            let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
            if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
                return None;
            }
            let beyond = if exponent.starts_with('-') { i64::MIN / 2 } else { i64::MAX / 2 };
            (0, exponent.parse().unwrap_or(beyond))
        }
    };
    Some(exponents)
}

/// Returns `mantissa` × 2^`binary` × 10^`decimal`, rounded up, at most `i64::MAX`. `has_rest` is set if the number has
/// non-zero digits after the mantissa.
fn shift(mantissa: u128, has_rest: bool, binary: u32, decimal: i64) -> i64 {
    let most = i64::MAX.unsigned_abs().into();
    let scaled = if decimal < 0 {
        divide(mantissa, has_rest, binary, decimal)
    } else {
        let factor = u32::try_from(decimal).ok().and_then(|decimal| 10_u128.checked_pow(decimal));
        let factor = factor.and_then(|factor| factor.checked_mul(1 << binary));
        factor.and_then(|factor| mantissa.checked_mul(factor)).unwrap_or(most)
    };
    i64::try_from(scaled.min(most)).unwrap_or(i64::MAX)
}

/// Computes [`shift`] for a negative `decimal`.
fn divide(mut mantissa: u128, mut has_rest: bool, binary: u32, mut decimal: i64) -> u128 {
    while decimal < -LARGEST_POWER {
        if mantissa == 0 {
            return 1;
        }
        has_rest |= !mantissa.is_multiple_of(10);
        mantissa /= 10;
        decimal += 1;
    }
    let divisor = 10_u128.pow(u32::try_from(-decimal).unwrap_or(0));
    // 30 digits × 2^60 overflow: whole part and remainder are shifted separately, the remainder bit by bit.
    let whole = (mantissa / divisor).saturating_mul(1 << binary);
    let (mut quotient, mut rest) = (0, mantissa % divisor);
    for _ in 0..binary {
        // Below 2 × 10^38 < 2^128.
        rest *= 2;
        quotient = quotient * 2 + rest / divisor;
        rest %= divisor;
    }
    whole.saturating_add(quotient).saturating_add(u128::from(rest > 0 || has_rest))
}

#[cfg(test)]
mod tests;
