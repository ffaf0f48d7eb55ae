//! CEL selectors of devices.
//!
//! Quantities and versions are numbers here, so that their functions are those of numbers: the API server has checked
//! the types. An expression that asks for an attribute that a device does not have matches nothing.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, LazyLock};

use cel::common::types::{CelBool, CelInt, CelString};
use cel::objects::{Key, Map, Value};
use cel::{Context, Env, ExecutionError, Program};
use muster_aws::quantity::parse_units;

use crate::{Attribute, Device};

/// Longest expression that is evaluated, in bytes.
const LONGEST: usize = 2048;
/// Deepest nesting of brackets, which bounds the recursion of the parser.
const DEEPEST: usize = 24;
/// Largest number of operators, fields and indices, each of which may be evaluated inside of the next.
const OPERATORS: usize = 128;
/// Stack of a thread that compiles and evaluates selectors. Unoptimised, the parser takes 46 kB for each operator.
pub(super) const STACK: usize = 32 << 20;
/// Largest number of functions that multiply the work.
const LOOPS: usize = 2;
/// Cost of each request, beside its selectors.
pub(super) const LEAST_COST: usize = 64;
/// Functions that multiply the work: loops over lists, and what makes texts or automata longer than the expression.
const LOOP_FUNCTIONS: [&str; 11] = [
    ".all(",
    ".exists(",
    ".exists_one(",
    ".existsOne(",
    ".map(",
    ".filter(",
    "matches(",
    "replace(",
    "split(",
    "join(",
    "format(",
];
/// Largest number of values of one attribute or of one device, for loops over those.
const LEAST_ELEMENTS: usize = 64;
/// Bits of each part of a version.
const VERSION_BITS: u32 = 20;

/// CEL environment of selectors: the standard library, the string extensions, quantities and versions.
static ENVIRONMENT: LazyLock<Arc<Env>> = LazyLock::new(|| {
    let mut environment = Env::stdlib();
    // Fails only for a function declared twice; the selectors that need it then match nothing, which a test detects.
    let _ = environment.add_extension(cel::extensions::strings);
    let _ = environment.add_extension(|env| {
        cel::add_overload!(env, fn quantity: (CelString) -> Result<CelInt>)?;
        cel::add_overload!(env, fn semver: (CelString) -> Result<CelInt>)?;
        cel::add_overload!(env, fn is_quantity: (CelString) -> CelBool)?;
        cel::add_overload!(env, fn is_semver: (CelString) -> CelBool)?;
        cel::add_member_overload!(env, fn compare_to: (CelInt, CelInt) -> CelInt)?;
        cel::add_member_overload!(env, fn is_greater_than: (CelInt, CelInt) -> CelBool)?;
        cel::add_member_overload!(env, fn is_less_than: (CelInt, CelInt) -> CelBool)?;
        Ok(())
    });
    Arc::new(environment)
});

/// A compiled selector.
pub(super) struct Selector(Program);

impl Selector {
    /// Compiles an expression.
    ///
    /// # Errors
    /// The reason why it cannot be evaluated.
    pub(super) fn compile(expression: &str) -> Result<Self, &'static str> {
        if expression.len() > LONGEST {
            return Err("is too long");
        }
        if depth(expression) > DEEPEST {
            return Err("is nested too deep");
        }
        if expression.bytes().filter(|byte| b"+-*/%<>=!&|.[".contains(byte)).count() > OPERATORS {
            return Err("has too many operators");
        }
        if expression.contains("//") {
            return Err("has a comment");
        }
        if loops(expression) > LOOPS {
            return Err("has too many loops");
        }
        if expression.contains("matches") && (expression.contains('{') || has_codes(expression)) {
            return Err("repeats parts of a regular expression");
        }
        ENVIRONMENT.compile(expression).map(Self).map_err(|_| "is not valid CEL")
    }

    /// Returns true if the device meets the expression.
    pub(super) fn matches(&self, device: &Value) -> bool {
        let mut context = Context::with_env(Arc::clone(&ENVIRONMENT));
        context.add_variable_from_value("device", device.clone());
        matches!(self.0.execute(&context), Ok(Value::Bool(true)))
    }
}

/// Returns a bound on the work of one evaluation: the bytes of the expression, multiplied by as many for each loop. A
/// list or a text of the expression has at most as many elements.
pub(super) fn cost(expression: &str) -> usize {
    let elements = expression.len().max(LEAST_ELEMENTS);
    (0..loops(expression)).fold(expression.len(), |cost, _| cost.saturating_mul(elements))
}

fn loops(expression: &str) -> usize {
    // A function may be apart from its brackets.
    let dense: String = expression.chars().filter(|char| !char.is_whitespace()).collect();
    LOOP_FUNCTIONS.iter().map(|name| dense.matches(name).count()).sum()
}

/// Returns true if characters are written as codes, behind which a bracket may be hidden.
fn has_codes(expression: &str) -> bool {
    let is_code = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'x' | b'X' | b'u' | b'U');
    expression.as_bytes().windows(2).any(|pair| pair[0] == b'\\' && is_code(pair[1]))
}

