//! Breaking a document: first what it says, then how it is written.

use serde_json::{Map, Value, json};

/// A small generator of numbers (xorshift), so that a failure can be had again from its seed.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.max(1))
    }

    pub(crate) fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 16).unwrap_or(0) % sides.max(1)
    }

    pub(crate) fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.roll(choices.len())]
    }
}

/// Texts that are put in the place of others: words of other fields, numbers of all sizes, and letters of all sorts.
const TEXTS: [&str; 42] = [
    "",
    " ",
    "a",
    "A_b.C-9",
    "-",
    "/",
    "a/",
    "/a",
    "a/b/c",
    "..",
    "*",
    "null",
    "true",
    "0",
    "-0",
    "-1",
    "1",
    "0.5",
    "1e400",
    "1e-400",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "99999999999999999999999999999999999999999",
    "8Ei",
    "1e99999999999",
    "500m",
    "1n",
    "50%",
    "101%",
    "Never",
    "In",
    "DoesNotExist",
    "kubernetes.io/hostname",
    "topology.kubernetes.io/zone",
    "karpenter.sh/nodepool",
    "reserved",
    "z-1",
    "é\u{301}",
    "🦀",
    "\u{202e}\u{feff}\u{0}",
    "default",
];

const NUMBERS: [i64; 14] =
    [0, 1, -1, 2, 3, 100, 101, 65_536, 200_000, 200_001, 2_147_483_647, 2_147_483_648, i64::MAX, i64::MIN];

fn scalar(dice: &mut Dice) -> Value {
    match dice.roll(10) {
        0 => Value::Null,
        1 => dice.roll(2).eq(&0).into(),
        2..=4 => (*dice.pick(&NUMBERS)).into(),
        5 => (*dice.pick(&[0.5, -0.5, 1e300, -1e300, 1e-300, 9.3e18])).into(),
        6 => "x".repeat(1 << dice.roll(14)).into(),
        _ => (*dice.pick(&TEXTS)).into(),
    }
}

fn replacement(dice: &mut Dice) -> Value {
    match dice.roll(8) {
        0 => json!({}),
        1 => json!([]),
        2 => json!([scalar(dice), scalar(dice)]),
        3 => json!({*dice.pick(&TEXTS): scalar(dice)}),
        _ => scalar(dice),
    }
}

/// Every place in `value`, as a JSON pointer; places that hold a scalar only, if `scalars` says so.
fn places(value: &Value, at: &str, scalars: bool, all: &mut Vec<String>) {
    let is_scalar = !value.is_object() && !value.is_array();
    if is_scalar || !scalars {
        all.push(at.to_owned());
    }
    match value {
        Value::Object(fields) => fields.iter().for_each(|(key, field)| {
            places(field, &format!("{at}/{}", key.replace('~', "~0").replace('/', "~1")), scalars, all)
        }),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(index, item)| places(item, &format!("{at}/{index}"), scalars, all));
        }
        _ => {}
    }
}

fn place(value: &Value, scalars: bool, dice: &mut Dice) -> String {
    let mut all = Vec::new();
    // apiVersion and kind stay most of the time: without them nothing else is looked at.
    for (key, field) in value.as_object().into_iter().flatten() {
        if dice.roll(60) == 0 || !matches!(key.as_str(), "apiVersion" | "kind") {
            places(field, &format!("/{key}"), scalars, &mut all);
        }
    }
    if all.is_empty() { String::new() } else { dice.pick(&all).clone() }
}

