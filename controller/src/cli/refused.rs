//! `--refused`: capacity that the cloud refused recently, given as text or in a file.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use muster_api::likeness;
use muster_scheduling::model::{Problem, Refused};

use super::failure::Failure;

const CAPACITY_TYPES: [&str; 3] = ["on-demand", "reserved", "spot"];
const HINT: &str = "write `TYPE/ZONE/CAPACITY-TYPE`, such as `m7g.large/us-east-1a/spot`; `*` stands for any";

/// Value of the option.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refusals {
    /// An offering, or several that share parts.
    One(Refused),
    /// A file with one per line.
    File(PathBuf),
}

impl Refusals {
    pub(super) fn new(text: &str) -> Result<Self, Failure> {
        match text.strip_prefix('@') {
            Some(file) => Ok(Self::File(PathBuf::from(file))),
            None => parse(text).map(Self::One).map_err(|fault| usage("`--refused`", &fault, HINT)),
        }
    }
}

/// Reads everything that `refusals` name; each must be of a known instance type.
pub(super) fn read(refusals: &[Refusals], problem: &Problem) -> Result<Vec<Refused>, Failure> {
    let mut all = Vec::new();
    for one in refusals {
        match one {
            Refusals::One(refused) => all.push(known(refused.clone(), problem, "`--refused`")?),
            Refusals::File(file) => {
                let text = std::fs::read_to_string(file).map_err(|error| {
                    let hint = "name a file that can be read, with one offering on each line";
                    usage("`--refused`", &format!("`{}` cannot be read: {error}", file.display()), hint)
                })?;
                for (number, line) in text.lines().enumerate() {
                    let line = line.split('#').next().unwrap_or_default().trim();
                    if line.is_empty() {
                        continue;
                    }
                    let place = place(file, number + 1);
                    let refused = parse(line).map_err(|fault| usage(&place, &fault, HINT))?;
                    all.push(known(refused, problem, &place)?);
                }
            }
        }
    }
    Ok(all)
}

fn place(file: &Path, line: usize) -> String {
    format!("`{}` line {line}", file.display())
}

fn usage(place: &str, fault: &str, hint: &str) -> Failure {
    Failure::Usage(format!("{place}: {fault}\n\nhint: {hint}"))
}

fn parse(text: &str) -> Result<Refused, String> {
    let parts: Vec<&str> = text.split('/').map(str::trim).collect();
    let any = |part: Option<&&str>| -> Option<Arc<str>> {
        part.filter(|part| **part != "*").map(|part| Arc::from(part.to_ascii_lowercase()))
    };
    let is_whole = (1..=3).contains(&parts.len()) && parts.iter().all(|part| !part.is_empty()) && parts[0] != "*";
    if !is_whole {
        return Err(format!("`{text}` is not an offering"));
    }
    let capacity_type = any(parts.get(2));
    if let Some(other) = capacity_type.as_deref().filter(|one| !CAPACITY_TYPES.contains(one)) {
        return Err(format!("`{other}` is not a capacity type (`{}`)", CAPACITY_TYPES.join("`, `")));
    }
    let instance_type = parts[0].to_ascii_lowercase().into();
    Ok(Refused { instance_type, zone: any(parts.get(1)), capacity_type, reservation: None })
}

/// Returns the offering with the name of its instance type as the catalogue has it. The type must exist: a typo would
/// silently have no effect.
fn known(refused: Refused, problem: &Problem, place: &str) -> Result<Refused, Failure> {
    let types = || problem.catalogues.iter().flat_map(|catalogue| catalogue.iter());
    if let Some(one) = types().find(|one| one.name.eq_ignore_ascii_case(&refused.instance_type)) {
        return Ok(Refused { instance_type: Arc::clone(&one.name), ..refused });
    }
    if types().next().is_none() {
        return Ok(refused);
    }
    let names = types().map(|one| &*one.name);
    let hint = match likeness::similar(names, &refused.instance_type).first() {
        Some(name) => format!("did you mean `{name}`? `muster types` lists all that are in use"),
        None => "`muster types` lists all that are in use".to_owned(),
    };
    Err(usage(place, &format!("there is no instance type `{}`", refused.instance_type), &hint))
}

#[cfg(test)]
mod tests {
    use muster_scheduling::model::{InstanceType, Requirements, Resources};

    use super::*;

    #[test]
    fn offerings() {
        let refused = |instance_type: &str, zone: Option<&str>, capacity_type: Option<&str>| Refused {
            instance_type: instance_type.into(),
            zone: zone.map(Into::into),
            capacity_type: capacity_type.map(Into::into),
            reservation: None,
        };
        for (text, expected) in [
            ("m7g.large", refused("m7g.large", None, None)),
            ("m7g.large/us-east-1a", refused("m7g.large", Some("us-east-1a"), None)),
            ("m7g.large/*/Spot", refused("m7g.large", None, Some("spot"))),
            ("m7g.large/us-east-1a/on-demand", refused("m7g.large", Some("us-east-1a"), Some("on-demand"))),
        ] {
            assert_eq!(Refusals::new(text).unwrap(), Refusals::One(expected), "{text}");
        }
        assert_eq!(Refusals::new("@a/b/c").unwrap(), Refusals::File("a/b/c".into()));
        for text in ["", "*", "a//spot", "a/b/c/d", "a/b/cheap", "/a"] {
            assert_eq!(Refusals::new(text).unwrap_err().exit_code(), 2, "{text}");
        }
    }
    #[test]
    fn a_type_has_the_name_of_the_catalogue_however_it_is_written() {
        let one = |name: &str| InstanceType {
            name: name.into(),
            requirements: Requirements::default(),
            capacity: Resources::default(),
            overhead: Resources::default(),
            offerings: Vec::new(),
        };
        let mut problem = Problem::default();
        problem.catalogues.push(["m7g.large", "Rack-8CPU"].map(one).into_iter().collect());
        for (text, expected) in [("M7G.large", "m7g.large"), ("rack-8cpu/a", "Rack-8CPU"), ("Rack-8CPU", "Rack-8CPU")] {
            let refused = read(&[Refusals::new(text).unwrap()], &problem).unwrap();
            assert_eq!(&*refused[0].instance_type, expected, "{text}");
        }
        assert!(read(&[Refusals::new("rack-9cpu").unwrap()], &problem).is_err());
        let any = read(&[Refusals::new("rack-9cpu").unwrap()], &Problem::default()).unwrap();
        assert_eq!(&*any[0].instance_type, "rack-9cpu", "without a catalogue it is as written");
    }
}