/// Returns a bound on the recursion that the expression needs: its brackets, its conditions and a row of its signs.
fn depth(expression: &str) -> usize {
    let (mut brackets, mut deepest, mut signs, mut conditions) = (0_usize, 0_usize, 0_usize, 0_usize);
    for byte in expression.bytes().filter(|byte| !byte.is_ascii_whitespace()) {
        signs = if matches!(byte, b'!' | b'-') { signs + 1 } else { 0 };
        match byte {
            b'(' | b'[' | b'{' => brackets += 1,
            b')' | b']' | b'}' => brackets = brackets.saturating_sub(1),
            b'?' => conditions += 1,
            _ => {}
        }
        deepest = deepest.max(brackets + signs);
    }
    deepest + conditions
}

/// Returns the variable `device` of selectors.
pub(super) fn value(driver: &str, device: &Device) -> Value {
    let attributes = device.attributes.iter().filter_map(|(name, value)| Some((name, cel(value)?)));
    let capacity = device.capacity.iter().map(|(name, capacity)| (name, Value::Int(capacity.amount)));
    map([
        ("driver", text(driver)),
        ("attributes", by_domain(driver, attributes)),
        ("capacity", by_domain(driver, capacity)),
        ("allowMultipleAllocations", Value::Bool(device.is_shared)),
    ])
}

fn cel(attribute: &Attribute) -> Option<Value> {
    Some(match attribute {
        Attribute::Text(value) => text(value),
        Attribute::Number(value) => Value::Int(*value),
        Attribute::Flag(value) => Value::Bool(*value),
        Attribute::Version(version) => Value::Int(number_of_version(version)?),
        Attribute::Unknown(_) => return None,
    })
}

/// Groups values by the domains of their names. The driver's own domain is always there.
fn by_domain<'d>(driver: &'d str, values: impl Iterator<Item = (&'d Arc<str>, Value)>) -> Value {
    let mut domains: BTreeMap<&str, Vec<(&str, Value)>> = BTreeMap::from([(driver, Vec::new())]);
    for (name, value) in values {
        if let Some((domain, name)) = name.split_once('/') {
            domains.entry(domain).or_default().push((name, value));
        }
    }
    map(domains.into_iter().map(|(domain, values)| (domain, map(values))))
}

fn map<'k>(entries: impl IntoIterator<Item = (&'k str, Value)>) -> Value {
    let entries: HashMap<Key, Value> = entries.into_iter().map(|(key, value)| (Key::from(key), value)).collect();
    Value::Map(Map { map: Arc::new(entries) })
}

fn text(text: &str) -> Value {
    Value::String(Arc::new(text.to_owned()))
}

/// Returns a number in the order of versions; none for one with a suffix or with parts that are too large.
fn number_of_version(text: &str) -> Option<i64> {
    let mut number = 0_i64;
    let mut parts = text.split('.');
    for _ in 0..3 {
        let part: i64 = parts.next()?.parse().ok()?;
        if !(0..1 << VERSION_BITS).contains(&part) {
            return None;
        }
        number = number << VERSION_BITS | part;
    }
    parts.next().is_none().then_some(number)
}

fn quantity(text: &CelString<'_>) -> Result<CelInt, ExecutionError> {
    let text: &str = text;
    parse_units(text).map(CelInt::from).map_err(|_| ExecutionError::function_error("quantity", "not a quantity"))
}

fn semver(text: &CelString<'_>) -> Result<CelInt, ExecutionError> {
    let number = number_of_version(text).map(CelInt::from);
    number.ok_or_else(|| ExecutionError::function_error("semver", "not a version without a suffix"))
}

fn is_quantity(text: &CelString<'_>) -> CelBool {
    let text: &str = text;
    parse_units(text).is_ok().into()
}

fn is_semver(text: &CelString<'_>) -> CelBool {
    number_of_version(text).is_some().into()
}

fn compare_to(one: &CelInt, other: &CelInt) -> CelInt {
    (one.inner().cmp(other.inner()) as i64).into()
}

fn is_greater_than(one: &CelInt, other: &CelInt) -> CelBool {
    (one.inner() > other.inner()).into()
}

