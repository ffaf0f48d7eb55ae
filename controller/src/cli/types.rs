//! `muster types`: the instance types in use. The plan takes them from here too, so that both see the same ones.

mod pattern;
mod text;

use std::io::{Write, stdin};

use muster_aws::catalogue::{self, Format as FileFormat};
use muster_aws::{Ec2, Region, Resolver};
use muster_scheduling::model::Catalogue;

use self::pattern::matches_any;
use super::failure::Failure;
use super::inputs::read_manifests;
use super::output::{DataFormat, Format};
use super::palette::Palette;
use super::progress::Progress;
use super::settings::{CatalogueSource, TypesSettings};
use crate::manifest::{self, NodeClass, Source};

/// Where the instance types of NodeClasses come from.
#[derive(Debug)]
pub(crate) enum Supply {
    /// The embedded catalogue, as a region offers it.
    Embedded {
        /// The region.
        region: &'static Region,
        /// All types.
        ec2: &'static Ec2,
    },
    /// The types of a file, the same for every NodeClass.
    File(Catalogue),
}

impl Supply {
    /// Opens the catalogue that `source` names.
    pub(crate) fn open(source: &CatalogueSource) -> Result<Self, Failure> {
        match source {
            CatalogueSource::Embedded { region } => {
                let ec2 = Ec2::embedded().map_err(|error| Failure::Internal(error.to_string()))?;
                let region = ec2.region(region).map_err(|error| Failure::Usage(error.to_string()))?;
                Ok(Self::Embedded { region, ec2 })
            }
            CatalogueSource::File(file) => {
                let Source { name, text, .. } = manifest::read_one(file, &mut stdin().lock())?;
                let types = catalogue::read(&text);
                types
                    .map(|types| Self::File(types.into()))
                    .map_err(|error| Failure::Usage(format!("{name}: document 1: {error}\n\nhint: {}", error.hint())))
            }
        }
    }

    /// The types that nodes of `class` may be; without a class, or with another provider's, those of the default one.
    pub(crate) fn types(&self, class: Option<&NodeClass>) -> Catalogue {
        match self {
            Self::Embedded { region, ec2 } => {
                let settings = class.map(|class| class.settings.clone()).unwrap_or_default();
                let mut resolver = Resolver::new(region.place(), &settings);
                ec2.types(region).map(|(facts, prices)| resolver.resolve(&facts, &prices)).collect()
            }
            Self::File(types) => types.clone(),
        }
    }

    /// Where the prices come from, in words.
    pub(crate) fn price_source(&self) -> String {
        match self {
            Self::Embedded { region, .. } => format!("{}: {}", region.name(), region.price_source()),
            Self::File(_) => "the given catalogue".to_owned(),
        }
    }
}

/// Prints the types that `settings` ask for.
pub(crate) fn print(
    out: &mut dyn Write,
    settings: &TypesSettings,
    progress: &mut Progress,
    palette: Palette,
) -> Result<(), Failure> {
    let TypesSettings { files, catalogue: source, names, format } = settings;
    let open = Supply::open(source)?;
    let class = node_class(files, progress)?;
    progress.stage("resolving instance types");
    let mut types = open.types(class.as_ref()).types().to_vec();
    progress.clear();
    if !names.is_empty() {
        types.retain(|instance_type| matches_any(names, &instance_type.name));
    }
    let text = match format {
        Format::Table => text::render(&types, &open.price_source(), palette),
        Format::Data(format) => {
            let format = match format {
                DataFormat::Json => FileFormat::Json,
                DataFormat::Yaml => FileFormat::Yaml,
            };
            catalogue::write(&types, format).map_err(|error| Failure::Internal(error.to_string()))?
        }
    };
    Ok(out.write_all(text.as_bytes())?)
}

/// The one NodeClass in `files`, if any are given.
fn node_class(files: &[std::path::PathBuf], progress: &mut Progress) -> Result<Option<NodeClass>, Failure> {
    if files.is_empty() {
        return Ok(None);
    }
    let classes = read_manifests(files, progress)?.node_classes;
    match classes.as_slice() {
        [class] => Ok(Some(class.clone())),
        [] => Err(Failure::Usage(
            "there is no EC2NodeClass in the input\n\nhint: without `-f` the types of the default class are listed"
                .into(),
        )),
        several => {
            let names: Vec<&str> = several.iter().map(|class| &*class.name).collect();
            Err(Failure::Usage(format!(
                "there are {} NodeClasses in the input: {}\n\nhint: give the file of one of them",
                several.len(),
                names.join(", ")
            )))
        }
    }
}
