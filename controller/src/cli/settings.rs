//! Validated settings of the commands. Only this module reads the arguments.

mod iam_policy;

use std::path::{Path, PathBuf};

use jiff::{SignedDuration, Timestamp};
use muster_api::Span;
use muster_aws::AwsFeatureGates;
use muster_manifest::snapshot::{FeatureGates, ParsedGates, parse_aws_gates};
use muster_scheduling::disrupt;
use muster_scheduling::model::{self, Options};

use super::arguments::{
    CatalogueArguments, ClusterArguments, CompletionsArguments, CrdsArguments, DisruptArguments, ExplainArguments,
    InputArguments, MinValuesPolicy, MomentArguments, MovePriceArguments, NodesArguments, OutputArguments,
    OutputFormat, PackingArguments, PaybackArguments, PlanArguments, PreferencePolicy, SimulateArguments, SubjectKind,
    TypesArguments, VerdictsArguments,
};
use super::failure::Failure;
use super::output::{DataFormat, Format};
use super::refused::Refusals;
use super::types::pattern;

pub(crate) use self::iam_policy::IamPolicySettings;
#[cfg(feature = "cluster")]
pub(crate) use self::iam_policy::{QUEUE_HINT, is_queue};

/// Settings of `muster plan`.
#[derive(Debug)]
pub(crate) struct PlanSettings {
    pub(crate) sources: Sources,
    pub(crate) packing: Packing,
    /// True if an unschedulable pod makes the answer "no".
    pub(crate) strict: bool,
    pub(crate) format: Format,
}

/// Settings of `muster disrupt`.
#[derive(Debug)]
pub(crate) struct DisruptSettings {
    pub(crate) sources: Sources,
    pub(crate) packing: Packing,
    /// Only the first voluntary command.
    pub(crate) first: bool,
    /// Minimum saving per moved pod in USD per hour.
    pub(crate) move_price: f64,
    /// Capacity that was refused recently.
    pub(crate) refused: Vec<Refusals>,
    /// Time of the decision.
    pub(crate) now: Timestamp,
    pub(crate) format: Format,
}

/// Settings of `muster explain`.
#[derive(Debug)]
pub(crate) struct ExplainSettings {
    pub(crate) subject: Subject,
    /// True if the effect of removing the node is requested.
    pub(crate) if_removed: bool,
    /// Time of the decision about a node.
    pub(crate) now: Timestamp,
    pub(crate) sources: Sources,
    pub(crate) packing: Packing,
    pub(crate) format: Format,
}

/// Settings of `muster nodes`.
#[derive(Debug)]
pub(crate) struct NodesSettings {
    /// Live cluster, read before the files.
    pub(crate) cluster: Option<ClusterSource>,
    pub(crate) files: Vec<PathBuf>,
    /// Names of NodePools; empty for all.
    pub(crate) pools: Vec<String>,
    /// True if the table has all columns.
    pub(crate) wide: bool,
    /// Time to which durations are computed.
    pub(crate) now: Timestamp,
    pub(crate) format: Format,
}

/// Settings of `muster verdicts`.
#[derive(Debug)]
pub(crate) struct VerdictsSettings {
    /// NodeClaim or node; `None` for all.
    pub(crate) name: Option<String>,
    /// Live cluster; `None` for the files.
    pub(crate) cluster: Option<ClusterSource>,
    /// Namespace of the controller's records; `None` for all namespaces.
    pub(crate) namespace: Option<String>,
    pub(crate) files: Vec<PathBuf>,
    /// Time to which durations are computed.
    pub(crate) now: Timestamp,
    pub(crate) format: Format,
}

/// Settings of `muster simulate`.
#[derive(Debug)]
pub(crate) struct SimulateSettings {
    /// Manifests of the cluster at the start.
    pub(crate) files: Vec<PathBuf>,
    pub(crate) catalogue: CatalogueSource,
    pub(crate) packing: Packing,
    /// Script; `None` for the default day.
    pub(crate) script: Option<PathBuf>,
    pub(crate) seed: u64,
    /// True if the script is printed instead of played.
    pub(crate) prints_script: bool,
    /// True if the day is also played with a Karpenter-like policy.
    pub(crate) compares: bool,
    /// Minimum saving per moved pod in USD per hour.
    pub(crate) move_price: f64,
    /// Time in which a launch pays for itself.
    pub(crate) payback: SignedDuration,
    pub(crate) format: Format,
}

