//! What a job may ask.

use super::{ProtocolError, ports};
use crate::limits::{
    MAX_MEMORY_NS, MAX_PATIENCE_NS, MAX_SAMPLE_NS, MAX_SOURCES, MAX_STREAMS, MIN_SAMPLE_NS,
};
use crate::message::{Job, Memory, Peer, Way};

/// Checks that all parts of a job go together, and are within bounds.
pub(super) fn check(job: &Job) -> Result<(), ProtocolError> {
    if job.plan.streams == 0 || usize::from(job.plan.streams) > MAX_STREAMS {
        return Err(ProtocolError("a plan of no or too many streams"));
    }
    let files = job.memory.is_none();
    if job.sources.len() > MAX_SOURCES || files == job.sources.is_empty() {
        return Err(ProtocolError("a job without sources or with too many"));
    }
    if job.named && job.sources.len() != 1 {
        return Err(ProtocolError("a list of names below no or many sources"));
    }
    if job.memory.is_some() && job.dry_run {
        return Err(ProtocolError("a dry run that moves no files"));
    }
    if job.delete.is_some() && (job.memory.is_some() || job.named) {
        return Err(ProtocolError("removals beside what is no whole folder"));
    }
    if job.pipe && !is_for_a_pipe(job) {
        return Err(ProtocolError("a pipe beside what moves more than one file"));
    }
    if let Some(Memory::Time(ns)) = job.memory
        && !(1..=MAX_MEMORY_NS).contains(&ns)
    {
        return Err(ProtocolError("a job for no time, or for more than a day"));
    }
    if !(MIN_SAMPLE_NS..=MAX_SAMPLE_NS).contains(&job.sample_every_ns) {
        return Err(ProtocolError("samples too often or too seldom"));
    }
    if job.patience_ns > MAX_PATIENCE_NS {
        return Err(ProtocolError("patience for more than a day"));
    }
    job.limit.check().map_err(ProtocolError)?;
    match &job.peer {
        Some(Peer {
            way: Way::Connect { to, .. },
            ..
        }) => ports::check(to),
        _ => Ok(()),
    }
}

/// Whether a job moves one file alone, once and for all.
fn is_for_a_pipe(job: &Job) -> bool {
    let Job {
        named,
        memory,
        delete,
        dry_run,
        peer,
        ..
    } = job;
    let one = job.sources.len() == 1 && !named;
    one && memory.is_none() && delete.is_none() && !dry_run && peer.is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conversation::tests::{data_port, plain, takes};
    use crate::message::{Direction, Message};
    use crate::removal::Delete;
    use howdah_filter::Filters;

    #[test]
    fn a_job_between_two_far_ends_says_where_to_connect() {
        let taken = |way| {
            let key = Vec::new();
            takes(&Job {
                peer: Some(Peer { key, way }),
                ..plain(Direction::Pull)
            })
        };
        let connect = |addresses, port| Way::Connect {
            to: data_port(addresses, port),
            token: [0; 32],
        };
        assert!(taken(Way::Accept {
            from: [192, 0, 2, 7].into(),
        }));
        assert!(taken(connect(1, 1)));
        assert!(!taken(connect(0, 1)) && !taken(connect(1, 0)));
    }

    #[test]
    fn times_that_a_job_cannot_take_are_refused() {
        let heard_with = |memory, sample_every_ns, patience_ns| {
            takes(&Job {
                sources: Vec::new(),
                memory: Some(memory),
                sample_every_ns,
                patience_ns,
                ..plain(Direction::Pull)
            })
        };
        let heard = |memory, sample_every_ns| heard_with(memory, sample_every_ns, 0);
        for (ns, taken) in [
            (0, true),
            (MAX_PATIENCE_NS, true),
            (MAX_PATIENCE_NS + 1, false),
        ] {
            let memory = Memory::Bytes(1);
            assert_eq!(heard_with(memory, MIN_SAMPLE_NS, ns), taken, "{ns}");
        }
        for (ns, taken) in [
            (0, false),
            (1, true),
            (MAX_MEMORY_NS, true),
            (MAX_MEMORY_NS + 1, false),
            (u64::MAX, false),
        ] {
            assert_eq!(heard(Memory::Time(ns), MIN_SAMPLE_NS), taken, "{ns}");
        }
        for (ns, taken) in [
            (0, false),
            (MIN_SAMPLE_NS - 1, false),
            (MAX_SAMPLE_NS, true),
            (MAX_SAMPLE_NS + 1, false),
        ] {
            assert_eq!(heard(Memory::Bytes(1), ns), taken, "{ns}");
        }
    }

    #[test]
    fn a_job_of_which_one_rule_is_none_is_no_message() {
        let mut wanted = plain(Direction::Pull);
        wanted.filters = Filters::try_from(vec![b"- secret".to_vec()]).unwrap();
        let mut bytes = crate::encode(&Message::Job(Box::new(wanted))).unwrap();
        let heard = |bytes: &[u8]| {
            let mut reader = crate::FrameReader::new();
            reader.push(&crate::preamble());
            reader.push(bytes);
            reader.next_message()
        };
        assert!(matches!(heard(&bytes), Ok(Some(Message::Job(_)))));
        let rule = bytes
            .windows(8)
            .position(|some| some == b"- secret")
            .unwrap();
        for sign in [b'.', b'!', b'x', 0] {
            bytes[rule] = sign;
            assert!(heard(&bytes).is_err());
        }
    }

    #[test]
    fn a_job_without_streams_or_sources_is_refused() {
        let mut bad = plain(Direction::Push);
        assert!(takes(&bad));
        bad.plan.streams = 0;
        assert!(!takes(&bad));
        bad.plan.streams = 1;
        bad.sources.clear();
        assert!(!takes(&bad));
    }

    #[test]
    fn a_list_of_names_is_below_one_source_and_removes_nothing() {
        let mut listed = plain(Direction::Pull);
        listed.named = true;
        assert!(takes(&listed));
        listed.sources.push(b"b".to_vec());
        assert!(!takes(&listed));
        let delete = Some(Delete {
            excluded: false,
            most: None,
        });
        let removes = |named| Job {
            named,
            delete,
            ..plain(Direction::Pull)
        };
        assert!(takes(&removes(false)) && !takes(&removes(true)));
    }
}
