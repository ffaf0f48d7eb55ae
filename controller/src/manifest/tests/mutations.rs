//! Broken manifests of every kind: whatever the bytes are, the answer is a value or an error, never a panic.

use crate::manifest::{read, read_text};
use crate::snapshot::{Settings, assemble};

/// A small generator of numbers (xorshift), so that a failure can be had again from its seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 16).unwrap_or(0) % sides.max(1)
    }
}

/// One object of nearly every kind, with most of the fields that are read.
const OBJECTS: [&str; 14] = [
    r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","labels":{"app":"a"},"ownerReferences":[{"kind":"ReplicaSet","name":"w","controller":true}]},"spec":{"nodeName":"n","containers":[{"name":"c","resources":{"requests":{"cpu":"250m","memory":"1Gi"},"limits":{"cpu":1}},"ports":[{"hostPort":80,"hostIP":"::","protocol":"UDP"}]}],"initContainers":[{"name":"i","restartPolicy":"Always"}]},"status":{"phase":"Running","containerStatuses":[{"name":"c","allocatedResources":{"cpu":"1"}}]}}"#,
    r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"b"},"spec":{"containers":[{"name":"c"}],"nodeSelector":{"a":"b"},"tolerations":[{"key":"a","operator":"Exists"}],"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"a","operator":"Gt","values":["1"]}]}]}},"podAntiAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":1,"podAffinityTerm":{"topologyKey":"z","labelSelector":{"matchLabels":{"a":"b"}},"namespaceSelector":{}}}]}}}}"#,
    r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"w"},"spec":{"replicas":3,"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c"}],"topologySpreadConstraints":[{"maxSkew":1,"topologyKey":"z","whenUnsatisfiable":"DoNotSchedule","matchLabelKeys":["a"]}]}}}}"#,
    r#"{"apiVersion":"apps/v1","kind":"StatefulSet","metadata":{"name":"s"},"spec":{"replicas":2,"volumeClaimTemplates":[{"metadata":{"name":"d"},"spec":{"storageClassName":"fast"}}],"template":{"spec":{"containers":[{"name":"c"}],"volumes":[{"name":"e","ephemeral":{"volumeClaimTemplate":{"spec":{}}}},{"name":"f","persistentVolumeClaim":{"claimName":"q"}}]}}}}"#,
    r#"{"apiVersion":"batch/v1","kind":"CronJob","metadata":{"name":"j"},"spec":{"schedule":"@daily","jobTemplate":{"spec":{"parallelism":2,"completions":3,"template":{"spec":{"containers":[{"name":"c"}],"priorityClassName":"p","runtimeClassName":"r"}}}}}}"#,
    r#"{"apiVersion":"v1","kind":"Node","metadata":{"name":"n","labels":{"karpenter.sh/nodepool":"g"}},"spec":{"providerID":"x","taints":[{"key":"a","effect":"NoSchedule"}]},"status":{"capacity":{"cpu":"4"},"allocatable":{"cpu":"3900m","memory":"8Gi","pods":"10"}}}"#,
    r#"{"apiVersion":"karpenter.sh/v1","kind":"NodePool","metadata":{"name":"g"},"spec":{"weight":1,"limits":{"cpu":"10"},"template":{"spec":{"requirements":[{"key":"kubernetes.io/arch","operator":"In","values":["amd64"],"minValues":1}],"nodeClassRef":{"group":"karpenter.k8s.aws","kind":"EC2NodeClass","name":"d"}}}}}"#,
    r#"{"apiVersion":"karpenter.sh/v1","kind":"NodeClaim","metadata":{"name":"k","labels":{"karpenter.sh/nodepool":"g"}},"spec":{"requirements":[{"key":"a","operator":"In","values":["b"]}],"nodeClassRef":{"group":"karpenter.k8s.aws","kind":"EC2NodeClass","name":"d"}},"status":{"providerID":"x","allocatable":{"cpu":"1"}}}"#,
    r#"{"apiVersion":"autoscaling.x-k8s.io/v1beta1","kind":"CapacityBuffer","metadata":{"name":"u"},"spec":{"scalableRef":{"kind":"Deployment","name":"w"},"replicas":2,"percentage":50,"limits":{"cpu":"1"}}}"#,
    r#"{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"q","annotations":{"pv.kubernetes.io/bind-completed":"yes"}},"spec":{"volumeName":"v","resources":{"requests":{"storage":"1Gi"}}}}"#,
    r#"{"apiVersion":"v1","kind":"PersistentVolume","metadata":{"name":"v"},"spec":{"csi":{"driver":"ebs.csi.aws.com"},"nodeAffinity":{"required":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"z","operator":"In","values":["a","b"]}]}]}}}}"#,
    r#"{"apiVersion":"storage.k8s.io/v1","kind":"StorageClass","metadata":{"name":"fast"},"provisioner":"ebs.csi.aws.com","volumeBindingMode":"WaitForFirstConsumer","allowedTopologies":[{"matchLabelExpressions":[{"key":"z","values":["a"]}]}]}"#,
    r#"{"apiVersion":"storage.k8s.io/v1","kind":"CSINode","metadata":{"name":"n"},"spec":{"drivers":[{"name":"ebs.csi.aws.com","allocatable":{"count":25}}]}}"#,
    r#"{"apiVersion":"v1","kind":"LimitRange","metadata":{"name":"l"},"spec":{"limits":[{"type":"Container","default":{"cpu":"1"},"min":{"memory":"1Mi"}}]}}"#,
];