/// Settings of `muster types`.
#[derive(Debug)]
pub(crate) struct TypesSettings {
    /// Live cluster with the EC2NodeClass.
    pub(crate) cluster: Option<ClusterSource>,
    /// Manifests with the EC2NodeClass; without these and a cluster, the default class is used.
    pub(crate) files: Vec<PathBuf>,
    /// Name of the class, if there are several.
    pub(crate) node_class: Option<String>,
    pub(crate) catalogue: CatalogueSource,
    /// Patterns of names, any of which may match; empty for all.
    pub(crate) names: Vec<String>,
    pub(crate) format: Format,
}

/// Sources of the cluster and the instance types.
#[derive(Debug)]
pub(crate) struct Sources {
    /// Live cluster, read before the files.
    pub(crate) cluster: Option<ClusterSource>,
    pub(crate) files: Vec<PathBuf>,
    pub(crate) catalogue: CatalogueSource,
}

/// Live cluster to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ClusterSource {
    /// Context of the kubeconfig; `None` for the current one.
    pub(crate) context: Option<String>,
}

/// Source of the instance types.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CatalogueSource {
    /// Embedded catalogue, as a region offers it.
    Embedded {
        /// Name of the region.
        region: String,
        /// Sources of prices, of which a later one replaces those before it; none for the embedded prices.
        prices: Vec<PricesFrom>,
    },
    /// File that replaces it.
    File(PathBuf),
}

/// Source of prices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PricesFrom {
    /// AWS.
    Live,
    /// A file.
    File(PathBuf),
}

/// Settings of packing.
#[derive(Debug)]
pub(crate) struct Packing {
    pub(crate) options: Options,
    pub(crate) gates: FeatureGates,
    pub(crate) aws_gates: AwsFeatureGates,
    /// Warnings about gates that are not known.
    pub(crate) gate_warnings: Vec<String>,
    pub(crate) scheduler_config: Option<PathBuf>,
}

/// Object to explain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Subject {
    /// A pod: `namespace/name`, or its name alone.
    Pod(String),
    /// A node, by name.
    Node(String),
}

impl PlanSettings {
    pub(crate) fn new(arguments: PlanArguments) -> Result<Self, Failure> {
        let PlanArguments { input, packing, strict, output } = arguments;
        Ok(Self { sources: Sources::new(input)?, packing: Packing::new(packing)?, strict, format: format_of(&output) })
    }
}

impl DisruptSettings {
    pub(crate) fn new(arguments: DisruptArguments, clock: Timestamp) -> Result<Self, Failure> {
        let DisruptArguments { input, packing, moment, first, price, refused, output } = arguments;
        Ok(Self {
            sources: Sources::new(input)?,
            packing: Packing::new(packing)?,
            first,
            move_price: move_price_of(&price)?,
            refused: refused.iter().map(|text| Refusals::new(text)).collect::<Result<_, _>>()?,
            now: moment_of(&moment, clock)?,
            format: format_of(&output),
        })
    }
}

impl ExplainSettings {
    pub(crate) fn new(arguments: ExplainArguments, clock: Timestamp) -> Result<Self, Failure> {
        let ExplainArguments { kind, name, input, if_removed, packing, moment, output } = arguments;
        if if_removed && kind == SubjectKind::Pod {
            return Err(Failure::Usage(
                "`--if-removed` applies to nodes, not to pods\n\nhint: name the node: `muster explain node NAME --if-removed`"
                    .to_owned(),
            ));
        }
        let subject = match kind {
            SubjectKind::Pod => Subject::Pod(name),
            SubjectKind::Node => Subject::Node(name),
        };
        Ok(Self {
            subject,
            if_removed,
            now: moment_of(&moment, clock)?,
            sources: Sources::new(input)?,
            packing: Packing::new(packing)?,
            format: format_of(&output),
        })
    }
}

impl NodesSettings {
    pub(crate) fn new(arguments: NodesArguments, clock: Timestamp) -> Result<Self, Failure> {
        let NodesArguments { files, cluster, pools, wide, moment, output } = arguments;
        check_stdin_once(&files, 0)?;
        Ok(Self {
            cluster: ClusterSource::new(cluster),
            files,
            pools,
            wide,
            now: moment_of(&moment, clock)?,
            format: format_of(&output),
        })
    }
}

