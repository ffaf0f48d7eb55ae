//! Derives the report from the observations.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use muster_bootstrap::agent_config::Mode;
use muster_bootstrap::finding::{Finding, Severity};
use muster_bootstrap::place::Source;
use muster_bootstrap::verdicts::{self, Verdict};

use super::{
    BootState, KUBELET_STARTS_IN, LINE_COUNTS_FOR, LOOKS_IN, LOST_FOR, LogMatch, MANY_RESTARTS, Notice, SCRIPT_RUNS_IN,
};
use crate::devices::chain;
use crate::patience::PATIENCE_WITH_PODS;
use crate::phase::{Phase, Progress};
use crate::preflight::way;
use crate::report::{self, PhaseReport, Report, Resource, Weight};
use crate::watch::node_rules;
use crate::watch::units::Unit;

/// Verdicts on symptoms. Their errors are dropped if another error explains them.
const CONSEQUENCES: [&str; 6] = ["KA37", "UD12", "CR02", "KA38", "CN01", "CN15"];

impl BootState {
    /// Returns the report at `now`.
    #[must_use]
    pub fn report(&mut self, now: Timestamp) -> Report {
        self.forget_what_is_past();
        let (devices, device_findings) = self.devices(now);
        let mut findings = self.findings(now);
        findings.extend(device_findings.into_iter().map(|finding| (Phase::Devices, finding)));
        let mut told = BTreeSet::new();
        findings.retain(|(_, it)| told.insert((it.verdict.code, it.message.clone())));
        let explained = findings.iter().any(|(_, it)| it.severity == Severity::Error && !is_consequence(it));
        findings.retain(|(_, it)| !(explained && is_consequence(it) && it.severity == Severity::Error));
        // Among faults, the earliest stage is the cause. Among findings that only wait, the last stage shows how far
        // the node is.
        let order = |(phase, it): &(Phase, Finding)| match it.severity {
            Severity::Info => (it.severity, false, Phase::Initialized as usize - *phase as usize),
            severity => (severity, is_consequence(it), *phase as usize),
        };
        findings.sort_by_key(order);
        let keys: BTreeSet<_> = findings.iter().map(|(_, it)| (it.verdict.code, it.message.clone())).collect();
        self.since.retain(|key, _| keys.contains(key));
        for key in keys {
            self.since.entry(key).or_insert(now);
        }
        let since = |it: &Finding| self.since.get(&(it.verdict.code, it.message.clone())).copied().unwrap_or(now);
        let said: Vec<_> = findings.iter().map(|(phase, it)| report::Verdict::new(it, *phase, since(it))).collect();
        let phases = self.phases(&findings, &devices, now);
        let phase = phases.iter().find(|it| it.state != Progress::Done).map_or(Phase::Initialized, |it| it.name);
        Report {
            api_version: "muster.dev/v1".to_owned(),
            kind: "NodeReport".to_owned(),
            node: self.node.as_ref().map(|node| node.name.clone()).or_else(|| self.node_name().map(ToOwned::to_owned)),
            instance_id: self.instance_id.clone(),
            mode: self.mode,
            report_only: self.report_only,
            phase,
            waiting_for: self.waiting_for(phase),
            phases,
            // Informational findings about the machine are not a verdict on the node.
            verdict: said.iter().find(|it| it.severity != Weight::Info || it.phase != Phase::Preflight).cloned(),
            findings: said,
            held: self.held,
            devices,
            boot_id: self.boot_id.clone(),
            not_on_this_platform: self.platform.lacks().iter().map(|it| (*it).to_owned()).collect(),
            changed: now,
        }
    }

