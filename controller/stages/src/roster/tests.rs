//! A life, stage by stage, as it is read off the objects.

use muster_manifest::read_text;

use super::*;

/// A claim with these conditions (`Type=Status Reason second message`), and what else its metadata says.
fn claim(name: &str, meta: &str, conditions: &[&str]) -> String {
    let conditions: Vec<String> = conditions.iter().map(|text| condition(text)).collect();
    format!(
        "---\napiVersion: karpenter.sh/v1\nkind: NodeClaim\nmetadata: {{name: {name}, creationTimestamp: \"2026-11-23T06:00:00Z\", \
         labels: {{karpenter.sh/nodepool: general}}{meta}}}\nspec:\n  requirements: [{{key: node.kubernetes.io/instance-type, operator: \
         In, values: [m7g.large]}}]\n  nodeClassRef: {{group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}}\nstatus:\n  \
         nodeName: node-{name}\n  conditions: [{}]\n",
        conditions.join(", ")
    )
}

fn condition(text: &str) -> String {
    let (kind, rest) = text.split_once('=').unwrap();
    let mut parts = rest.splitn(4, ' ');
    let mut next = || parts.next().unwrap_or_default();
    let (status, reason, second, message) = (next(), next(), next(), next());
    format!(
        "{{type: {kind}, status: \"{status}\", reason: {reason}, message: {message:?}, lastTransitionTime: \
         \"2026-11-23T06:00:{second}Z\"}}"
    )
}

fn node(name: &str, meta: &str, ready: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: Node\nmetadata: {{name: {name}{meta}}}\nstatus:\n  conditions: [{}]\n",
        condition(&format!("Ready={ready}"))
    )
}

fn read(parts: &[String]) -> Vec<Member> {
    members(&read_text("test", &parts.concat()).unwrap())
}

/// Phase, second of its beginning, reason and message.
fn stand(parts: &[String]) -> String {
    let all = read(parts);
    assert_eq!(all.len(), 1, "{all:?}");
    let Stand { phase, since, reason, message } = &all[0].stand;
    let second = since.map_or_else(|| "-".to_owned(), |at| (at.as_second() % 60).to_string());
    let text = |text: &Option<Arc<str>>| text.as_deref().unwrap_or("-").to_owned();
    format!("{} {second} {} {}", phase.name(), text(reason), text(message))
}

const LAUNCHED: &str = "Launched=True Launched 10";
const REGISTERED: &str = "Registered=True Registered 20";
const INITIALIZED: &str = "Initialized=True Initialized 30";

#[test]
fn each_part_of_a_life_is_told_from_the_others() {
    assert_eq!(stand(&[claim("a", "", &[])]), "Launching 0 - -");
    let waits = ["Launched=Unknown LaunchesStopped 05 nothing is launched with it"];
    assert_eq!(stand(&[claim("a", "", &waits)]), "Launching 0 LaunchesStopped nothing is launched with it");
    let missing = "Registered=Unknown NodeNotFound 10 node not registered with cluster";
    assert_eq!(
        stand(&[claim("a", "", &[LAUNCHED, missing])]),
        "Launched 10 NodeNotFound node not registered with cluster"
    );
    let waits = "Initialized=Unknown AgentNotReady 20 Devices";
    assert_eq!(stand(&[claim("a", "", &[LAUNCHED, REGISTERED, waits])]), "Registered 20 AgentNotReady Devices");
    let all = [LAUNCHED, REGISTERED, INITIALIZED];
    assert_eq!(stand(&[claim("a", "", &all)]), "Initialized 30 - -", "nobody can be asked");
    let with_node = |ready: &str| stand(&[claim("a", "", &all), node("node-a", "", ready)]);
    assert_eq!(with_node("True KubeletReady 25"), "Ready 30 - -", "its kubelet was well before");
    assert_eq!(with_node("True KubeletReady 40"), "Ready 40 - -", "it has come back");
    assert_eq!(with_node("Unknown NodeStatusUnknown 50 no word"), "NotReady 50 NodeStatusUnknown no word");
    let going = [LAUNCHED, REGISTERED, INITIALIZED, "DisruptionReason=True Underutilized 45"];
    assert_eq!(stand(&[claim("a", "", &going)]), "Disrupting 45 Underutilized -");
    let going = [LAUNCHED, REGISTERED, INITIALIZED, "Interrupted=True Spot 46 in two minutes"];
    assert_eq!(stand(&[claim("a", "", &going)]), "Disrupting 46 Spot in two minutes");
    let deleted = ", finalizers: [karpenter.sh/termination], deletionTimestamp: \"2026-11-23T06:00:50Z\"";
    let draining = [LAUNCHED, REGISTERED, INITIALIZED, "Drained=Unknown Draining 51 2 pods"];
    assert_eq!(stand(&[claim("a", deleted, &draining)]), "Terminating 50 Draining 2 pods");
    let ending = [LAUNCHED, "Drained=True Drained 52", "InstanceTerminating=True InstanceTerminating 53"];
    assert_eq!(stand(&[claim("a", deleted, &ending)]), "Terminating 50 InstanceTerminating -");
    let node = node("node-a", deleted, "True KubeletReady 25");
    assert_eq!(stand(&[claim("a", "", &all), node]), "Terminating 50 - -", "its Node goes, and so does it");
}

#[test]
fn a_node_that_no_claim_stands_for_is_there_too() {
    let all = read(&[node("theirs", "", "True KubeletReady 25")]);
    assert_eq!((all[0].claim.as_deref(), &*all[0].name, all[0].stand.phase), (None, "theirs", Phase::Ready));
    let bare = "---\napiVersion: v1\nkind: Node\nmetadata: {name: bare}\n".to_owned();
    assert_eq!(stand(&[bare]), "NotReady - - -", "nobody has judged it");
}