impl VerdictsSettings {
    pub(crate) fn new(arguments: VerdictsArguments, clock: Timestamp) -> Result<Self, Failure> {
        let VerdictsArguments { name, files, cluster, namespace, moment, output } = arguments;
        check_stdin_once(&files, 0)?;
        if cluster.cluster && !files.is_empty() {
            let hint = "choose one of the two sources";
            return Err(Failure::Usage(format!("`-f` and `--cluster` are both given\n\nhint: {hint}")));
        }
        Ok(Self {
            name,
            cluster: ClusterSource::new(cluster),
            namespace,
            files,
            now: moment_of(&moment, clock)?,
            format: format_of(&output),
        })
    }
}

impl SimulateSettings {
    pub(crate) fn new(arguments: SimulateArguments) -> Result<Self, Failure> {
        let SimulateArguments { files, catalogue, packing, script, seed, print_script, no_comparison, payback, output } =
            arguments;
        let catalogue = CatalogueSource::new(catalogue)?;
        let read: Vec<PathBuf> = files.iter().chain(&script).cloned().collect();
        check_stdin(&read, &catalogue)?;
        let packing = Packing::new(packing)?;
        Ok(Self {
            files,
            catalogue,
            packing,
            script,
            seed,
            prints_script: print_script,
            compares: !no_comparison,
            move_price: move_price_of(&payback.price)?,
            payback: payback_of(&payback)?,
            format: format_of(&output),
        })
    }
}

impl TypesSettings {
    pub(crate) fn new(arguments: TypesArguments) -> Result<Self, Failure> {
        let TypesArguments { files, cluster, node_class, catalogue, names, output } = arguments;
        let cluster = ClusterSource::new(cluster);
        let catalogue = CatalogueSource::new(catalogue)?;
        check_stdin(&files, &catalogue)?;
        if let Some((name, fault)) = names.iter().find_map(|name| Some((name, pattern::fault(name)?))) {
            let hint = "`*` stands for any characters and `?` for one, as in `m7g.*`; repeat `--name` for several";
            return Err(Failure::Usage(format!("`--name`: `{}`: {fault}\n\nhint: {hint}", name.escape_debug())));
        }
        Ok(Self { cluster, files, node_class, catalogue, names, format: format_of(&output) })
    }
}

/// Returns the output format of `muster crds`: a pipe gets YAML for `kubectl apply`.
pub(crate) fn crds_format(arguments: CrdsArguments, stdout_is_terminal: bool) -> Format {
    let CrdsArguments { output } = arguments;
    match output {
        Some(output) => format(output),
        None if stdout_is_terminal => Format::Table,
        None => Format::Data(DataFormat::Yaml),
    }
}

/// Returns the shell of `muster completions`.
pub(crate) fn completions_shell(arguments: CompletionsArguments) -> clap_complete::Shell {
    let CompletionsArguments { shell } = arguments;
    shell
}

impl Sources {
    fn new(arguments: InputArguments) -> Result<Self, Failure> {
        let InputArguments { files, cluster, catalogue } = arguments;
        let (cluster, catalogue) = (ClusterSource::new(cluster), CatalogueSource::new(catalogue)?);
        check_stdin(&files, &catalogue)?;
        Ok(Self { cluster, files, catalogue })
    }
}

impl ClusterSource {
    fn new(arguments: ClusterArguments) -> Option<Self> {
        let ClusterArguments { cluster, context } = arguments;
        cluster.then_some(Self { context })
    }
}

impl CatalogueSource {
    fn new(arguments: CatalogueArguments) -> Result<Self, Failure> {
        let CatalogueArguments { catalog, region, prices } = arguments;
        if catalog.is_some() && !prices.is_empty() {
            return Err(Failure::Usage(
                "`--prices` and `--catalog` are both given, and a catalogue has prices of its own\n\nhint: keep one of the \
                 two; `muster types --prices … -o yaml` writes a catalogue with the given prices"
                    .to_owned(),
            ));
        }
        let from = |path: PathBuf| {
            if path.as_os_str().eq_ignore_ascii_case("live") { PricesFrom::Live } else { PricesFrom::File(path) }
        };
        Ok(match catalog {
            Some(file) => Self::File(file),
            None => {
                let prices = prices.into_iter().map(from).collect();
                Self::Embedded { region: region.to_ascii_lowercase(), prices }
            }
        })
    }

