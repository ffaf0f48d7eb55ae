//! Errors in a catalogue file.

use super::{API_VERSION, KIND};
use crate::quantity::QuantityError;

/// Reason why a catalogue is invalid. The message names the instance type and the field.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CatalogueError {
    /// The document does not have the expected shape.
    #[error("{0}")]
    Syntax(String),
    /// A field of the document that is missing or not of the expected type.
    #[error("`{field}`: {problem}")]
    Field {
        /// Path of the field.
        field: String,
        /// Description of the error.
        problem: String,
    },
    /// The document is of another kind.
    #[error("`{field}` is `{found}`, expected `{expected}`")]
    OtherKind {
        /// `apiVersion` or `kind`.
        field: &'static str,
        /// Value in the document.
        found: String,
        /// Expected value.
        expected: &'static str,
    },
    /// An instance type without a name.
    #[error("`instanceTypes[{index}].name` is empty")]
    Unnamed {
        /// Index in the list, from 0.
        index: usize,
    },
    /// Two instance types with the same name.
    #[error("instance type `{name}` is listed twice")]
    Duplicate {
        /// Name of the type.
        name: String,
    },
    /// An invalid value of an instance type.
    #[error("instance type `{instance_type}`, `{field}`: {problem}")]
    Value {
        /// The instance type.
        instance_type: String,
        /// Path within the instance type (`offerings[2].price`).
        field: String,
        /// Description of the error.
        problem: Problem,
    },
}

impl CatalogueError {
    /// Returns a hint on how to fix the error.
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
            Self::NotOne(_) => "write an offering for each zone and capacity type, with one value of each",
            Self::Twice => "keep one of the two; only one of them could count",
            Self::Price(_) => "leave `price` out if it is not known: the offering is then listed and never launched",
            Self::Shape(_) => "`muster types -o json` prints a catalogue with every field in its form",
        }
    }
}

/// Error in one value.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// An invalid quantity.
    #[error("`{text}` {error}")]
    Quantity {
        /// The quantity as written.
        text: String,
        /// Reason why it is invalid.
        error: QuantityError,
    },
    /// An unknown operator.
    #[error("unknown operator `{0}`, expected one of In, NotIn, Exists, DoesNotExist, Gt, Lt, Gte, Lte")]
    Operator(String),
    /// Values that do not match the operator.
    #[error("{0}")]
    Operands(&'static str),
    /// An offering without exactly one value of this label.
    #[error("must have exactly one value of `{0}`, with operator In")]
    NotOne(&'static str),
    /// A resource listed twice.
    #[error("is listed twice")]
    Twice,
    /// A price out of range.
    #[error("`{0:?}` is not a price: USD per hour, from 0 to 1000000")]
    Price(f64),
    /// A field that is missing or of the wrong type.
    #[error("{0}")]
    Shape(String),
}