    /// Returns the findings that hold at `now`, with the stage that each concerns.
    fn findings(&self, now: Timestamp) -> Vec<(Phase, Finding)> {
        let mut found = Vec::new();
        if let Some(preflight) = &self.preflight {
            // Preflight errors are moot once the kubelet is healthy and the Node exists.
            let is_past =
                self.is_kubelet_well() && (self.node.is_some() || self.is_yet_to_look(now) && self.has_joined);
            let findings = preflight.findings.iter().filter(|it| !is_past || it.severity != Severity::Error);
            // Once the Node exists, the chain is followed as a whole.
            let is_followed = self.node.is_some() && self.devices.is_some();
            let findings = findings.filter(|it| !is_followed || !chain::OF_DRIVERS.contains(&it.verdict.code));
            found.extend(findings.map(|finding| (Phase::Preflight, finding.clone())));
        }
        if let Some(Err(finding)) = &self.native {
            found.push((Phase::Bootstrap, finding.clone()));
        }
        for log_match in self.log_matches.values().filter(|log_match| self.counts(log_match, now)) {
            let signature = log_match.signature;
            let place = Source::whole(format!("{} of {}", self.platform.log(), log_match.unit)).anywhere();
            let finding = Finding::new(signature.verdict, signature.verdict.title, Some((place, &log_match.text)));
            found.push((phase_of(&log_match.unit, signature.clears), finding));
        }
        found.extend(self.unit_findings(now));
        if let Some(node) = &self.node {
            let lost = self.lost.iter().filter(|(_, since)| now.duration_since(*since) >= LOST_FOR);
            found.extend(lost.flat_map(|(way, _)| way::check(way, now)).map(|it| (Phase::Registered, it)));
            let expect = self.expect();
            let is_late = self.is_late(now);
            found.extend(self.lost_taints.iter().map(|it| (Phase::Registered, it.clone())));
            let faults = node_rules::faults(node, self.instance_id.as_deref());
            found.extend(faults.into_iter().map(|it| (Phase::Registered, it)));
            let waits = node_rules::waits(node, &expect, is_late);
            found.extend(waits.into_iter().map(|it| (Phase::Initialized, it)));
        }
        if let Some(notice) = &self.notice {
            let place = Source::whole("instance metadata").anywhere();
            let message = match notice {
                Notice::Interruption(_) => Notice::INTERRUPTION,
                Notice::Rebalance(_) => Notice::REBALANCE,
            };
            let finding = Finding::new(&verdicts::EX03, message, Some((place, notice.words())));
            found.push((Phase::Initialized, finding));
        }
        found
    }

    /// Returns true if [`PATIENCE_WITH_PODS`] has passed since the Node registered.
    fn is_late(&self, now: Timestamp) -> bool {
        let from = self.times.get(&Phase::Registered).and_then(|(_, ended)| *ended);
        from.is_some_and(|from| now.duration_since(from) >= PATIENCE_WITH_PODS)
    }

    /// Drops journal lines whose stage is done. They do not return if the stage has to be done again.
    fn forget_what_is_past(&mut self) {
        let is_well = self.is_kubelet_well();
        let has_node = is_well && self.node.is_some();
        let is_initialized = self.node.as_ref().is_some_and(|node| node_rules::is_initialized(node, &self.expect()));
        self.log_matches.retain(|_, log_match| match log_match.signature.clears {
            clears if clears <= Phase::Kubelet => !is_well,
            clears if clears <= Phase::Registered => !has_node,
            clears => !(clears == Phase::Initialized && is_initialized),
        });
    }

    /// Returns true if a journal line counts: it has repeated for longer than in a healthy boot and is recent.
    fn counts(&self, log_match: &LogMatch, now: Timestamp) -> bool {
        if log_match.last < self.started && self.is_over(log_match, now) {
            return false;
        }
        // Without patience one line suffices, and it counts until the stage is done.
        let is_immediate = log_match.signature.patience == SignedDuration::ZERO;
        let is_recent = now.duration_since(log_match.last) < LINE_COUNTS_FOR;
        let has_lasted = log_match.last.duration_since(log_match.first) >= log_match.signature.patience;
        is_immediate || (is_recent && has_lasted)
    }

    /// Returns true if a line from before the agent's start is about a fault that is over, or that may be over as long
    /// as the current state is unknown.
    fn is_over(&self, log_match: &LogMatch, now: Timestamp) -> bool {
        let clears = log_match.signature.clears;
        let is_unseen = self.health.is_none() || (clears > Phase::Kubelet && self.is_yet_to_look(now));
        // The predecessor saw the stage done after the line was written.
        let ended = self.times.get(&clears.max(Phase::Kubelet)).and_then(|(_, ended)| *ended);
        let was_cleared = ended.is_some_and(|ended| ended >= log_match.last);
        // The unit was stopped or started since by someone other than systemd. An automatic restart by systemd changes
        // nothing.
        let has_stopped = self.units.get(&log_match.unit).is_some_and(|unit| {
            let is_as_it_was = unit.restarts > 0 || unit.has_failed() || unit.is_restarting();
            let is_another = unit.began.zip(log_match.uptime).is_some_and(|(began, said)| began > said);
            !is_as_it_was && (is_another || !unit.is_active())
        });
        is_unseen || was_cleared || has_stopped
    }