/// What is put in the place of something else; the first nine are values.
const SPLINTERS: [&str; 24] = [
    "null",
    "{}",
    "[]",
    "-1",
    "0",
    "1e400",
    "99999999999999999999",
    "\"\"",
    "true",
    "{",
    "}",
    "[",
    "]",
    "\"",
    ",",
    ":",
    "\0",
    "é",
    "\u{feff}",
    "\\u0000",
    "- ",
    "\n---\n",
    "&a *a",
    "\"9e999\"",
];

/// The text with one to three places changed.
fn mutate(text: &str, dice: &mut Dice) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    for _ in 0..=dice.roll(2) {
        let from = dice.roll(bytes.len());
        let to = (from + dice.roll(12)).min(bytes.len());
        match dice.roll(12) {
            0 => drop(bytes.drain(from..to)),
            1 => {
                let part = bytes[from..to].to_vec();
                let at = dice.roll(bytes.len());
                bytes.splice(at..at, part);
            }
            2 => {
                if let Some(byte) = bytes.get_mut(from) {
                    *byte = u8::try_from(dice.roll(256)).unwrap();
                }
            }
            3 => bytes.truncate(from.max(1)),
            _ => {
                // A whole value, so that the text stays well formed and the decoders get to see it.
                let well_formed = if dice.roll(8) == 0 { SPLINTERS.len() } else { 9 };
                let splinter = SPLINTERS[dice.roll(well_formed)].bytes();
                let start = bytes[..from].iter().rposition(|byte| *byte == b':').map_or(from, |at| at + 1);
                let end = start + value_length(&bytes[start..]);
                bytes.splice(start..end, splinter);
            }
        }
    }
    bytes
}

/// How long the value is that the text begins with.
fn value_length(text: &[u8]) -> usize {
    let mut depth = 0_usize;
    let ends = |byte: &u8| {
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' if depth == 0 => return true,
            b'}' | b']' => depth -= 1,
            b',' => return depth == 0,
            _ => {}
        }
        false
    };
    text.iter().position(ends).unwrap_or(text.len())
}

/// Reads `count` mutations, alone or with all the objects beside them, and puts together what can be read.
fn run(seed: u64, count: usize) -> (usize, usize) {
    let mut dice = Dice(seed);
    let (mut read_well, mut refused) = (0, 0);
    for number in 0..count {
        let which = dice.roll(OBJECTS.len());
        let mut bytes = mutate(OBJECTS[which], &mut dice);
        if number % 16 == 0 {
            let others = OBJECTS.iter().enumerate().filter(|(other, _)| *other != which);
            let whole = others.map(|(_, object)| format!("\n---\n{object}")).collect::<String>();
            bytes.extend_from_slice(whole.as_bytes());
        }
        match read(&["-".into()], &mut &bytes[..]) {
            Ok(manifests) => {
                read_well += 1;
                assemble(&manifests, &Settings::default(), &|_| Vec::new()).unwrap();
            }
            Err(error) => {
                refused += 1;
                assert!(error.to_string().contains("\n\nhint: "), "{error}");
            }
        }
    }
    (read_well, refused)
}

#[test]
fn the_objects_are_sound_before_they_are_broken() {
    let manifests = read_text("input", &OBJECTS.join("\n---\n")).unwrap();
    assert_eq!(manifests.warnings, [""; 0]);
    let snapshot = assemble(&manifests, &Settings::default(), &|_| Vec::new()).unwrap();
    assert_eq!(snapshot.problem.pods.len(), 1 + 3 + 2 + 2 + 2);
}

#[test]
fn no_mutation_panics() {
    let (read_well, refused) = run(0x6d75_7374_6572, 6_000);
    // A mutator that breaks all or nothing would prove little.
    assert!(read_well > 300 && refused > 300, "{read_well} read, {refused} refused");
}

/// `cargo test --release -p muster-controller no_mutation_of_a_hundred_thousand -- --ignored`
#[test]
#[ignore = "takes a minute without optimisation"]
fn no_mutation_of_a_hundred_thousand_panics() {
    let (read_well, refused) = run(0x0061_6e74, 100_000);
    assert!(read_well > 5_000 && refused > 5_000, "{read_well} read, {refused} refused");
}
