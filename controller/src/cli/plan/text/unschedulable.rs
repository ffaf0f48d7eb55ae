//! Text of pending pods: by reason, and by cause within a reason, with a few pods of each.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;

use super::super::super::palette::Palette;
use super::super::super::printable::plain_name;
use super::super::document::{PoolVerdict, RemarkDocument, UnschedulablePod};
use super::super::workload::WorkloadCounts;
use super::counted;

/// Maximum number of causes that are all shown in full; if there are more, [`CAUSES`] per reason and a count of the
/// others.
const ALL_CAUSES: usize = 12;
const CAUSES: usize = 3;

/// Maximum number of NodePools per cause in a plan; an explanation shows all.
const POOLS: usize = 3;

/// Cause that pending pods share.
type Cause<'p> = (&'p str, &'p [PoolVerdict], &'p [RemarkDocument]);

/// Names of the pods of each cause.
type Causes<'p> = Vec<(Cause<'p>, Vec<&'p str>)>;

pub(super) fn render(pods: &[UnschedulablePod], palette: Palette) -> String {
    let mut text = String::new();
    let mut is_cut = false;
    let reasons = by_reason(pods);
    let all: usize = reasons.iter().map(|(_, causes)| causes.len()).sum();
    let told = if all <= ALL_CAUSES { ALL_CAUSES } else { CAUSES };
    for (reason, causes) in reasons {
        for ((message, verdicts, remarks), names) in causes.iter().take(told) {
            let more = match names.len() {
                1 => String::new(),
                count => format!(" and {} more: {}", count - 1, WorkloadCounts::new(names.iter().copied())),
            };
            let first = names.first().copied().unwrap_or_default();
            let _ = writeln!(text, "  {}{more}", palette.strong(plain_name(first)));
            text.push_str(&cause_lines(reason, message, verdicts, palette));
            text.push_str(&remark_lines(remarks, palette));
        }
        let rest = &causes[causes.len().min(told)..];
        if let Some(first) = rest.first().and_then(|(_, names)| names.first()) {
            let names: Vec<&str> = rest.iter().flat_map(|(_, names)| names).copied().collect();
            let (pods, causes) = (counted(names.len(), "more pod"), counted(rest.len(), "other cause"));
            let _ = writeln!(text, "  {pods} for {causes}: {}", WorkloadCounts::new(names.iter().copied()));
            let first = plain_name(first);
            let _ =
                writeln!(text, "    {}: `muster explain pod {first}` explains the first of them", palette.bad(reason));
            is_cut = true;
        }
    }
    if is_cut {
        let _ = writeln!(text, "  `muster plan -o json` lists every pod with its reason");
    }
    text
}

/// Groups pods by reason, in the order of their first pod, and by cause, those with most pods first.
fn by_reason(pods: &[UnschedulablePod]) -> Vec<(&'static str, Causes<'_>)> {
    let mut reasons: Vec<(&'static str, Causes<'_>)> = Vec::new();
    let mut places: HashMap<(&'static str, Cause<'_>), (usize, usize)> = HashMap::new();
    for pod in pods {
        let UnschedulablePod { pod: name, reason, message, node_pools, warnings } = pod;
        let cause: Cause<'_> = (message.as_str(), node_pools.as_slice(), warnings.as_slice());
        let (reason, place) = match places.get(&(*reason, cause)) {
            Some(place) => *place,
            None => {
                let at = reasons.iter().position(|(known, _)| known == reason).unwrap_or(reasons.len());
                if at == reasons.len() {
                    reasons.push((reason, Vec::new()));
                }
                let place = (at, reasons[at].1.len());
                reasons[at].1.push((cause, Vec::new()));
                places.insert((*reason, cause), place);
                place
            }
        };
        reasons[reason].1[place].1.push(name);
    }
    for (_, causes) in &mut reasons {
        causes.sort_by_key(|(_, names)| std::cmp::Reverse(names.len()));
    }
    reasons
}

/// Formats the verdict of the pool that the message names, and of the others if they are few.
fn nearest_pools(verdicts: &[PoolVerdict], told: &str, palette: Palette) -> String {
    if by_verdict(verdicts).len() <= POOLS {
        return verdict_lines(verdicts, told, palette);
    }
    let nearest = verdicts.iter().find(|verdict| told.contains(&format!("nodepool {:?}", verdict.node_pool)));
    nearest.map_or_else(String::new, |nearest| verdict_lines(std::slice::from_ref(nearest), told, palette))
}

