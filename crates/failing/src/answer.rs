//! Answers to what the kernel asks for.

use std::time::Duration;

use fuser::{Errno, FileAttr, Generation, ReplyAttr, ReplyEmpty, ReplyEntry, ReplyXattr};

/// Nothing is remembered by the kernel, so each look is one here.
pub const AT_ONCE: Duration = Duration::ZERO;

pub fn answer(outcome: Result<(), Errno>, reply: ReplyEmpty) {
    match outcome {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(error),
    }
}

pub fn answer_entry(outcome: Result<FileAttr, Errno>, reply: ReplyEntry) {
    match outcome {
        Ok(attributes) => reply.entry(&AT_ONCE, &attributes, Generation(0)),
        Err(error) => reply.error(error),
    }
}

pub fn answer_attributes(outcome: Result<FileAttr, Errno>, reply: ReplyAttr) {
    match outcome {
        Ok(attributes) => reply.attr(&AT_ONCE, &attributes),
        Err(error) => reply.error(error),
    }
}

pub fn answer_xattr(outcome: Result<Vec<u8>, Errno>, size: u32, reply: ReplyXattr) {
    match outcome {
        Ok(value) if size == 0 => reply.size(value.len() as u32),
        Ok(value) if value.len() > size as usize => reply.error(Errno::ERANGE),
        Ok(value) => reply.data(&value),
        Err(error) => reply.error(error),
    }
}