    /// Returns how often stdin is read.
    fn reads_of_stdin(&self) -> usize {
        match self {
            Self::File(file) => usize::from(is_stdin(file)),
            Self::Embedded { prices, .. } => {
                prices.iter().filter(|from| matches!(from, PricesFrom::File(file) if is_stdin(file))).count()
            }
        }
    }
}

impl Packing {
    fn new(arguments: PackingArguments) -> Result<Self, Failure> {
        let PackingArguments {
            preference_policy,
            preference_price,
            min_values_policy,
            scheduler_config,
            feature_gates,
            aws_feature_gates,
        } = arguments;
        let ParsedGates { gates, mut warnings } =
            gates_of("--feature-gates", FeatureGates::parse(&feature_gates.join(",")))?;
        let ParsedGates { gates: aws_gates, warnings: of_aws } =
            gates_of("--aws-feature-gates", parse_aws_gates(&aws_feature_gates.join(",")))?;
        warnings.extend(of_aws);
        let options = Options {
            preferences: match preference_policy {
                PreferencePolicy::Respect => model::PreferencePolicy::Respect,
                PreferencePolicy::Ignore => model::PreferencePolicy::Ignore,
            },
            preference_price: preference_price_of(&preference_price)?,
            min_values: match min_values_policy {
                MinValuesPolicy::Strict => model::MinValuesPolicy::Strict,
                MinValuesPolicy::BestEffort => model::MinValuesPolicy::BestEffort,
            },
            reserved_capacity: gates.reserved_capacity,
            ..Options::default()
        };
        Ok(Self { options, gates, aws_gates, gate_warnings: warnings, scheduler_config })
    }
}

impl Packing {
    /// Returns the settings of disruption with these of packing.
    pub(crate) fn disruption(&self, first: bool) -> disrupt::Settings {
        disrupt::Settings {
            options: self.options,
            repair: disrupt::Repair::of(self.gates.node_repair, false),
            terminate_first: disrupt::TerminateFirst {
                drift: self.gates.terminate_first_drift,
                repair: self.gates.terminate_first_repair,
            },
            spot_to_spot: self.gates.spot_to_spot_consolidation,
            first,
            ..disrupt::Settings::default()
        }
    }
}

/// Returns the gates that were parsed from an option.
pub(crate) fn gates_of<T>(option: &str, parsed: Result<ParsedGates<T>, String>) -> Result<ParsedGates<T>, Failure> {
    let parsed = parsed.map_err(|reason| {
        Failure::Usage(format!("`{option}`: {reason}\n\nhint: write gates as `Name=true,OtherName=false`"))
    })?;
    let warnings = parsed.warnings.into_iter().map(|warning| format!("`{option}`: {warning}")).collect();
    Ok(ParsedGates { gates: parsed.gates, warnings })
}

/// Parses `--move-price`.
pub(crate) fn move_price_of(arguments: &MovePriceArguments) -> Result<f64, Failure> {
    let text = &arguments.move_price;
    text.parse().ok().filter(|price: &f64| price.is_finite() && *price >= 0.0).ok_or_else(|| {
        let hint = "write USD per hour, such as `0.0005`; 0 moves pods for any saving";
        Failure::Usage(format!("`--move-price`: `{text}` is not a price\n\nhint: {hint}"))
    })
}

/// Parses `--preference-price`, and returns millionths of a USD.
pub(crate) fn preference_price_of(text: &str) -> Result<u32, Failure> {
    let price = text.parse().ok().filter(|price: &f64| (0.0..=MOST_PREFERENCE_PRICE).contains(price));
    price.map(|price| (price * 1e6).round() as u32).ok_or_else(|| {
        let hint = format!("write USD per hour, such as `0.0005`, at most {MOST_PREFERENCE_PRICE}");
        Failure::Usage(format!("`--preference-price`: `{text}` is not a price\n\nhint: {hint}"))
    })
}

/// Maximum of `--preference-price`: more than any instance costs.
const MOST_PREFERENCE_PRICE: f64 = 1000.0;

