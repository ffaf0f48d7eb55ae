//! Reading of a file with prices in one pass, so that only the prices stay in memory.

mod document;
mod own;
mod spot_history;

use serde::de::DeserializeSeed;
use serde_path_to_error::{Path, Track};

use self::document::DocumentSeed;
use super::{PriceList, PriceListError};

/// Maximum length of a file in YAML, in bytes: its parser takes many times that. A list of all types in all zones has
/// one.
pub const LONGEST_YAML: usize = 16 << 20;
/// Maximum number of characters of the input in a message.
const LONGEST_QUOTE: usize = 120;
/// Ends of messages of the YAML parser: its own place, and advice for those who call it.
const ADVICE: [&str; 3] = [" at line ", "; use from_str", ", set DuplicateKeyPolicy"];

/// Content of a file with prices.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PriceFile {
    /// Its prices.
    pub prices: PriceList,
    /// Number of prices of other regions, which are left out.
    pub elsewhere: usize,
    /// True if the AWS CLI was told to print a part of its answer only.
    pub is_cut_off: bool,
}

/// Reads the prices of `region` from a file: a `PriceList` of our own, or what `aws ec2 describe-spot-price-history` or
/// `aws pricing get-products` prints. `text` is JSON if it begins with a brace, else YAML.
///
/// # Errors
/// If `text` is none of these, a value in it is invalid, or it has no price of the region.
pub fn read(text: &str, region: &str) -> Result<PriceFile, PriceListError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let seed = DocumentSeed { region };
    let mut track = Track::new();
    let document = if text.trim_start().starts_with('{') {
        let mut json = serde_json::Deserializer::from_str(text);
        let read = seed.deserialize(serde_path_to_error::Deserializer::new(&mut json, &mut track));
        let whole = read.and_then(|document| json.end().map(|()| document));
        whole.map_err(|error| json_error(&error, &track.path()))?
    } else {
        if text.len() > LONGEST_YAML {
            return Err(PriceListError::TooLong);
        }
        let read = serde_saphyr::with_deserializer_from_str_with_options(text, yaml_options(text.len()), |yaml| {
            seed.deserialize(serde_path_to_error::Deserializer::new(yaml, &mut track))
        });
        read.map_err(|error| yaml_error(&error, &track.path()))?
    };
    document.into_file(region)
}

/// Limits that suffice for any text of this length: only repeated aliases exceed them.
fn yaml_options(bytes: usize) -> serde_saphyr::Options {
    const ROOM: usize = 1_000_000;
    let most = bytes.saturating_add(ROOM);
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_reader_input_bytes: None,
            max_events: most,
            max_nodes: most,
            max_total_scalar_bytes: most.saturating_mul(2),
        },
    }
}

fn json_error(error: &serde_json::Error, path: &Path) -> PriceListError {
    let text = error.to_string();
    let reason = text.rsplit_once(" at line ").map_or(&*text, |(reason, _)| reason);
    let line = Some(error.line()).filter(|line| *line > 0);
    fault(line, path, reason, error.is_data())
}

fn yaml_error(error: &serde_saphyr::Error, path: &Path) -> PriceListError {
    let line = error.location().and_then(|location| usize::try_from(location.line()).ok()).filter(|line| *line > 0);
    let text = error.without_snippet().to_string();
    let reason = text.lines().find(|line| !line.trim().is_empty()).unwrap_or("unknown cause");
    let cut = |reason: &str, end: &str| reason.split(end).next().unwrap_or(reason).to_owned();
    let reason = ADVICE.into_iter().fold(reason.to_owned(), |reason, end| cut(&reason, end));
    let reason = reason.trim();
    fault(line, path, reason, true)
}

fn fault(line: Option<usize>, path: &Path, reason: &str, is_of_field: bool) -> PriceListError {
    let reason = quoted(reason);
    if is_of_field && path.iter().next().is_some() {
        PriceListError::Field { line, field: quoted(&path.to_string()), problem: reason }
    } else {
        PriceListError::Syntax { line, reason }
    }
}

/// Returns text of the input as a part of a message: in one line, and not too long.
fn quoted(text: &str) -> String {
    let clean = |letter: char| if letter.is_control() { ' ' } else { letter };
    let mut quoted: String = text.chars().take(LONGEST_QUOTE).map(clean).collect();
    if text.chars().nth(LONGEST_QUOTE).is_some() {
        quoted.push('…');
    }
    quoted
}