fn is_less_than(one: &CelInt, other: &CelInt) -> CelBool {
    (one.inner() < other.inner()).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Capacity;

    fn matches(expression: &str) -> Result<bool, &'static str> {
        let attributes = [
            ("gpu.nvidia.com/productName", Attribute::Text("NVIDIA A100-SXM4-40GB".into())),
            ("gpu.nvidia.com/driverVersion", Attribute::Unknown(0)),
            ("gpu.nvidia.com/cudaComputeCapability", Attribute::Version("8.0.0".into())),
            ("gpu.nvidia.com/index", Attribute::Number(3)),
            ("dra.net/rdma", Attribute::Flag(true)),
        ];
        let capacity = Capacity { amount: 40 << 30, ..Capacity::default() };
        let device = Device {
            name: "gpu-0".into(),
            attributes: attributes.into_iter().map(|(name, value)| (name.into(), value)).collect(),
            capacity: [("gpu.nvidia.com/memory".into(), capacity)].into(),
            is_shared: false,
            is_uncertain: false,
        };
        Selector::compile(expression).map(|selector| selector.matches(&value("gpu.nvidia.com", &device)))
    }

    #[test]
    fn selectors_read_driver_attributes_and_capacity() {
        for (expression, expected) in [
            ("device.driver == 'gpu.nvidia.com'", true),
            ("device.attributes['gpu.nvidia.com'].productName.lowerAscii().matches('^.*a100.*$')", true),
            ("device.attributes['gpu.nvidia.com'].productName == 'NVIDIA L4'", false),
            ("device.attributes['gpu.nvidia.com'].index in [1, 3]", true),
            ("device.attributes['dra.net'].rdma", true),
            ("device.capacity['gpu.nvidia.com'].memory.compareTo(quantity('40Gi')) >= 0", true),
            ("device.capacity['gpu.nvidia.com'].memory.isGreaterThan(quantity('40Gi'))", false),
            ("device.capacity['gpu.nvidia.com'].memory.isLessThan(quantity('80Gi'))", true),
            ("device.attributes['gpu.nvidia.com'].cudaComputeCapability.isGreaterThan(semver('7.5.0'))", true),
            ("device.attributes['gpu.nvidia.com'].cudaComputeCapability == semver('8.0.0')", true),
            ("device.allowMultipleAllocations", false),
            ("isQuantity('1Gi') && isSemver('1.2.3') && !isSemver('1.2')", true),
            ("['a', 'b'].exists(x, x == 'b')", true),
        ] {
            assert_eq!(matches(expression), Ok(expected), "{expression}");
        }
    }

    #[test]
    fn unknown_values_match_nothing() {
        for expression in [
            "device.attributes['gpu.nvidia.com'].driverVersion == semver('1.2.3')",
            "device.attributes['gpu.nvidia.com'].missing",
            "device.attributes['other.example.com'].missing == 'x'",
            "device.capacity['gpu.nvidia.com'].memory.compareTo(quantity('much')) >= 0",
            "1",
        ] {
            assert_eq!(matches(expression), Ok(false), "{expression}");
        }
    }

    #[test]
    fn cost_grows_with_the_power_of_loops() {
        assert_eq!(cost("device.driver == 'a'"), 20);
        assert_eq!(cost("'x'.split('').all (a, true)"), 27 * 64 * 64);
    }

    #[test]
    fn twice_the_operators_fit_on_the_stack() {
        let joined = |operand: &str, operator: &str| vec![operand; 2 * OPERATORS].join(operator);
        let expressions = [
            joined("1", "+"),
            joined("true", "&&"),
            joined("false", "||"),
            joined("1", "<"),
            joined("true", "=="),
            format!("device.{}", joined("a", ".")),
            format!("device{}", "[0]".repeat(2 * OPERATORS)),
        ];
        let evaluate = move || {
            for expression in expressions {
                assert_eq!(Selector::compile(&expression).err(), Some("has too many operators"));
                Selector(ENVIRONMENT.compile(&expression).unwrap()).matches(&map([]));
            }
        };
        std::thread::Builder::new().stack_size(STACK).spawn(evaluate).unwrap().join().unwrap();
    }

    #[test]
    fn what_costs_too_much_is_not_evaluated() {
        for (expression, why) in [
            ("((".to_owned(), "is not valid CEL"),
            (format!("'{}' == ''", "x".repeat(LONGEST)), "is too long"),
            (format!("{}true{}", "(".repeat(DEEPEST + 1), ")".repeat(DEEPEST + 1)), "is nested too deep"),
            (format!("{}true", "!".repeat(200)), "is nested too deep"),
            (vec!["1"; LONGEST / 2].join("+"), "has too many operators"),
            ("[1].all(a, [1].all(b, [1].all(c, true)))".to_owned(), "has too many loops"),
            ("[1].all (a, [1].existsOne\n(b, [1]. map(c, c) == [1]))".to_owned(), "has too many loops"),
            ("'a'.replace('a', 'bb').replace('b', 'cc').replace('c', 'dd') == ''".to_owned(), "has too many loops"),
            ("[1].all//\n(a, true)".to_owned(), "has a comment"),
            ("'a'.matches('\\\\w{200}')".to_owned(), "repeats parts of a regular expression"),
            ("'a'.matches('\\\\w\\x7b200}')".to_owned(), "repeats parts of a regular expression"),
            ("'a'.matches('\\\\w\\173200\\175')".to_owned(), "repeats parts of a regular expression"),
            ("matches('a', 'a') && matches('a', 'a') && matches('a', 'a')".to_owned(), "has too many loops"),
        ] {
            assert_eq!(matches(&expression), Err(why), "{expression}");
        }
    }
}