/// Formats a cause: the verdict of the nearest pool in one line, with its hint, then the other pools, if they are few.
/// Pools whose taints keep the pod away are only named: they are meant for other pods.
fn cause_lines(reason: &str, message: &str, verdicts: &[PoolVerdict], palette: Palette) -> String {
    let prefix =
        |verdict: &PoolVerdict| format!("incompatible with nodepool {:?}, {}", verdict.node_pool, verdict.message);
    let nearest = verdicts.iter().find(|verdict| message.starts_with(&prefix(verdict)));
    let Some(nearest) = nearest else {
        let told = plain_name(message);
        return format!("    {}: {told}\n{}", palette.bad(reason), nearest_pools(verdicts, message, palette));
    };
    let is_same = |verdict: &&PoolVerdict| (verdict.reason, &verdict.message) == (nearest.reason, &nearest.message);
    let (same, others): (Vec<&PoolVerdict>, Vec<&PoolVerdict>) = verdicts.iter().partition(is_same);
    let (tainted, others): (Vec<&PoolVerdict>, Vec<&PoolVerdict>) =
        others.into_iter().partition(|verdict| verdict.reason == "Taints");
    let others: Vec<PoolVerdict> = others.into_iter().cloned().collect();
    let is_short = by_verdict(&others).len() < POOLS;
    let rest = &message[prefix(nearest).len()..];
    let rest = if is_short && rest.contains(" other nodepool") { "" } else { rest };
    // Karpenter's messages about limits have the colon.
    let names_it = ["nodepool", "nodepool:"]
        .iter()
        .any(|noun| nearest.message.contains(&format!("{noun} {:?}", nearest.node_pool)));
    let pools = if names_it { String::new() } else { format!(" ({})", named(&same)) };
    let told = plain_name(&format!("{}{pools}{rest}", nearest.message));
    let mut text = format!("    {}: {told}\n", palette.bad(reason));
    text.push_str(&advice_lines(nearest, palette));
    if is_short {
        text.push_str(&verdict_lines(&others, "", palette));
        if !tainted.is_empty() {
            let names = plain_name(&named(&tainted));
            let _ = writeln!(text, "    the pod does not tolerate the taints of {names}");
        }
    }
    text
}

/// Formats `nodepool a`, `nodepools a, b`.
fn named(verdicts: &[&PoolVerdict]) -> String {
    let names: Vec<&str> = verdicts.iter().map(|verdict| verdict.node_pool.as_str()).collect();
    format!("{} {}", if names.len() == 1 { "nodepool" } else { "nodepools" }, names.join(", "))
}

/// Groups equal verdicts with the names of their pools.
fn by_verdict(verdicts: &[PoolVerdict]) -> Vec<(&PoolVerdict, Vec<&str>)> {
    let mut groups: Vec<(&PoolVerdict, Vec<&str>)> = Vec::new();
    let mut places: BTreeMap<_, usize> = BTreeMap::new();
    for verdict in verdicts {
        let PoolVerdict { node_pool, reason, message, nearest, hint } = verdict;
        let place = *places.entry((*reason, message, nearest, hint)).or_insert(groups.len());
        match groups.get_mut(place) {
            Some((_, pools)) => pools.push(node_pool),
            None => groups.push((verdict, vec![node_pool])),
        }
    }
    groups
}

/// Formats the verdict of each pool; pools with equal verdicts share a line. A message that is contained in `told` is
/// not repeated.
pub(crate) fn verdict_lines(verdicts: &[PoolVerdict], told: &str, palette: Palette) -> String {
    let mut text = String::new();
    let groups = by_verdict(verdicts);
    for (verdict, pools) in &groups {
        let PoolVerdict { reason, message, .. } = verdict;
        if groups.len() > 1 || !told.contains(message.as_str()) {
            let noun = if pools.len() == 1 { "nodepool" } else { "nodepools" };
            let line = plain_name(&format!("in {noun} {}: {reason}: {message}", pools.join(", ")));
            let _ = writeln!(text, "    {line}");
        }
        text.push_str(&advice_lines(verdict, palette));
    }
    text
}

/// Formats what nearly fits, and the hint of a verdict.
fn advice_lines(verdict: &PoolVerdict, palette: Palette) -> String {
    let mut text = String::new();
    if let Some(nearest) = &verdict.nearest {
        let _ = writeln!(text, "      nearest: {}", plain_name(nearest));
    }
    if let Some(hint) = &verdict.hint {
        let _ = writeln!(text, "      {}", palette.advice(format!("hint: {}", plain_name(hint))));
    }
    text
}

/// Formats the warnings for the pod's author.
pub(crate) fn remark_lines(remarks: &[RemarkDocument], palette: Palette) -> String {
    let mut text = String::new();
    for RemarkDocument { reason, message, hint } in remarks {
        let _ = writeln!(text, "    {}: {}", palette.doubtful(reason), plain_name(message));
        let _ = writeln!(text, "      {}", palette.advice(format!("hint: {}", plain_name(hint))));
    }
    text
}
