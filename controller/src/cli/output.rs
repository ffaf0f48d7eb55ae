//! Output of results to stdout.

use std::io::{self, Write};

use serde::Serialize;

use super::failure::Failure;

/// Formats for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DataFormat {
    /// JSON, indented.
    Json,
    /// YAML.
    Yaml,
}

/// Output format of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// Table for people.
    Table,
    /// Document for programs.
    Data(DataFormat),
}

/// Writes `document` as JSON or YAML.
pub(crate) fn write_document(
    out: &mut dyn Write,
    document: &impl Serialize,
    format: DataFormat,
) -> Result<(), Failure> {
    match format {
        DataFormat::Json => {
            serde_json::to_writer_pretty(&mut *out, document).map_err(io::Error::from)?;
            writeln!(out)?;
        }
        DataFormat::Yaml => out.write_all(yaml(document)?.as_bytes())?,
    }
    Ok(())
}

/// Returns `document` as YAML text that ends with a newline.
pub(crate) fn yaml(document: &impl Serialize) -> Result<String, Failure> {
    let mut text = serde_saphyr::to_string(document).map_err(io::Error::other)?;
    if !text.ends_with('\n') {
        text.push('\n');
    }
    Ok(text)
}
