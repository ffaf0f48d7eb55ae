//! Limits of EC2 instance types: IP addresses for pods, trunk interfaces, accelerators; and nodeadm's maximum number of
//! pods.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::cel_parser::parse;
use super::flags::rows;

/// Limits of an instance type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Figures {
    /// Network interfaces (ENIs) that the VPC CNI may use.
    pub count: i64,
    /// IPv4 addresses of each interface.
    pub addresses: i64,
    /// Branch interfaces for pods with security groups; 0 if the type has no trunk interface, `None` if unknown.
    pub branches: Option<i64>,
    /// Kernel driver of its accelerators, if EKS provides images for them.
    pub driver: Option<&'static str>,
}

static TABLE: LazyLock<BTreeMap<&'static str, Figures>> = LazyLock::new(|| {
    let mut table = BTreeMap::new();
    for row in rows(include_str!("../../data/instance-figures.tsv")) {
        let [name, count, addresses, branches, maker] = row[..] else { continue };
        let (Ok(count), Ok(addresses)) = (count.parse(), addresses.parse()) else { continue };
        table.insert(name, Figures { count, addresses, branches: branches.parse().ok(), driver: driver_of(maker) });
    }
    table
});

/// Returns the driver of a maker; both drivers are named like their makers.
fn driver_of(maker: &'static str) -> Option<&'static str> {
    ["nvidia", "neuron"].contains(&maker).then_some(maker)
}

/// Addresses of a prefix, which a Nitro instance can have in place of each address.
const PREFIX: i64 = 16;
/// Pods in the host network: aws-node and kube-proxy.
const ON_HOST: i64 = 2;
/// Maximum number of pods that nodeadm uses for a type that it does not know.
pub const FALLBACK: i64 = 110;

impl Figures {
    /// Returns the limits of a type; `None` if the table does not list it.
    #[must_use]
    pub fn of(instance_type: &str) -> Option<Self> {
        TABLE.get(instance_type).copied()
    }

    /// Returns nodeadm's maximum number of pods: one address of each interface is not available to pods.
    #[must_use]
    pub const fn pods(self) -> i64 {
        self.count * (self.addresses - 1) + ON_HOST
    }

    /// Returns the maximum number of pods with prefix delegation.
    #[must_use]
    pub const fn pods_with_prefixes(self) -> i64 {
        self.count * (self.addresses - 1) * PREFIX + ON_HOST
    }

    /// Returns the number of addresses for Windows pods: those of the first interface, except its primary address.
    #[must_use]
    pub const fn windows_addresses(self) -> i64 {
        self.addresses - 1
    }
}

/// Reason why an expression has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExpressionFault {
    /// The expression is not valid CEL.
    #[error("it is not CEL")]
    Syntax,
    /// The expression uses a name other than the three variables.
    #[error("`{0}` is not known; there are `default_enis`, `ips_per_eni` and `max_pods`")]
    Unknown(String),
    /// The result is not a positive integer, or evaluation fails.
    #[error("it does not come to a whole number above zero")]
    Value,
}

const VARIABLES: [&str; 3] = ["default_enis", "ips_per_eni", "max_pods"];

/// Evaluates `maxPodsExpression` like nodeadm: CEL with three integer variables.
///
/// # Errors
/// Returns an error if the expression has no valid result: nodeadm then logs a warning and uses its own formula.
pub fn evaluate(expression: &str, figures: Figures) -> Result<i64, ExpressionFault> {
    if is_too_much(expression) {
        return Err(ExpressionFault::Syntax);
    }
    let program = parse(expression).ok_or(ExpressionFault::Syntax)?;
    let references = program.references();
    if let Some(name) = references.variables().into_iter().find(|name| !VARIABLES.contains(name)) {
        return Err(ExpressionFault::Unknown(name.to_owned()));
    }
    let mut context = cel::Context::default();
    let values = [figures.count, figures.addresses, figures.pods()];
    for (name, value) in VARIABLES.into_iter().zip(values) {
        context.add_variable_from_value(name, value);
    }
    match program.execute(&context) {
        Ok(value) => {
            whole(&value).filter(|pods| (1..=i64::from(i32::MAX)).contains(pods)).ok_or(ExpressionFault::Value)
        }
        Err(_) => Err(ExpressionFault::Value),
    }
}

/// Converts a value to an integer like CEL: fractions are truncated, digits are parsed.
fn whole(value: &cel::Value) -> Option<i64> {
    match value {
        cel::Value::Int(number) => Some(*number),
        cel::Value::UInt(number) => i64::try_from(*number).ok(),
        cel::Value::Float(number) => format!("{:.0}", number.trunc()).parse().ok(),
        cel::Value::String(text) => text.parse().ok(),
        _ => None,
    }
}

/// Returns true if a text is longer or has more signs than an expression of three numbers needs. The parser is
/// recursive, and each sign uses stack.
fn is_too_much(text: &str) -> bool {
    const LONGEST: usize = 256;
    const MOST_SIGNS: usize = 40;
    let is_sign = |char: &char| !char.is_ascii_alphanumeric() && *char != '_' && !char.is_whitespace();
    text.len() > LONGEST || text.chars().filter(is_sign).count() > MOST_SIGNS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_read() {
        let text = include_str!("../../data/instance-figures.tsv");
        assert_eq!(TABLE.len(), text.lines().filter(|row| !row.starts_with('#')).count());
    }

    #[test]
    fn pods_are_counted_as_in_the_table_of_eks_images() {
        // From eni-max-pods.txt of awslabs/amazon-eks-ami.
        for (name, pods) in [("m5.large", 29), ("t3.nano", 4), ("c5.18xlarge", 737), ("p5.48xlarge", 100)] {
            assert_eq!(Figures::of(name).map(Figures::pods), Some(pods), "{name}");
        }
        assert_eq!(Figures::of("m5.large").map(Figures::pods_with_prefixes), Some(434));
        assert_eq!(Figures::of("z99.large"), None);
        assert_eq!(Figures::of("g5.xlarge").and_then(|it| it.driver), Some("nvidia"));
        assert_eq!(Figures::of("inf2.xlarge").and_then(|it| it.driver), Some("neuron"));
    }

    #[test]
    fn expressions_are_evaluated_as_by_nodeadm() {
        let large = Figures::of("m5.large").unwrap();
        let evaluate = |text: &str| evaluate(text, large);
        assert_eq!(evaluate("max_pods - 5"), Ok(24));
        assert_eq!(evaluate("((default_enis - 1) * (ips_per_eni - 1)) + 2"), Ok(20));
        assert_eq!(evaluate("max_pods > 110 ? 110 : max_pods"), Ok(29));
        assert_eq!(evaluate("double(max_pods) * 0.5"), Ok(14));
        assert_eq!(evaluate("'30'"), Ok(30));
        assert_eq!(evaluate("max_pods - 29"), Err(ExpressionFault::Value));
        assert_eq!(evaluate("max_pods -"), Err(ExpressionFault::Syntax));
        assert_eq!(evaluate("pods + 1"), Err(ExpressionFault::Unknown("pods".to_owned())));
        for text in ["max_pods / 0", "'a'", "max_pods * 0.5", "9223372036854775807 + max_pods"] {
            assert_eq!(evaluate(text), Err(ExpressionFault::Value), "{text}");
        }
        for text in ["(".repeat(900), "!".repeat(900), "-".repeat(900), "1+".repeat(500)] {
            assert!(evaluate(&text).is_err());
        }
    }
}