    /// Returns true if the agent has just started and does not know yet whether the Node exists.
    fn is_yet_to_look(&self, now: Timestamp) -> bool {
        !self.has_looked_for_node && now.duration_since(self.started) < LOOKS_IN
    }

    fn unit_findings(&self, now: Timestamp) -> Vec<(Phase, Finding)> {
        let mut found = Vec::new();
        if self.health.is_none() {
            // Restarts from before the agent's start prove nothing while the kubelet may be healthy.
            return found;
        }
        let mut say = |phase, verdict: &'static Verdict, message: &str, unit: &Unit| {
            let place = Source::whole(format!("{} {}", self.platform.service(), unit.name)).anywhere();
            let text = format!("{} ({}), {} restarts, status {}", unit.active, unit.sub, unit.restarts, unit.status);
            found.push((phase, Finding::new(verdict, message, Some((place, &text)))));
        };
        for name in ["nodeadm-config", "nodeadm-run", "cloud-final"] {
            if let Some(unit) = self.units.get(name).filter(|unit| unit.has_failed() && !self.is_kubelet_well()) {
                say(Phase::Bootstrap, &verdicts::UD12, &format!("`{name}` has failed"), unit);
            }
        }
        let Some(kubelet) = self.units.get("kubelet") else { return found };
        if let Some(script) = self.units.get("eks-bootstrap")
            && !kubelet.exists
            && now.duration_since(self.started) >= SCRIPT_RUNS_IN
        {
            let (verdict, message) = if script.exists {
                (&verdicts::WN08, "Start-EKSBootstrap.ps1 has run, and there is no kubelet")
            } else {
                (&verdicts::WN09, "nothing has called Start-EKSBootstrap.ps1")
            };
            say(Phase::Bootstrap, verdict, message, kubelet);
        }
        if let Some(scripts) = self.units.get("cloud-final")
            && scripts.active == "activating"
            && !kubelet.was_started
            && now.duration_since(self.started) >= PATIENCE_WITH_PODS
        {
            say(Phase::Bootstrap, &verdicts::UD15, "user data still runs", scripts);
        }
        if let Some(containerd) = self.units.get("containerd").filter(|unit| unit.exists)
            && kubelet.was_started
            && (containerd.has_failed() || containerd.is_restarting() || containerd.active == "inactive")
        {
            say(Phase::Kubelet, &verdicts::CR02, "containerd does not run", containerd);
        }
        let has_lasted = |since: Timestamp| now.duration_since(since) >= KUBELET_STARTS_IN;
        let keeps_exiting = kubelet.restarts >= self.settled_restarts.saturating_add(MANY_RESTARTS)
            || self.exited_since.is_some_and(has_lasted);
        if keeps_exiting && !self.is_kubelet_well() {
            say(Phase::Kubelet, &verdicts::KA37, "the kubelet has ended and is started again", kubelet);
        } else if self.unwell_since.is_some_and(has_lasted) {
            say(Phase::Kubelet, &verdicts::KA38, "the kubelet's health port does not say ok", kubelet);
        }
        found
    }

    /// Returns the resources with the first broken link of each. Links that may be late are faults once they have been
    /// broken for a while, also after a restart of the kubelet or of a plugin.
    fn devices(&mut self, now: Timestamp) -> (Vec<Resource>, Vec<Finding>) {
        let Some(sightings) = &self.devices else { return (Vec::new(), Vec::new()) };
        let mut sightings = sightings.clone();
        sightings.allocatable = self.node.as_ref().map(|node| node.allocatable.clone());
        sightings.capacity = self.node.as_ref().map(|node| node.capacity.clone());
        // Before the Node exists, the preflight has reported what is known.
        let has_node = self.node.is_some();
        let (mut resources, mut findings) = (Vec::new(), Vec::new());
        for (name, wanted) in self.expect().resources {
            let known = self.broken_since.remove(&name);
            let lasted = |link: &str| match &known {
                Some((broken, since)) if chain::is_alike(broken, link) => now.duration_since(*since),
                _ => SignedDuration::ZERO,
            };
            let (resource, finding) = chain::follow(&name, wanted, &sightings, lasted);
            if let Some(link) = resource.broken.clone().filter(|_| has_node) {
                let since = known.filter(|(broken, _)| chain::is_alike(broken, &link)).map_or(now, |(_, since)| since);
                self.broken_since.insert(name, (link, since));
            }
            resources.push(resource);
            findings.extend(finding.filter(|_| has_node));
        }
        (resources, findings)
    }

    fn phases(&mut self, findings: &[(Phase, Finding)], devices: &[Resource], now: Timestamp) -> Vec<PhaseReport> {
        let mut reports = Vec::new();
        let mut is_open = true;
        for phase in Phase::ALL {
            let has_error = findings.iter().any(|(of, it)| *of == phase && it.severity == Severity::Error);
            let holds = self.holds(phase, devices) && !has_error;
            let (began, ended) = self.times.entry(phase).or_default();
            if is_open {
                began.get_or_insert(now);
            }
            let state = match (is_open, holds, has_error) {
                (_, _, true) => Progress::Failed,
                (true, true, false) => Progress::Done,
                (true, false, false) => Progress::Running,
                (false, _, false) => Progress::Pending,
            };
            if state == Progress::Done {
                ended.get_or_insert(now);
            }
            reports.push(PhaseReport { name: phase, state, began: *began, ended: *ended });
            is_open = is_open && state == Progress::Done;
        }
        reports
    }

    /// Returns true if the condition of a stage holds, regardless of the earlier stages.
    fn holds(&self, phase: Phase, devices: &[Resource]) -> bool {
        match phase {
            Phase::Preflight => self.preflight.is_some() && !self.held,
            Phase::Bootstrap => match (self.mode, &self.native) {
                (Mode::Native, outcome) => matches!(outcome, Some(Ok(()))),
                (Mode::Delegate, _) => {
                    self.units.get("kubelet").is_some_and(|unit| unit.was_started || unit.is_active())
                }
            },
            Phase::Kubelet => self.is_kubelet_well(),
            Phase::Registered => self.node.is_some(),
            Phase::Devices => {
                self.expect().resources.is_empty()
                    || (self.devices.is_some()
                        && devices.iter().all(|it| it.allocatable.is_some_and(|number| number >= it.wanted)))
            }
            Phase::Initialized => {
                self.node.as_ref().is_some_and(|node| node_rules::is_initialized(node, &self.expect()))
            }
        }
    }

    fn waiting_for(&self, phase: Phase) -> Option<String> {
        Some(match phase {
            Phase::Preflight if self.held => "the fault that holds the kubelet back to be mended".to_owned(),
            Phase::Preflight => "the checks to end".to_owned(),
            Phase::Bootstrap if self.mode == Mode::Native => "the kubelet's files to be written".to_owned(),
            Phase::Bootstrap => "the image's bootstrap to start the kubelet".to_owned(),
            Phase::Kubelet => "the kubelet to say that it is well".to_owned(),
            Phase::Registered => "the kubelet to register the node".to_owned(),
            Phase::Devices => "device plugins to offer what was asked for".to_owned(),
            Phase::Initialized => {
                let node = self.node.as_ref()?;
                if node.is("Ready", "True") {
                    let expect = self.expect();
                    let (taint, owner) = node_rules::startup_taints(node, &expect).into_iter().next()?;
                    format!("{owner}, to take off `{taint}`")
                } else {
                    "the node to be Ready".to_owned()
                }
            }
        })
    }
}

fn is_consequence(finding: &Finding) -> bool {
    CONSEQUENCES.contains(&finding.verdict.code)
}

/// Returns the stage that a journal line of `unit` belongs to.
fn phase_of(unit: &str, clears: Phase) -> Phase {
    match unit {
        "kubelet" | "containerd" | "kube-proxy" => clears.min(Phase::Registered).max(Phase::Kubelet),
        _ => Phase::Bootstrap,
    }
}