#[test]
fn a_claim_and_its_node_are_one_by_the_instance_whatever_the_node_is_called() {
    let text = |text: String| text.replace("nodeName: node-a", "providerID: aws:///z/i-1");
    let of_instance = node("other", "", "True KubeletReady 31")
        .replace("\nstatus:", "\nspec: {providerID: \"aws:///z/i-1\"}\nstatus:");
    let all = read(&[text(claim("a", "", &[LAUNCHED, REGISTERED, INITIALIZED])), of_instance]);
    assert_eq!(all.len(), 1);
    assert_eq!((&*all[0].name, all[0].claim.as_deref(), all[0].node.as_deref()), ("other", Some("a"), Some("other")));
    assert_eq!(all[0].instance_type.as_deref(), Some("m7g.large"), "the claim leaves no choice");
}

#[test]
fn another_node_with_the_provider_id_of_a_claim_is_not_shown_for_it() {
    let with_id = |text: String, after: &str| text.replace(after, &format!("{after}\n  providerID: aws:///z/i-1"));
    let of_node = |name: &str, ready: &str| with_id(format!("{}spec:", node(name, "", ready)), "spec:") + "\n";
    let claim = with_id(claim("a", "", &[LAUNCHED, REGISTERED, INITIALIZED]), "  nodeName: node-a");
    for order in [["node-a", "other"], ["other", "node-a"]] {
        let nodes = order.map(|name| {
            of_node(name, if name == "other" { "True KubeletReady 31" } else { "False KubeletNotReady 50" })
        });
        let all = read(&[claim.clone(), nodes.concat()]);
        let own = all.iter().find(|member| member.claim.is_some()).unwrap();
        assert_eq!((own.node.as_deref(), own.stand.phase), (Some("node-a"), Phase::NotReady), "{order:?}");
        assert_eq!(all.iter().filter(|member| member.claim.is_none()).count(), 1);
    }
}

#[test]
fn a_member_has_the_uid_of_its_claim() {
    let all = read(&[claim("a", ", uid: 5b0c", &[]), node("theirs", ", uid: 7d1e", "True KubeletReady 25")]);
    assert_eq!(all.iter().map(|member| member.uid.as_deref()).collect::<Vec<_>>(), [Some("5b0c"), None]);
}

#[test]
fn an_agent_is_expected_speaks_is_there_and_falls_silent() {
    let agent = |meta: &str, conditions: &[&str]| {
        let all = read(&[claim("a", meta, conditions)]);
        all[0]
            .agent
            .as_ref()
            .map(|agent| (agent.state, agent.word().to_owned(), agent.message.as_deref().map(str::to_owned)))
    };
    assert_eq!(agent("", &[LAUNCHED]), None);
    let expected = ", annotations: {muster.dev/agent: expected}";
    assert_eq!(agent(expected, &[LAUNCHED]), Some((AgentState::Expected, "Expected".to_owned(), None)));
    let devices = "AgentReady=Unknown Devices 12 nvidia.com/gpu: no device plugin";
    let waits = Some("nvidia.com/gpu: no device plugin".to_owned());
    assert_eq!(agent(expected, &[LAUNCHED, devices]), Some((AgentState::Starting, "Devices".to_owned(), waits)));
    let there = agent("", &["AgentReady=True Initialized 30"]);
    assert_eq!(there, Some((AgentState::Ready, "Ready".to_owned(), None)));
    let silent = agent("", &["AgentReady=Unknown AgentSilent 30 not heard of"]).unwrap();
    assert_eq!((silent.0, &*silent.1), (AgentState::Silent, "Silent"));
}

#[test]
fn a_verdict_comes_with_what_is_known_of_its_code() {
    let fault = |condition: &str| read(&[claim("a", "", &[LAUNCHED, condition])])[0].fault.clone();
    let known = fault("NodeVerdict=False KA07 15 taint lost (user-data part 2, line 14); fix: cut o").unwrap();
    assert_eq!((&*known.code, known.message.as_deref()), ("KA07", Some("taint lost (user-data part 2, line 14)")));
    assert!(known.cause.is_some() && known.fix.is_some_and(|fix| fix.len() > 10), "not what was cut off");
    let newer = fault("NodeVerdict=False ZZ99 15 something new; fix: do this").unwrap();
    assert_eq!((newer.title, newer.cause, newer.fix.as_deref()), (None, None, Some("do this")));
    assert_eq!(fault("NodeVerdict=True VerdictLifted 15"), None, "it was taken back");
}

#[test]
fn what_needs_somebody_stands_first() {
    let deleted = ", deletionTimestamp: \"2026-11-23T06:00:50Z\", finalizers: [a/b]";
    let all = [LAUNCHED, REGISTERED, INITIALIZED];
    let silent = [LAUNCHED, REGISTERED, INITIALIZED, "AgentReady=Unknown AgentSilent 30"];
    let parts = [
        node("theirs", "", "True KubeletReady 05"),
        node("theirs-down", "", "False KubeletNotReady 05"),
        claim("good", "", &all),
        claim("older", "", &[LAUNCHED, REGISTERED, "Initialized=True Initialized 29"]),
        claim("going", deleted, &all),
        claim("late", "", &["Launched=True Launched 11"]),
        claim("early", "", &[LAUNCHED]),
        claim("silent", "", &silent),
        claim("broken", deleted, &[LAUNCHED, "NodeVerdict=False KA07 15 lost"]),
    ];
    let names: Vec<String> =
        read(&parts).iter().map(|member| member.name.trim_start_matches("node-").to_owned()).collect();
    let expected = ["broken", "theirs-down", "silent", "early", "late", "going", "older", "good", "theirs"];
    assert_eq!(names, expected);
}
