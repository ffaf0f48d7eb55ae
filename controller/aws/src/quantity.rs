//! Kubernetes quantities as exact integers: `940m`, `8Gi`, `1e3`, `10M`.

use muster_scheduling::model::Resource;

/// Why a text is no usable quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// It does not have the form of a quantity.
    #[error("is not a quantity such as `940m`, `2` or `8Gi`")]
    Malformed,
    /// It is less than zero.
    #[error("must not be negative")]
    Negative,
    /// It has more digits than any amount needs.
    #[error("has more than 30 digits")]
    TooLong,
}

/// Digits that are read; the largest amount, 2⁶³ with nine decimals, needs 28.
const DIGITS: usize = 30;
/// Beyond 10⁴⁰ every amount is the largest, below 10⁻⁴⁰ every one is the least.
const EXPONENTS: i64 = 40;

/// The amount of `resource` that `text` says: millicores of cpu, the base unit of all else, fractions rounded up, too much
/// for 63 bits as the most that they hold.
///
/// # Errors
/// If `text` is no quantity, or a negative one.
pub fn parse(resource: &Resource, text: &str) -> Result<i64, QuantityError> {
    let scale = if *resource == Resource::Cpu { 3 } else { 0 };
    parse_scaled(text, scale)
}

/// Bytes, counts: [`parse`] for what is no resource.
///
/// # Errors
/// If `text` is no quantity, or a negative one.
pub fn parse_units(text: &str) -> Result<i64, QuantityError> {
    parse_scaled(text, 0)
}

/// The shortest usual form of `amount` that [`parse`] reads back as the same.
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
    // Mi is what kubelet and Karpenter print; Gi only where it is whole.
    for (shift, suffix) in [(30, "Gi"), (20, "Mi"), (10, "Ki")] {
        if bytes != 0 && bytes % (1 << shift) == 0 {
            return format!("{}{suffix}", bytes >> shift);
        }
    }
    bytes.to_string()
}

/// `text` × 10^`scale`.
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
    if digits.len() > DIGITS {
        return Err(QuantityError::TooLong);
    }
    let mantissa: u128 = digits.parse().map_err(|_| QuantityError::Malformed)?;
    let fraction_digits = i64::try_from(fraction.trim_end_matches('0').len()).unwrap_or(i64::MAX);
    Ok(shift(mantissa, binary, decimal.saturating_add(scale).saturating_sub(fraction_digits)))
}

/// Powers of two and of ten that a suffix stands for.
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

/// `mantissa` × 2^`binary` × 10^`decimal`, rounded up, at most `i64::MAX`.
fn shift(mantissa: u128, binary: u32, decimal: i64) -> i64 {
    let most = i64::MAX.unsigned_abs().into();
    let power = |exponent: i64| u32::try_from(exponent).ok().and_then(|exponent| 10_u128.checked_pow(exponent));
    let scaled = if decimal >= 0 {
        let factor = power(decimal.min(EXPONENTS)).and_then(|factor| factor.checked_mul(1 << binary));
        factor.and_then(|factor| mantissa.checked_mul(factor)).unwrap_or(most)
    } else {
        // 30 digits × 2^60 do not fit: whole and remainder are shifted apart.
        match power(decimal.saturating_neg().min(EXPONENTS)) {
            None => 1,
            Some(divisor) => {
                let (whole, rest) = (mantissa / divisor, mantissa % divisor);
                let whole = whole.checked_mul(1 << binary).unwrap_or(most);
                whole.saturating_add(scale_down(rest, binary, divisor))
            }
        }
    };
    i64::try_from(scaled.min(most)).unwrap_or(i64::MAX)
}

/// ⌈`rest` × 2^`binary` / `divisor`⌉ for `rest` < `divisor`, bit by bit so that nothing overflows.
fn scale_down(rest: u128, binary: u32, divisor: u128) -> u128 {
    let (mut quotient, mut rest) = (0, rest);
    for _ in 0..binary {
        // Both stay below 10^38 < 2^127.
        rest *= 2;
        quotient = quotient * 2 + rest / divisor;
        rest %= divisor;
    }
    quotient + u128::from(rest > 0)
}

#[cfg(test)]
mod tests;
