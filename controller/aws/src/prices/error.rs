//! Errors in a file with prices.

use super::{API_VERSION, KIND, LONGEST_YAML, MOST_DOLLARS};

/// Reason why a file with prices is invalid.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PriceListError {
    /// The text is not valid JSON or YAML.
    #[error("{}{reason}", prefix(*.line))]
    Syntax {
        /// Line, from 1, if known.
        line: Option<usize>,
        /// Message of the parser.
        reason: String,
    },
    /// A field is missing or has an invalid value.
    #[error("{}`{field}`: {problem}", prefix(*.line))]
    Field {
        /// Line, from 1, if known.
        line: Option<usize>,
        /// Path of the field.
        field: String,
        /// Description of the error.
        problem: String,
    },
    /// The document has neither prices of our own kind nor output of the AWS CLI.
    #[error("is not a list of prices: there is neither `kind: {KIND}` nor `SpotPriceHistory` nor `PriceList`")]
    NoPrices,
    /// The prices are those of another region.
    #[error("has prices of `{found}`, and not of `{expected}`")]
    OtherRegion {
        /// Region in the file.
        found: String,
        /// Region that was asked for.
        expected: String,
    },
    /// The file has no price that counts.
    #[error("has no price of an instance type in `{region}`")]
    Empty {
        /// Region that was asked for.
        region: String,
    },
    /// The text is YAML, and too long for it.
    #[error("is YAML of more than {} MiB", LONGEST_YAML >> 20)]
    TooLong,
}

fn prefix(line: Option<usize>) -> String {
    line.map(|line| format!("line {line}: ")).unwrap_or_default()
}

impl PriceListError {
    /// Returns a hint on how to fix the error.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::Syntax { .. } => {
                format!("correct the text there; it is JSON if it begins with a brace, else YAML, as of `kind: {KIND}`")
            }
            Self::Field { .. } => format!(
                "correct the field; a price is in USD per hour, above 0 and at most {MOST_DOLLARS}, and a time is written \
                 as `2026-11-20T00:00:00Z`"
            ),
            Self::NoPrices => format!(
                "give a file with `apiVersion: {API_VERSION}` and `kind: {KIND}`, or what `aws ec2 \
                 describe-spot-price-history --output json` or `aws pricing get-products --output json` prints"
            ),
            Self::OtherRegion { found, expected } => {
                format!("add `--region {found}`, or give the prices of {expected}")
            }
            Self::Empty { region } => format!(
                "ask for `regionCode` {region}, `operatingSystem` Linux or Windows, `tenancy` Shared, `preInstalledSw` \
                 NA, `capacitystatus` Used and `marketoption` OnDemand; for spot, for Linux/UNIX or Windows"
            ),
            Self::TooLong => "give it as JSON, which is read piece by piece".to_owned(),
        }
    }
}