/// Changes what `value` says in one place.
pub(crate) fn change(value: &mut Value, dice: &mut Dice) {
    let at = place(value, dice.roll(2) == 0, dice);
    match dice.roll(12) {
        0 => {
            let (parent, key) = at.rsplit_once('/').unwrap_or(("", ""));
            match value.pointer_mut(parent) {
                Some(Value::Object(fields)) => drop(fields.remove(&key.replace("~1", "/").replace("~0", "~"))),
                Some(Value::Array(items)) => {
                    let index = dice.roll(items.len());
                    if index < items.len() {
                        items.remove(index);
                    }
                }
                _ => {}
            }
        }
        1 => {
            // An entry once more, or a piece from somewhere else.
            let from = place(value, false, dice);
            if let (Some(piece), Some(Value::Array(items))) = (value.pointer(&from).cloned(), value.pointer_mut(&at)) {
                items.push(piece);
            }
        }
        2 | 3 => {
            let other = place(value, true, dice);
            let (Some(one), Some(two)) = (value.pointer(&at).cloned(), value.pointer(&other).cloned()) else { return };
            put(value, &at, two);
            put(value, &other, one);
        }
        4 => {
            let depth = dice.roll(80);
            let wrapped = value.pointer(&at).cloned().map(|piece| {
                (0..depth).fold(piece, |inner, level| if level % 3 == 0 { json!({"a": inner}) } else { json!([inner]) })
            });
            put(value, &at, wrapped.unwrap_or_default());
        }
        5 => {
            if let Some(Value::Object(fields)) = value.pointer_mut(&at) {
                *fields = renamed(std::mem::take(fields), dice);
            }
        }
        _ => put(value, &at, replacement(dice)),
    }
}

fn put(value: &mut Value, at: &str, new: Value) {
    if let Some(place) = value.pointer_mut(at) {
        *place = new;
    }
}

fn renamed(fields: Map<String, Value>, dice: &mut Dice) -> Map<String, Value> {
    let which = dice.roll(fields.len());
    let new =
        |(index, (key, field))| if index == which { ((*dice.pick(&TEXTS)).to_owned(), field) } else { (key, field) };
    fields.into_iter().enumerate().map(new).collect()
}

/// What is spliced into texts.
const SPLINTERS: [&[u8]; 27] = [
    b"null",
    b"{}",
    b"[]",
    b"{",
    b"}",
    b"[",
    b"]",
    b"\"",
    b"'",
    b",",
    b":",
    b"\0",
    b"\xff",
    b"\xf0\x9f",
    "é".as_bytes(),
    "\u{feff}".as_bytes(),
    b"\\u0000",
    b"\\ud800",
    b"- ",
    b"\n---\n",
    b"\n...\n",
    b"&a ",
    b"*a",
    b"<<: *a",
    b"!!binary ",
    b"\t",
    b"1e999",
];

/// Changes how `bytes` are written in one place.
pub(crate) fn damage(bytes: &mut Vec<u8>, dice: &mut Dice) {
    let from = dice.roll(bytes.len());
    let to = (from + dice.roll(24)).min(bytes.len());
    match dice.roll(8) {
        0 => drop(bytes.drain(from..to)),
        1 => {
            let part = bytes[from..to].to_vec();
            let at = dice.roll(bytes.len());
            bytes.splice(at..at, part);
        }
        2 => {
            if let Some(byte) = bytes.get_mut(from) {
                *byte ^= 1 << dice.roll(8);
            }
        }
        3 => bytes.truncate(from),
        4 => {
            // A line or an entry once more: a key that stands twice.
            let mark = if bytes.contains(&b'\n') { b'\n' } else { b',' };
            let start = bytes[..from].iter().rposition(|byte| *byte == mark).unwrap_or(0);
            let end = bytes[from..].iter().position(|byte| *byte == mark).map_or(bytes.len(), |length| from + length);
            let entry = bytes[start..end].to_vec();
            bytes.splice(end..end, entry);
        }
        5 => {
            let (open, close) = *dice.pick(&[(b'[', b']'), (b'{', b'}')]);
            let depth = 1 << dice.roll(15);
            bytes.splice(from..from, std::iter::repeat_n(open, depth));
            bytes.extend(std::iter::repeat_n(close, depth));
        }
        _ => drop(bytes.splice(from..from, dice.pick(&SPLINTERS).iter().copied())),
    }
}
