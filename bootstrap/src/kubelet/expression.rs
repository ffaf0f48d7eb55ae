//! CEL expressions in the kubelet settings of an EC2NodeClass: figures of the instance type instead of a number.

use std::fmt;
use std::sync::Arc;

use super::cel_parser::parse;

/// Figures of an instance type that expressions may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Variables<'a> {
    /// `instance_type`, such as `m7g.large`.
    pub instance_type: &'a str,
    /// `vcpus`.
    pub vcpus: i64,
    /// `memory_mib`.
    pub memory_mib: i64,
    /// `default_enis`: network interfaces of the default card.
    pub default_enis: i64,
    /// `ips_per_eni`: IPv4 addresses of each interface.
    pub ips_per_eni: i64,
    /// `max_pods`: limit of the family, or of the class in expressions of reserved resources.
    pub max_pods: i64,
}

/// Names of the variables.
const NAMES: [&str; 6] = ["instance_type", "vcpus", "memory_mib", "default_enis", "ips_per_eni", "max_pods"];
/// Longest expression, in bytes.
const LONGEST: usize = 512;
/// Most signs of an expression. The parser is recursive, and each sign uses stack.
const MOST_SIGNS: usize = 24;

/// A compiled expression.
#[derive(Clone)]
pub struct Expression {
    text: String,
    program: Arc<cel::Program>,
}

/// Reason why an expression has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExpressionError {
    /// The text is not valid CEL.
    #[error("is neither a number nor a CEL expression")]
    Syntax,
    /// The expression exceeds the limits of its size, or makes lists or maps.
    #[error("is longer than an expression may be ({LONGEST} characters, {MOST_SIGNS} signs), or makes a list or map")]
    TooMuch,
    /// The expression uses another name.
    #[error("uses `{0}`; an expression may use `{known}`", known = NAMES.join("`, `"))]
    Unknown(String),
    /// The evaluation fails, or its result is not a number within the bounds.
    #[error("does not come to a number from 0 to 2147483647 for instance type `{0}`")]
    Value(String),
}

// === impl Expression ===

impl Expression {
    /// Compiles an expression.
    ///
    /// ```
    /// use muster_bootstrap::kubelet::expression::{Expression, Variables};
    ///
    /// let of_type = Variables {
    ///     instance_type: "m5.large", vcpus: 2, memory_mib: 8192, default_enis: 3, ips_per_eni: 10, max_pods: 29,
    /// };
    /// let expression = Expression::compile("min(110, max_pods)")?;
    /// assert_eq!(expression.evaluate(&of_type), Ok(29));
    /// # Ok::<(), muster_bootstrap::kubelet::expression::ExpressionError>(())
    /// ```
    ///
    /// # Errors
    /// If the text is not CEL, uses unknown names, or exceeds the limits.
    pub fn compile(text: &str) -> Result<Self, ExpressionError> {
        let is_known = |name: &str| NAMES.contains(&name);
        let is_sign = |char: &char| !char.is_ascii_alphanumeric() && *char != '_' && !char.is_whitespace();
        // Lists and maps are needed for loops only, whose work would not be bounded by the length of the text.
        if text.len() > LONGEST || text.chars().filter(is_sign).count() > MOST_SIGNS || text.contains(['[', '{']) {
            return Err(ExpressionError::TooMuch);
        }
        let program = parse(text).ok_or(ExpressionError::Syntax)?;
        let mut unknown: Vec<String> =
            program.references().variables().into_iter().map(str::to_owned).filter(|name| !is_known(name)).collect();
        unknown.sort_unstable();
        if let Some(name) = unknown.into_iter().next() {
            return Err(ExpressionError::Unknown(name));
        }
        Ok(Self { text: text.to_owned(), program: Arc::new(program) })
    }

