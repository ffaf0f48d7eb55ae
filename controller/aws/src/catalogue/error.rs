//! What can be wrong with a catalogue file.

use super::{API_VERSION, KIND};
use crate::quantity::QuantityError;

/// Why a catalogue cannot be used. The message names the instance type and the field.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CatalogueError {
    /// It is not a document of the expected shape.
    #[error("{0}")]
    Syntax(String),
    /// A field of the document that is missing or not of the expected type.
    #[error("`{field}`: {problem}")]
    Field {
        /// Its path.
        field: String,
        /// What is wrong.
        problem: String,
    },
    /// It is some other document.
    #[error("`{field}` is `{found}`, expected `{expected}`")]
    OtherKind {
        /// `apiVersion` or `kind`.
        field: &'static str,
        /// What it is.
        found: String,
        /// What it has to be.
        expected: &'static str,
    },
    /// An instance type without a name.
    #[error("`instanceTypes[{index}].name` is empty")]
    Unnamed {
        /// Place in the list, from 0.
        index: usize,
    },
    /// Two instance types with one name.
    #[error("instance type `{name}` is listed twice")]
    Duplicate {
        /// The name.
        name: String,
    },
    /// A value of an instance type that cannot be used.
    #[error("instance type `{instance_type}`, `{field}`: {problem}")]
    Value {
        /// The instance type.
        instance_type: String,
        /// Path within the instance type (`offerings[2].price`).
        field: String,
        /// What is wrong.
        problem: Problem,
    },
}

impl CatalogueError {
    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> String {
        let example = "`muster types -o json` prints a catalogue to start from";
        match self {
            Self::Field { .. } => format!("correct the field; {example}"),
            Self::Syntax(_) => format!("correct the text there; {example}"),
            Self::OtherKind { .. } => {
                format!("name a file with `apiVersion: {API_VERSION}` and `kind: {KIND}`; {example}")
            }
            Self::Unnamed { .. } => "give every instance type a `name`".to_owned(),
            Self::Duplicate { .. } => "keep one of the two; only one of them could count".to_owned(),
            Self::Value { problem, .. } => problem.hint().to_owned(),
        }
    }
}

impl Problem {
    const fn hint(&self) -> &'static str {
        match self {
            Self::Quantity { .. } => "write an amount of zero or more, such as `940m`, `2` or `8Gi`",
            Self::Operator(_) | Self::Operands(_) => {
                "write requirements as in a NodePool, such as `{\"key\": …, \"operator\": \"In\", \"values\": […]}`"
            }
            Self::Twice => "keep one of the two; only one of them could count",
            Self::Price(_) => "leave `price` out if it is not known: the offering is then listed and never launched",
            Self::Shape(_) => "`muster types -o json` prints a catalogue with every field in its form",
        }
    }
}

/// What is wrong with one value.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// A quantity.
    #[error("`{text}` {error}")]
    Quantity {
        /// As it stands there.
        text: String,
        /// What is wrong with it.
        error: QuantityError,
    },
    /// An operator that does not exist.
    #[error("unknown operator `{0}`, expected one of In, NotIn, Exists, DoesNotExist, Gt, Lt, Gte, Lte")]
    Operator(String),
    /// Values that do not suit the operator.
    #[error("{0}")]
    Operands(&'static str),
    /// A resource listed twice.
    #[error("is listed twice")]
    Twice,
    /// A price that nobody can pay.
    #[error("`{0:?}` is not a price: USD per hour, from 0 to 1000000")]
    Price(f64),
    /// A field that is missing or of another type.
    #[error("{0}")]
    Shape(String),
}
