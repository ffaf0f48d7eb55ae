//! Breaking a text.

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

/// What is spliced into texts: marks of every language that is read here, and letters of all sorts.
const SPLINTERS: [&[u8]; 52] = [
    b"\"",
    b"'",
    b"`",
    b"\\",
    b"$",
    b"${",
    b"$(",
    b"`\n",
    b"\\\n",
    b"\n",
    b"\r\n",
    b"\t",
    b" ",
    b"#",
    b";",
    b"&&",
    b"|",
    b"<<EOF\n",
    b"--//\n",
    b"\n--//--\n",
    b"Content-Type: application/node.eks.aws\n",
    b"Content-Transfer-Encoding: base64\n",
    b"<powershell>",
    b"</powershell>",
    b"<#",
    b"#>",
    b"@'",
    b"{",
    b"}",
    b"[",
    b"]",
    b"[[a]]\n",
    b"= ",
    b": ",
    b"- ",
    b"&a ",
    b"*a",
    b"<<: *a",
    b"---\n",
    b"|\n",
    b">-\n",
    b"!!binary ",
    b"null",
    b"1e999",
    b"-9223372036854775809",
    b"\0",
    b"\xff",
    b"\xf0\x9f",
    "é\u{301}".as_bytes(),
    "\u{feff}".as_bytes(),
    "“".as_bytes(),
    b"--register-with-taints=",
];

/// Changes how `bytes` are written in one place.
pub(crate) fn damage(bytes: &mut Vec<u8>, dice: &mut Dice) {
    let from = dice.roll(bytes.len()).min(bytes.len());
    let to = (from + dice.roll(40)).min(bytes.len());
    match dice.roll(10) {
        0 => drop(bytes.drain(from..to)),
        1 => {
            let part = bytes[from..to].to_vec();
            let at = dice.roll(bytes.len()).min(bytes.len());
            bytes.splice(at..at, part);
        }
        2 => {
            if let Some(byte) = bytes.get_mut(from) {
                *byte ^= 1 << dice.roll(8);
            }
        }
        3 if dice.roll(4) == 0 => bytes.truncate(from),
        4 | 5 => {
            // A line once more, or a line less.
            let start = bytes[..from].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            let end =
                bytes[from..].iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |length| from + length + 1);
            let line = bytes[start..end].to_vec();
            if dice.roll(2) == 0 {
                bytes.drain(start..end);
            } else {
                let at = dice.roll(bytes.len()).min(bytes.len());
                bytes.splice(at..at, line);
            }
        }
        6 => {
            let (open, close) = *dice.pick(&[(b'[', b']'), (b'{', b'}'), (b'(', b')'), (b'"', b'"')]);
            let depth = 1 << dice.roll(12);
            bytes.splice(from..from, std::iter::repeat_n(open, depth));
            bytes.extend(std::iter::repeat_n(close, depth));
        }
        7 if dice.roll(20) == 0 => {
            let part = bytes[from..to].to_vec();
            bytes.splice(from..from, part.repeat(200));
        }
        _ => drop(bytes.splice(from..from, dice.pick(&SPLINTERS).iter().copied())),
    }
}
