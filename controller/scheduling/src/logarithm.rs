//! The natural logarithm from additions, multiplications and divisions alone. Their rounding is the same on every
//! platform; the last bit of the logarithm of a platform's math library is not, and a plan must not depend on it.

/// Returns `ln value`, to some units in the last place, of a positive, finite, normal number; 0 for anything else.
pub(crate) fn ln(value: f64) -> f64 {
    if !(value.is_normal() && value > 0.0) {
        return 0.0;
    }
    // value = mantissa · 2^exponent, the mantissa in [1, 2).
    let bits = value.to_bits();
    let exponent = (bits >> 52) as i32 - 1023;
    let mantissa = f64::from_bits(bits & ((1 << 52) - 1) | 1023 << 52);
    // The series converges faster near 1.
    let (mantissa, exponent) =
        if mantissa > std::f64::consts::SQRT_2 { (mantissa / 2.0, exponent + 1) } else { (mantissa, exponent) };
    // ln m = 2 artanh s, s = (m - 1) / (m + 1), |s| ≤ 0.172.
    let s = (mantissa - 1.0) / (mantissa + 1.0);
    let square = s * s;
    let mut sum = 0.0;
    for odd in (1_i32..=21).rev().step_by(2) {
        sum = sum * square + 1.0 / f64::from(odd);
    }
    2.0 * s * sum + f64::from(exponent) * std::f64::consts::LN_2
}

#[cfg(test)]
mod tests {
    use super::ln;

    #[test]
    fn is_the_logarithm() {
        let mut value = 1e-9;
        while value < 1e9 {
            let (own, known) = (ln(value), value.ln());
            assert!((own - known).abs() <= 4.0 * f64::EPSILON * known.abs().max(1.0), "ln {value}: {own}, not {known}");
            value *= 1.000_37;
        }
        assert_eq!((ln(1.0), ln(0.0), ln(-1.0), ln(f64::INFINITY)), (0.0, 0.0, 0.0, 0.0));
    }
}