/// Parses `--consolidation-payback`.
pub(crate) fn payback_of(arguments: &PaybackArguments) -> Result<SignedDuration, Failure> {
    let text = &arguments.consolidation_payback;
    let read: Option<Span> = text.parse().ok();
    read.and_then(|Span(span)| SignedDuration::try_from(span).ok()).ok_or_else(|| {
        let hint = "write it as `1h` or `30m`; `0s` lets consolidation take nodes of any age";
        Failure::Usage(format!("`--consolidation-payback`: `{text}` is not a duration\n\nhint: {hint}"))
    })
}

/// Parses `--now`; defaults to the clock.
fn moment_of(arguments: &MomentArguments, clock: Timestamp) -> Result<Timestamp, Failure> {
    let MomentArguments { now } = arguments;
    let Some(text) = now else { return Ok(clock) };
    text.parse().map_err(|_| {
        let hint = "write it in RFC 3339 with its zone, such as `2026-11-21T09:30:00Z`";
        Failure::Usage(format!("`--now`: `{text}` is not a time\n\nhint: {hint}"))
    })
}

fn format_of(arguments: &OutputArguments) -> Format {
    let OutputArguments { output } = arguments;
    format(*output)
}

fn format(output: OutputFormat) -> Format {
    match output {
        OutputFormat::Table => Format::Table,
        OutputFormat::Json => Format::Data(DataFormat::Json),
        OutputFormat::Yaml => Format::Data(DataFormat::Yaml),
    }
}

/// Checks that stdin is used once at most.
fn check_stdin(files: &[PathBuf], catalogue: &CatalogueSource) -> Result<(), Failure> {
    check_stdin_once(files, catalogue.reads_of_stdin())
}

/// Checks that stdin is used once at most, by these files and `others` more.
fn check_stdin_once(files: &[PathBuf], others: usize) -> Result<(), Failure> {
    if files.iter().filter(|file| is_stdin(file)).count() + others > 1 {
        return Err(Failure::Usage(
            "`-` is given twice, and stdin can be read once\n\nhint: give one of the two as a file, or as `<(command)`"
                .to_owned(),
        ));
    }
    Ok(())
}

fn is_stdin(path: &Path) -> bool {
    path == Path::new("-")
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::super::arguments::{Arguments, Command};
    use super::*;

    fn plan(arguments: &[&str]) -> Result<PlanSettings, Failure> {
        let typed = ["muster", "plan"].iter().chain(arguments);
        match Arguments::try_parse_from(typed).unwrap().command {
            Command::Plan(arguments) => PlanSettings::new(arguments),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn values_are_not_case_sensitive() {
        let settings = plan(&[
            "-f",
            "a",
            "-o",
            "JSON",
            "--min-values-policy",
            "Best-Effort",
            "--region",
            "EU-West-1",
            "--prices",
            "LIVE",
        ]);
        let settings = settings.unwrap();
        assert_eq!(settings.format, Format::Data(DataFormat::Json));
        assert_eq!(settings.packing.options.min_values, model::MinValuesPolicy::BestEffort);
        let embedded = CatalogueSource::Embedded { region: "eu-west-1".to_owned(), prices: vec![PricesFrom::Live] };
        assert_eq!(settings.sources.catalogue, embedded);
    }

    #[test]
    fn a_catalogue_has_its_own_prices() {
        let failure = plan(&["-f", "a", "--catalog", "b", "--prices", "c"]).unwrap_err();
        assert_eq!(failure.exit_code(), 2);
        insta::assert_snapshot!(failure, @r"
        `--prices` and `--catalog` are both given, and a catalogue has prices of its own

        hint: keep one of the two; `muster types --prices … -o yaml` writes a catalogue with the given prices
        ");
    }

    #[test]
    fn stdin_is_read_once() {
        assert_eq!(plan(&["-f", "-", "--prices", "-"]).unwrap_err().exit_code(), 2);
        assert_eq!(plan(&["-f", "a", "--prices", "-", "--prices", "-"]).unwrap_err().exit_code(), 2);
        let failure = plan(&["-f", "-", "--catalog", "-"]).unwrap_err();
        assert_eq!(failure.exit_code(), 2);
        insta::assert_snapshot!(failure, @r"
        `-` is given twice, and stdin can be read once

        hint: give one of the two as a file, or as `<(command)`
        ");
    }
}
