//! Amounts of resources: exact, rounded up to whole units, never more than an `i64` holds.

use muster_scheduling::model::Resource;

/// Why a text is not an amount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuantityError {
    /// It is not a number with a known suffix.
    Malformed,
    /// It is below zero.
    Negative,
}

/// Digits that are looked at: 20 of them (67 bits) times the largest suffix (2⁶⁰) still fit 128 bits. Those that follow
/// only decide whether there is a rest to round up.
const DIGITS: usize = 20;

/// The amount of `resource` that `text` stands for: cpu in millicores, all else in its base unit.
///
/// # Errors
/// The text is no quantity of Kubernetes, or it is negative.
pub fn parse(text: &str, resource: &Resource) -> Result<i64, QuantityError> {
    let scale = if *resource == Resource::Cpu { 3 } else { 0 };
    parse_scaled(text, scale)
}

/// The amount in units of 10⁻ˢᶜᵃˡᵉ, rounded up.
fn parse_scaled(text: &str, scale: i32) -> Result<i64, QuantityError> {
    let (negative, unsigned) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let end = unsigned.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return Err(QuantityError::Malformed);
    }
    let (tens, twos) = suffix_powers(suffix)?;
    let digits = Digits::read(whole, fraction);
    if digits.is_zero() {
        return Ok(0);
    }
    if negative {
        return Err(QuantityError::Negative);
    }
    Ok(digits.scaled_up(tens.saturating_add(scale), twos))
}

/// The powers of ten and of two that a suffix stands for.
fn suffix_powers(suffix: &str) -> Result<(i32, u32), QuantityError> {
    Ok(match suffix {
        "" => (0, 0),
        "n" => (-9, 0),
        "u" => (-6, 0),
        "m" => (-3, 0),
        "k" => (3, 0),
        "M" => (6, 0),
        "G" => (9, 0),
        "T" => (12, 0),
        "P" => (15, 0),
        "E" => (18, 0),
        "Ki" => (0, 10),
        "Mi" => (0, 20),
        "Gi" => (0, 30),
        "Ti" => (0, 40),
        "Pi" => (0, 50),
        "Ei" => (0, 60),
        exponent => (exponent_power(exponent)?, 0),
    })
}

/// `e3`, `E-6`. Powers that no amount survives are cut off, so that `1e400` is simply too much.
fn exponent_power(suffix: &str) -> Result<i32, QuantityError> {
    const FAR: i32 = 1_000_000;
    let digits = suffix.strip_prefix(['e', 'E']).ok_or(QuantityError::Malformed)?;
    let (negative, digits) = match digits.as_bytes().first() {
        Some(b'-') => (true, &digits[1..]),
        Some(b'+') => (false, &digits[1..]),
        _ => (false, digits),
    };
    if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return Err(QuantityError::Malformed);
    }
    let power = digits.parse::<i32>().unwrap_or(FAR).min(FAR);
    Ok(if negative { -power } else { power })
}

/// The leading digits of a number, and what they leave out.
struct Digits {
    leading: u128,
    /// The power of ten of the last of the leading digits.
    power: i32,
    /// Whether a digit that was left out is not zero.
    rest: bool,
}

impl Digits {
    fn read(whole: &str, fraction: &str) -> Self {
        let count = |digits: &str| i32::try_from(digits.len()).unwrap_or(i32::MAX);
        let mut digits = Self { leading: 0, power: count(whole), rest: false };
        let mut significant = 0;
        for digit in whole.bytes().chain(fraction.bytes()).map(|byte| u128::from(byte - b'0')) {
            if significant == DIGITS {
                digits.rest |= digit != 0;
                continue;
            }
            if significant > 0 || digit > 0 {
                significant += 1;
            }
            digits.leading = digits.leading * 10 + digit;
            digits.power = digits.power.saturating_sub(1);
        }
        digits
    }

    fn is_zero(&self) -> bool {
        self.leading == 0 && !self.rest
    }

    /// The number times 10ᵗᵉⁿˢ times 2ᵗʷᵒˢ, rounded up.
    fn scaled_up(&self, tens: i32, twos: u32) -> i64 {
        let power = self.power.saturating_add(tens);
        let amount = self.leading.checked_mul(1_u128 << twos);
        let scaled = match u32::try_from(power) {
            Ok(power) => amount
                .zip(10_u128.checked_pow(power))
                .and_then(|(amount, factor)| amount.checked_mul(factor))
                .map(|amount| amount.saturating_add(u128::from(self.rest))),
            Err(_) => amount.map(|amount| match 10_u128.checked_pow(power.unsigned_abs()) {
                Some(divisor) => {
                    let rest = self.rest && amount % divisor == 0;
                    amount.div_ceil(divisor) + u128::from(rest)
                }
                None => 1,
            }),
        };
        scaled.and_then(|amount| i64::try_from(amount).ok()).unwrap_or(i64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_exact_and_round_up() {
        for (text, expected) in [
            ("0", 0),
            ("1", 1),
            ("+1", 1),
            ("1.", 1),
            (".5", 1),
            ("0.1Ki", 103),
            ("1Ki", 1024),
            ("1.5Gi", 1_610_612_736),
            ("8Ei", i64::MAX),
            ("7Ei", 7 << 60),
            ("9223372036854775807", i64::MAX),
            ("9223372036854775808", i64::MAX),
            ("1E", 1_000_000_000_000_000_000),
            ("1E3", 1000),
            ("1e-3", 1),
            ("1e400", i64::MAX),
            ("1e-400", 1),
            ("1e99999999999999999999", i64::MAX),
            ("0e99999999999999999999", 0),
            ("0.000000000000000000000000000000000000000000001", 1),
            ("100m", 1),
            ("1500m", 2),
            ("129e6", 129_000_000),
            ("-0", 0),
            ("1000000000.0", 1_000_000_000),
            ("0.99999999999999999999999999999", 1),
            ("1.00000000000000000000000000001", 2),
        ] {
            assert_eq!(parse(text, &Resource::Memory), Ok(expected), "{text}");
        }
        for (text, expected) in [
            ("1", 1000),
            ("250m", 250),
            ("0.1", 100),
            ("1u", 1),
            ("1n", 1),
            ("1001u", 2),
            ("1.0005", 1001),
            ("1k", 1_000_000),
        ] {
            assert_eq!(parse(text, &Resource::Cpu), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_amount_is_refused() {
        for text in [
            "", " 1", "1 ", "Gi", "1gi", "1KI", "1.2.3", ".", "-", "+", "1e", "1e+", "1e3.5", "0x10", "1GiB", "١",
            "--1", "1e 3",
        ] {
            assert_eq!(parse(text, &Resource::Memory), Err(QuantityError::Malformed), "{text}");
        }
        for text in ["-1", "-0.1m", "-1e400"] {
            assert_eq!(parse(text, &Resource::Cpu), Err(QuantityError::Negative), "{text}");
        }
    }
}
