//! `muster crds`: the CustomResourceDefinitions.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde::Serialize;
use std::io::Write;

use super::failure::Failure;
use super::grid::{Grid, Side};
use super::output::{DataFormat, Format, write_document, yaml};
use super::palette::Palette;

/// `List` of `v1`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct List<'a> {
    api_version: &'static str,
    kind: &'static str,
    items: &'a [CustomResourceDefinition],
}

/// Prints all definitions, for `kubectl apply -f -`: YAML as one document each, JSON as a `List`.
pub(crate) fn print(out: &mut dyn Write, format: Format, palette: Palette) -> Result<(), Failure> {
    let definitions = muster_api::crds();
    match format {
        Format::Data(DataFormat::Json) => {
            write_document(out, &List { api_version: "v1", kind: "List", items: &definitions }, DataFormat::Json)
        }
        Format::Data(DataFormat::Yaml) => {
            for definition in &definitions {
                out.write_all(b"---\n")?;
                out.write_all(yaml(definition)?.as_bytes())?;
            }
            Ok(())
        }
        Format::Table => Ok(out.write_all(table(&definitions, palette).as_bytes())?),
    }
}

fn table(definitions: &[CustomResourceDefinition], palette: Palette) -> String {
    let mut grid =
        Grid::new([("KIND", Side::Left), ("GROUP", Side::Left), ("VERSIONS", Side::Left), ("SHORT NAMES", Side::Left)]);
    for definition in definitions {
        let spec = &definition.spec;
        let versions: Vec<&str> = spec.versions.iter().map(|version| version.name.as_str()).collect();
        let short_names = spec.names.short_names.as_deref().unwrap_or_default();
        grid.push([spec.names.kind.clone(), spec.group.clone(), versions.join(","), short_names.join(",")]);
    }
    grid.render(palette)
}
