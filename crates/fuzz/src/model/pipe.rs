//! One direction of a connection, as TCP gives it: in order, in parts of any length, and cut anywhere.

use std::collections::VecDeque;

/// Payload that one step of a delivery moves, in bytes; of all else it moves single bytes.
const PAYLOAD_STEP_BYTES: u64 = 16 << 10;

/// Bytes, or payload that is known by what it is of, so that a model of large files is fast.
#[derive(Debug, Clone)]
enum Run {
    Bytes(VecDeque<u8>),
    Payload { content: u64, len: u64 },
}

/// What has been sent, on its way and arrived.
#[derive(Debug, Default)]
pub struct Pipe {
    on_way: VecDeque<Run>,
    arrived: VecDeque<Run>,
}

impl Pipe {
    /// Sends bytes.
    pub fn put(&mut self, bytes: &[u8]) {
        push_bytes(&mut self.on_way, bytes.iter().copied());
    }

    /// Sends payload of `content`.
    pub fn put_payload(&mut self, content: u64, len: u64) {
        push_payload(&mut self.on_way, content, len);
    }

    /// Delivers so many steps.
    pub fn deliver(&mut self, steps: usize) {
        let mut left = steps;
        while left > 0 {
            match self.on_way.front_mut() {
                None => return,
                Some(Run::Bytes(bytes)) => {
                    let count = left.min(bytes.len());
                    left -= count;
                    push_bytes(&mut self.arrived, bytes.drain(..count));
                    if bytes.is_empty() {
                        self.on_way.pop_front();
                    }
                }
                Some(Run::Payload { content, len }) => {
                    let count = (*len).min(PAYLOAD_STEP_BYTES);
                    left -= 1;
                    *len -= count;
                    push_payload(&mut self.arrived, *content, count);
                    if *len == 0 {
                        self.on_way.pop_front();
                    }
                }
            }
        }
    }

    /// Takes `count` bytes off what has arrived, if so many have. Payload reads as bytes of one kind.
    pub fn take(&mut self, count: usize) -> Option<Vec<u8>> {
        let length = |run: &Run| match run {
            Run::Bytes(bytes) => bytes.len() as u64,
            Run::Payload { len, .. } => *len,
        };
        if self.arrived.iter().map(length).sum::<u64>() < count as u64 {
            return None;
        }
        let mut taken = Vec::with_capacity(count);
        while taken.len() < count {
            match self.arrived.front_mut()? {
                Run::Bytes(bytes) => {
                    let part = bytes.len().min(count - taken.len());
                    taken.extend(bytes.drain(..part));
                }
                Run::Payload { len, .. } => {
                    let part = (*len).min((count - taken.len()) as u64);
                    *len -= part;
                    taken.resize(taken.len() + part as usize, 0x55);
                }
            }
            self.drop_empty();
        }
        Some(taken)
    }

    /// Takes at most `most` bytes of payload: of what, if it is payload, and how much.
    pub fn take_payload(&mut self, most: u64) -> Option<(Option<u64>, u64)> {
        let taken = match self.arrived.front_mut()? {
            Run::Bytes(bytes) => {
                let count = most.min(bytes.len() as u64);
                bytes.drain(..count as usize);
                (None, count)
            }
            Run::Payload { content, len } => {
                let count = most.min(*len);
                *len -= count;
                (Some(*content), count)
            }
        };
        self.drop_empty();
        Some(taken)
    }

    /// Everything that has arrived.
    pub fn take_all(&mut self) -> Vec<u8> {
        let mut all = Vec::new();
        for run in self.arrived.drain(..) {
            if let Run::Bytes(bytes) = run {
                all.extend(bytes);
            }
        }
        all
    }

    /// Loses what is on its way.
    pub fn cut(&mut self) {
        self.on_way.clear();
    }

    /// Changes something that is on its way; where is any number.
    pub fn damage(&mut self, at: usize, with: u8) {
        let runs = self.on_way.len().max(1);
        match self.on_way.get_mut(at % runs) {
            Some(Run::Bytes(bytes)) => {
                let length = bytes.len().max(1);
                if let Some(byte) = bytes.get_mut(at / runs % length) {
                    *byte ^= with.max(1);
                }
            }
            Some(Run::Payload { content, .. }) => *content = content.wrapping_add(u64::from(with)),
            None => {}
        }
    }

    fn drop_empty(&mut self) {
        let empty = match self.arrived.front() {
            Some(Run::Bytes(bytes)) => bytes.is_empty(),
            Some(Run::Payload { len, .. }) => *len == 0,
            None => false,
        };
        if empty {
            self.arrived.pop_front();
        }
    }
}

fn push_bytes(runs: &mut VecDeque<Run>, bytes: impl ExactSizeIterator<Item = u8>) {
    if bytes.len() == 0 {
        return;
    }
    match runs.back_mut() {
        Some(Run::Bytes(last)) => last.extend(bytes),
        _ => runs.push_back(Run::Bytes(bytes.collect())),
    }
}

fn push_payload(runs: &mut VecDeque<Run>, content: u64, len: u64) {
    match runs.back_mut() {
        Some(Run::Payload {
            content: last,
            len: before,
        }) if *last == content => *before += len,
        _ if len > 0 => runs.push_back(Run::Payload { content, len }),
        _ => {}
    }
}