    /// Evaluates the expression for an instance type. Fractions are cut off.
    ///
    /// # Errors
    /// If the evaluation fails, or its result is not a number from 0 to 2³¹ − 1.
    pub fn evaluate(&self, of: &Variables<'_>) -> Result<i64, ExpressionError> {
        let failed = || ExpressionError::Value(of.instance_type.to_owned());
        let mut context = cel::Context::default();
        // Fails only for names that the standard library has, which a test excludes.
        let _ = context.add_function("max", cel::functions::max);
        let _ = context.add_function("min", cel::functions::min);
        context.add_variable_from_value("instance_type", of.instance_type.to_owned());
        let numbers = [of.vcpus, of.memory_mib, of.default_enis, of.ips_per_eni, of.max_pods];
        for (name, number) in NAMES.into_iter().skip(1).zip(numbers) {
            context.add_variable_from_value(name, number);
        }
        let number = match self.program.execute(&context).map_err(|_| failed())? {
            cel::Value::Int(number) => Some(number),
            cel::Value::Float(number) if number.is_finite() => format!("{:.0}", number.trunc()).parse().ok(),
            _ => None,
        };
        number.filter(|number| (0..=i64::from(i32::MAX)).contains(number)).ok_or_else(failed)
    }

    /// Evaluates the expression of a reserved resource. Returns a quantity: processors are rounded up to 10m, memory to
    /// 16Mi.
    ///
    /// # Errors
    /// As for [`Expression::evaluate`].
    pub fn reserved(&self, resource: &str, of: &Variables<'_>) -> Result<String, ExpressionError> {
        let number = self.evaluate(of)?;
        Ok(match resource {
            "cpu" => format!("{}m", (number + 9) / 10 * 10),
            "memory" => format!("{}Mi", (number + 15) / 16 * 16),
            "ephemeral-storage" => format!("{number}Gi"),
            _ => number.to_string(),
        })
    }
}

impl PartialEq for Expression {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Expression {}

impl fmt::Debug for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Expression").field(&self.text).finish()
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LARGE: Variables<'_> = Variables {
        instance_type: "m5.large",
        vcpus: 2,
        memory_mib: 8192,
        default_enis: 3,
        ips_per_eni: 10,
        max_pods: 29,
    };

    fn evaluated(text: &str) -> Result<i64, ExpressionError> {
        Expression::compile(text)?.evaluate(&LARGE)
    }

    #[test]
    fn expressions_are_evaluated_for_a_type() {
        for (text, expected) in [
            ("42", 42),
            ("min(110, max_pods)", 29),
            ("max(255, 11 * max_pods) + 255", 574),
            ("(default_enis - 1) * (ips_per_eni - 1) + 2", 20),
            ("vcpus <= 2 ? 70 : 80", 70),
            ("instance_type == 'm5.large' && memory_mib > 4096 ? 1 : 0", 1),
            ("double(memory_mib) * 0.01", 81),
            ("max(double(vcpus), 1.5)", 2),
            ("max(1, 2.5)", 2),
            ("int('7') + vcpus", 9),
        ] {
            assert_eq!(evaluated(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_not_a_number_is_refused() {
        for text in ["max_pods / 0", "'a'", "vcpus - 3", "memory_mib * 1000000", "1.0 / 0.0", "true", "vcpus * 0.5"] {
            assert_eq!(evaluated(text), Err(ExpressionError::Value("m5.large".to_owned())), "{text}");
        }
        assert_eq!(evaluated("max_pods -"), Err(ExpressionError::Syntax));
        assert_eq!(evaluated("pods + 1"), Err(ExpressionError::Unknown("pods".to_owned())));
        let loops = "[1, 2].map(x, x)".to_owned();
        for text in [loops, "(".repeat(900), "!".repeat(25), "-".repeat(25), "1+".repeat(25)] {
            assert_eq!(evaluated(&text), Err(ExpressionError::TooMuch), "{text}");
        }
        for text in ["(".repeat(24), "!".repeat(24), format!("{}1", "1+".repeat(24))] {
            let _ = evaluated(&text);
        }
    }

    #[test]
    fn reserved_resources_have_their_units() {
        let reserved = |resource, text| Expression::compile(text).unwrap().reserved(resource, &LARGE).unwrap();
        assert_eq!(reserved("cpu", "vcpus * 6 + 60"), "80m");
        assert_eq!(reserved("memory", "11 * max_pods + 255"), "576Mi");
        assert_eq!(reserved("ephemeral-storage", "vcpus"), "2Gi");
        assert_eq!(reserved("pid", "max_pods * 100"), "2900");
    }
}
