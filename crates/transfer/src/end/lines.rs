//! Lines for the user. Their number is limited, so that they fit into memory.

/// Most text kept, in bytes: tens of thousands of usual lines.
const MAX_BYTES: usize = 4 << 20;

/// Lines in the order in which they came. When there is no more room, lines are only counted.
#[derive(Debug, Default)]
pub struct Lines {
    kept: Vec<String>,
    bytes: usize,
    more: u64,
}

impl Lines {
    /// Adds a line.
    pub fn add(&mut self, line: String) {
        // What a line costs beside its text counts too: empty ones must come to an end as well.
        let bytes = self.bytes + line.len() + size_of::<String>();
        if self.more > 0 || bytes > MAX_BYTES {
            self.more += 1;
        } else {
            self.bytes = bytes;
            self.kept.push(line);
        }
    }

    /// The first ones.
    pub fn kept(&self) -> &[String] {
        &self.kept
    }

    /// How many came after them.
    pub fn more(&self) -> u64 {
        self.more
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_first_are_kept_and_all_are_counted(lens in prop::collection::vec(0usize..2 << 20, 0..12)) {
            let mut lines = Lines::default();
            for &len in &lens {
                lines.add("x".repeat(len));
            }
            let kept: Vec<usize> = lines.kept().iter().map(String::len).collect();
            prop_assert_eq!(&kept[..], &lens[..kept.len()]);
            prop_assert_eq!(kept.len() as u64 + lines.more(), lens.len() as u64);
            prop_assert!(kept.iter().sum::<usize>() <= MAX_BYTES);
            let all: usize = lens.iter().map(|len| len + size_of::<String>()).sum();
            prop_assert_eq!(lines.more() > 0, all > MAX_BYTES);
        }
    }

    #[test]
    fn empty_ones_come_to_an_end() {
        let mut lines = Lines::default();
        for _ in 0..MAX_BYTES {
            lines.add(String::new());
        }
        assert!(lines.kept().len() < MAX_BYTES / 8 && lines.more() > 0);
    }
}
