//! Choices drawn from the bytes of an input, so that a fuzzer that changes bytes changes choices.

/// The bytes that are left of an input. At the end, every choice is 0.
pub struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    /// All of `data` is left.
    pub fn new(data: &'a [u8]) -> Self {
        Self(data)
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next byte.
    pub fn byte(&mut self) -> u8 {
        self.bytes(1).first().copied().unwrap_or(0)
    }

    /// The next `count` bytes, fewer at the end.
    pub fn bytes(&mut self, count: usize) -> &'a [u8] {
        let (bytes, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        bytes
    }

    /// A number below `below`, from one byte; 0 if `below` is 0.
    pub fn below(&mut self, below: usize) -> usize {
        usize::from(self.byte()) % below.max(1)
    }

    /// A number of two bytes, little-endian.
    pub fn u16(&mut self) -> u16 {
        u16::from_le_bytes([self.byte(), self.byte()])
    }

    /// A number of eight bytes, little-endian.
    pub fn u64(&mut self) -> u64 {
        std::array::from_fn::<_, 4, _>(|_| u64::from(self.u16()))
            .iter()
            .rev()
            .fold(0, |sum, part| sum << 16 | part)
    }

    /// Everything that is left.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }
}
