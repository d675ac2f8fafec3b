//! Payloads that a seed determines; `Payloads.java` makes the same ones.

const KINDS: [&str; 5] = ["random", "zeros", "runs", "words", "rows"];
const WORDS: [&str; 12] = [
    "order",
    "payment",
    "shipped",
    "cancelled",
    "customer",
    "42",
    "EUR",
    "true",
    "null",
    "2024-01-01",
    "a",
    "the",
];

struct Random(u64);

impl Random {
    /// A number below `bound` from a xorshift generator.
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from((self.0 >> 11) % bound as u64).unwrap()
    }

    fn byte(&mut self) -> u8 {
        u8::try_from(self.below(256)).unwrap()
    }

    fn word(&mut self) -> &'static str {
        WORDS[self.below(WORDS.len())]
    }
}

/// `size` bytes of that kind.
pub(crate) fn make(kind: &str, seed: u64, size: usize) -> Vec<u8> {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(1));
    let mut out = Vec::new();
    let mut row = 0;
    while out.len() < size {
        let piece = if kind == "mixed" {
            KINDS[random.below(KINDS.len())]
        } else {
            kind
        };
        append(piece, row, &mut random, &mut out);
        row += 1;
    }
    out.truncate(size);
    out
}

fn append(kind: &str, row: usize, random: &mut Random, out: &mut Vec<u8>) {
    match kind {
        "random" => out.extend((0..64).map(|_| random.byte())),
        "zeros" => out.extend([0; 64]),
        "runs" => {
            let value = random.byte();
            let length = 1 + random.below(300);
            out.extend(std::iter::repeat_n(value, length));
        }
        "words" => out.extend_from_slice(format!("{} ", random.word()).as_bytes()),
        "rows" => {
            let amount = random.below(100_000);
            let state = random.word();
            let line = format!("{{\"id\":{row},\"amount\":{amount},\"state\":\"{state}\"}}\n");
            out.extend_from_slice(line.as_bytes());
        }
        other => panic!("no payloads of kind {other}"),
    }
}
