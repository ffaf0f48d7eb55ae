//! `muster types`: the instance types in use. `muster plan` uses the same types.

pub(super) mod pattern;
mod text;

use std::io::{Write, stdin};

use jiff::Timestamp;
use muster_aws::catalogue::{self, Format as FileFormat};
use muster_aws::{Ec2, Region, Resolver};
use muster_manifest::{self as manifest, NodeClass, Source};
use muster_scheduling::model::Catalogue;

use self::pattern::matches_any;
use super::failure::Failure;
use super::inputs::{read_node_classes, warn};
use super::output::{DataFormat, Format};
use super::palette::Palette;
use super::prices::{GivenPrices, PriceWords};
use super::progress::Progress;
use super::settings::{CatalogueSource, TypesSettings};

/// Source of the instance types of NodeClasses.
#[derive(Debug)]
pub(crate) enum Supply {
    /// The embedded catalogue, as a region offers it.
    Embedded {
        /// The region.
        region: &'static Region,
        /// All types.
        ec2: &'static Ec2,
        /// Prices that replace the embedded ones.
        prices: Box<GivenPrices>,
    },
    /// The types of a file, the same for every NodeClass.
    File(Catalogue),
}

impl Supply {
    /// Opens the catalogue of `source`.
    pub(crate) fn open(source: &CatalogueSource, progress: &mut Progress) -> Result<Self, Failure> {
        match source {
            CatalogueSource::Embedded { region, prices } => {
                let ec2 = Ec2::embedded().map_err(|error| Failure::Internal(error.to_string()))?;
                let region = ec2.region(region).map_err(|error| Failure::Usage(error.to_string()))?;
                let prices = Box::new(GivenPrices::read(prices, region, ec2, progress)?);
                Ok(Self::Embedded { region, ec2, prices })
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

    /// Returns the types for nodes of `class`; without a class, or for one of another provider, those of the default
    /// class.
    pub(crate) fn types(&self, class: Option<&NodeClass>) -> Catalogue {
        match self {
            Self::Embedded { region, ec2, prices: given } => {
                let settings = class.map(|class| class.settings.clone()).unwrap_or_default();
                let mut resolver = Resolver::new(region.place(), &settings);
                let types = ec2.types(region);
                types.map(|(facts, prices)| resolver.resolve(&facts, &given.over(&facts.name, prices))).collect()
            }
            Self::File(types) => types.clone(),
        }
    }

    /// Returns the source of the prices as text. `classes` are those of the nodes, `now` is the time to which ages are
    /// computed.
    pub(crate) fn price_source<'c>(
        &self,
        mut classes: impl Iterator<Item = &'c NodeClass>,
        now: Timestamp,
    ) -> PriceWords {
        match self {
            Self::Embedded { region, ec2, prices } => {
                let has_windows = classes.any(|class| class.settings.ami_family.is_windows());
                prices.words(region, ec2, has_windows, now)
            }
            Self::File(_) => PriceWords::ageless("the given catalogue".to_owned()),
        }
    }

    /// Returns the warnings about the given prices.
    pub(crate) fn warnings(&self) -> &[String] {
        match self {
            Self::Embedded { prices, .. } => &prices.warnings,
            Self::File(_) => &[],
        }
    }
}

/// Prints the types that `settings` select.
pub(crate) fn print(
    out: &mut dyn Write,
    settings: &TypesSettings,
    now: Timestamp,
    progress: &mut Progress,
    (stdout, stderr): (Palette, Palette),
) -> Result<(), Failure> {
    let TypesSettings { cluster: _, files: _, node_class: _, catalogue: source, names, format } = settings;
    let open = Supply::open(source, progress)?;
    let class = node_class(settings, progress)?;
    progress.stage("resolving instance types");
    let mut types = open.types(class.as_ref()).types().to_vec();
    progress.clear();
    warn(open.warnings(), stderr);
    if !names.is_empty() {
        types.retain(|instance_type| matches_any(names, &instance_type.name));
    }
    let text = match format {
        Format::Table => text::render(&types, &open.price_source(class.iter(), now).aged, stdout),
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

/// Returns the selected NodeClass; `None` if no files and no cluster are given.
fn node_class(settings: &TypesSettings, progress: &mut Progress) -> Result<Option<NodeClass>, Failure> {
    let TypesSettings { cluster, files, node_class, .. } = settings;
    if cluster.is_none() && files.is_empty() {
        return match node_class {
            None => Ok(None),
            Some(name) => Err(Failure::Usage(format!(
                "`--node-class {name}` needs a source of NodeClasses\n\nhint: add `-f FILE` or `--cluster`"
            ))),
        };
    }
    let mut classes = read_node_classes(cluster.as_ref(), files, progress)?;
    let names: Vec<String> = classes.iter().map(|class| class.name.to_string()).collect();
    if let Some(wanted) = node_class {
        classes.retain(|class| *class.name == **wanted);
    }
    match (classes.len(), names.as_slice()) {
        (0, []) => Err(Failure::Usage(
            "there is no EC2NodeClass in the input\n\nhint: without `-f` the types of the default class are listed"
                .into(),
        )),
        (0, names) => Err(Failure::Usage(format!(
            "there is no NodeClass `{}` in the input\n\nhint: it has {}",
            node_class.as_deref().unwrap_or_default(),
            names.join(", ")
        ))),
        (1, _) => Ok(classes.pop()),
        (several, names) => Err(Failure::Usage(format!(
            "there are {several} NodeClasses in the input: {}\n\nhint: choose one with `--node-class NAME`",
            names.join(", ")
        ))),
    }
}
