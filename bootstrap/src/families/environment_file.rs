//! Environment file of the kubelet's unit: nodeadm's variable, which holds all arguments, or the variables of AL2,
//! which the unit adds to its own arguments.

use crate::family::Family;
use crate::finding::Findings;
use crate::input::File;
use crate::parsed::{Argument, ParsedBootstrap};
use crate::place::{Lines, Source, line_text};
use crate::verdicts;
use crate::words::systemd::{Variable, environment_file, last, split_value};

const OF_NODEADM: &str = "NODEADM_KUBELET_ARGS";
const OF_AL2: [&str; 2] = ["KUBELET_ARGS", "KUBELET_EXTRA_ARGS"];

/// Reads the arguments of a file. They apply on the machine, so they replace the arguments that result from the user
/// data.
pub(crate) fn read(file: &File, family: Family, bootstrap: &mut ParsedBootstrap, findings: &mut Findings) {
    let source = Source::whole(file.name.as_str());
    let variables = environment_file(&file.text);
    let lines = Lines::new(&file.text);
    // A unit expands only its own variables. For any other image, the file itself shows which ones these are.
    let is_of_al2023 = match family {
        Family::Al2023 => true,
        Family::Al2 => false,
        _ => last(&variables, OF_NODEADM).is_some(),
    };
    let names: &[&str] = if is_of_al2023 { &[OF_NODEADM] } else { &OF_AL2 };
    bootstrap.configures_kubelet = true;
    bootstrap.is_of_one_machine = true;
    // A file without these variables leaves an AL2023 kubelet without arguments. The unit of AL2 has its own.
    let is_empty = names.iter().all(|name| last(&variables, name).is_none());
    bootstrap.has_all_arguments = is_of_al2023 || (is_empty && family != Family::Al2);
    bootstrap.arguments.clear();
    for name in names {
        for word in last(&variables, name).map(|variable| split_value(&variable.value)).unwrap_or_default() {
            let place = source.at(lines.of(word.at));
            bootstrap.arguments.push(Argument { text: word.text, place, is_open: false });
        }
    }
    for name in OF_AL2.into_iter().filter(|_| is_of_al2023) {
        let Some(first) = last(&variables, name).and_then(|variable| variable.value.first()) else { continue };
        let line = lines.of(first.at);
        let message = format!("`{name}` is a variable of AL2; the kubelet's unit of AL2023 does not read it");
        findings.add(&verdicts::UD35, message, source.at(line), line_text(&file.text, line));
    }
    lost(&file.text, &variables, &source, bootstrap, findings);
}

/// Reports lines that begin like arguments but are part of no value, because a line end cuts them off.
fn lost(text: &str, variables: &[Variable], source: &Source, bootstrap: &mut ParsedBootstrap, findings: &mut Findings) {
    let mut at = 0;
    for (index, line) in text.split('\n').enumerate() {
        let start = at + line.len() - line.trim_start().len();
        at += line.len() + 1;
        let is_in_value = || variables.iter().any(|variable| variable.value.iter().any(|letter| letter.at == start));
        if !line.trim_start().starts_with("--") || is_in_value() {
            continue;
        }
        let place = source.at(index + 1);
        let name = line.trim().split(['=', ' ']).next().unwrap_or_default();
        bootstrap.lose(line.trim(), &place);
        findings.add(&verdicts::KA05, format!("a line end in the environment file loses `{name}`"), place, line.trim());
    }
}
