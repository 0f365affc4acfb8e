//! What may be outstanding on a control channel, counted apart from [`howdah_wire::Conversation`].

use howdah_wire::limits::{
    MAX_ADDRESSES, MAX_CONTENT_FOLDERS, MAX_CONTENT_NAMES, MAX_DIGESTS, MAX_EXTRANEOUS, MAX_NAMES,
    MAX_NAMES_OPEN, MAX_OFFERED_FILES, MAX_OFFERS_OPEN, MAX_SOURCES, MAX_SPENT_NS,
    MAX_STEERINGS_OPEN, MAX_STREAMS, MIN_LIMIT_BPS,
};
use howdah_wire::{Direction, Job, Message, Offered, OfferedFile, Peer, Same, Side, Spent, Way};

/// The account of one end.
#[derive(Default)]
pub struct Ledger {
    greeted: bool,
    jobs: u32,
    streams: usize,
    accepts: u32,
    offered: u64,
    answered: u64,
    /// Whether files are told by their content, and comparisons that are open.
    by_content: bool,
    compares: u64,
    steerings: u64,
    names: usize,
    /// Ports to be tried of which nothing has come yet; at a far end, all of them.
    tries: u64,
    near_tries: u64,
    near_connects: u64,
    between: bool,
    /// The same of patterns.
    expansions: u64,
    tells_digests: bool,
    removes: bool,
    dry_run: bool,
    all_sent: u32,
    taken: Vec<u64>,
    over: bool,
}

impl Ledger {
    /// Whether the other end has said its last.
    pub fn over(&self) -> bool {
        self.over
    }

    /// An honest end says a job first, and answers and settles no more than was asked.
    pub fn may_say(&self, side: Side, message: &Message) -> bool {
        match message {
            Message::Job(job) => {
                side == Side::Near
                    && self.jobs == 0
                    && (1..=MAX_STREAMS).contains(&job.plan.streams.into())
            }
            Message::Answer(answer) => answer.needed.len() as u64 <= self.offered - self.answered,
            Message::Steered(_) => self.steerings > 0,
            Message::Names(_) => side == Side::Near && self.jobs > 0 && self.names < MAX_NAMES_OPEN,
            Message::NamesTaken => side == Side::Far && self.names > 0,
            Message::TryPort(_) | Message::Expand(_) => side == Side::Near && self.jobs == 0,
            Message::TryNear(_) => side == Side::Near,
            Message::Offer(_) | Message::Steer(_) => self.jobs > 0,
            _ => true,
        }
    }

    pub fn say(&mut self, message: &Message) {
        match message {
            Message::Job(job) => self.begin(job),
            Message::Offer(offer) => self.offered += offer.files.len() as u64,
            Message::Answer(answer) => self.answered += answer.needed.len() as u64,
            Message::Compare(_) if self.by_content => self.compares += 1,
            Message::Compared(_) => self.compares = self.compares.saturating_sub(1),
            Message::Steer(_) => self.steerings += 1,
            Message::Steered(_) => self.steerings -= 1,
            Message::Names(_) => self.names += 1,
            Message::NamesTaken => self.names -= 1,
            Message::TryPort(_) | Message::TryNear(_) => self.tries = 1,
            Message::Expand(_) => self.expansions = 1,
            _ => {}
        }
    }

    fn begin(&mut self, job: &Job) {
        self.jobs += 1;
        self.tells_digests = job.tells_digests && job.direction == Direction::Pull;
        self.streams = job.plan.streams.into();
        self.removes = job.delete.is_some();
        self.dry_run = job.dry_run;
        self.between = job.peer.is_some();
        self.by_content = job.skip.same == Same::Content;
    }

    /// What was taken for right.
    pub fn hear(&mut self, side: Side, message: &Message) {
        if matches!(message, Message::Alive) {
            assert!(self.greeted);
            return;
        }
        assert!(!self.over, "nothing is taken after the end");
        let greets = matches!(message, Message::Hello(_) | Message::FarHello(_));
        let fails = matches!(message, Message::Failed(_));
        assert!(self.greeted != greets || fails, "one greeting, and first");
        let before_the_job = matches!(
            message,
            Message::Job(_)
                | Message::Cancel
                | Message::Warning(_)
                | Message::TryPort(_)
                | Message::TryNear(_)
                | Message::PortTried(_)
                | Message::Expand(_)
                | Message::Expanded(_)
        );
        assert!(self.jobs > 0 || before_the_job || greets || fails);
        match message {
            Message::Hello(_) => {
                assert_eq!(side, Side::Far);
                self.greeted = true;
            }
            Message::FarHello(_) => {
                assert_eq!(side, Side::Near);
                self.greeted = true;
            }
            Message::Job(job) => {
                assert!(side == Side::Far && self.jobs == 0);
                assert!((1..=MAX_STREAMS).contains(&job.plan.streams.into()));
                assert_eq!(job.memory.is_some(), job.sources.is_empty());
                if let Some(Peer {
                    way: Way::Connect { to, .. },
                    ..
                }) = &job.peer
                {
                    assert!(to.port > 0 && (1..=MAX_ADDRESSES).contains(&to.addresses.len()));
                }
                assert!(job.delete.is_none() || job.memory.is_none() && !job.named);
                self.begin(job);
            }
            Message::Accept { .. } => {
                self.accepts += 1;
                assert!(side == Side::Near && self.accepts == 1);
            }
            Message::Offer(offer) => {
                assert_eq!(offer.first, self.offered);
                assert!((1..=MAX_OFFERED_FILES).contains(&offer.files.len()));
                let is_file = |file: &OfferedFile| file.kind == Offered::File;
                assert!(self.dry_run || offer.files.iter().all(is_file));
                self.offered += offer.files.len() as u64;
                let most = MAX_OFFERED_FILES * (MAX_OFFERS_OPEN + 2);
                assert!(self.offered - self.answered <= most as u64);
            }
            Message::Answer(answer) => {
                assert_eq!(answer.first, self.answered);
                self.answered += answer.needed.len() as u64;
                assert!(!answer.needed.is_empty() && self.answered <= self.offered);
                for found in &answer.found {
                    assert!(answer.needed[usize::from(found.index)]);
                    let ends = found.spans.iter().map(|span| span.end().unwrap());
                    let starts = found.spans.iter().map(|span| span.offset).skip(1);
                    assert!(ends.zip(starts).all(|(end, next)| end < next));
                }
            }
            Message::Compare(compare) => {
                assert!(self.by_content && compare.first >= self.answered);
                assert!(compare.files.is_sorted_by(|one, next| one < next));
                let last = compare.files.last().expect("it is of something");
                assert!(compare.first + u64::from(*last) < self.offered);
                self.compares += 1;
            }
            Message::Compared(_) => {
                assert!(self.by_content && self.compares > 0);
                self.compares -= 1;
            }
            Message::Progress(progress) => {
                assert!(progress.taken.len() <= self.streams);
                self.taken
                    .resize(self.taken.len().max(progress.taken.len()), 0);
                for (before, now) in self.taken.iter_mut().zip(&progress.taken) {
                    assert!(now >= before);
                    *before = *now;
                }
            }
            Message::Checked(_) => assert_eq!(self.jobs, 1, "of a job's files"),
            Message::Samples(samples) => {
                assert!(side == Side::Near);
                assert!(
                    samples
                        .iter()
                        .all(|one| usize::from(one.stream) < self.streams)
                );
            }
            Message::Steer(steering) => {
                self.steerings += 1;
                assert!(side == Side::Far && self.steerings <= MAX_STEERINGS_OPEN);
                assert!((1..=self.streams).contains(&steering.streams.into()));
            }
            Message::Steered(steered) => {
                assert!(side == Side::Near && self.steerings > 0);
                assert!(
                    steered
                        .taken
                        .as_ref()
                        .is_ok_and(|name| name.bytes().all(|byte| byte.is_ascii_graphic()))
                        || steered.taken.is_err()
                );
                self.steerings -= 1;
            }
            Message::Limit(limit) => {
                assert!(side == Side::Far && self.jobs > 0);
                assert!(limit.most_bps.is_none_or(|most| most >= MIN_LIMIT_BPS));
            }
            Message::LeftOut(_) => assert_eq!(side, Side::Near),
            Message::Cancel => assert_eq!(side, Side::Far),
            Message::Names(names) => {
                self.names += 1;
                assert!(side == Side::Far && self.names <= MAX_NAMES_OPEN);
                assert!(names.names.len() <= MAX_NAMES);
            }
            Message::NamesTaken => {
                assert!(side == Side::Near && self.names > 0);
                self.names -= 1;
            }
            Message::TryPort(port) => {
                self.tries += 1;
                assert!(side == Side::Far && self.jobs == 0 && self.tries == 1);
                assert!(port.port > 0 && (1..=MAX_ADDRESSES).contains(&port.addresses.len()));
            }
            Message::PortTried(_) => {
                assert!(side == Side::Near && self.tries > 0);
                self.tries -= 1;
            }
            Message::TryNear(port) => {
                self.near_tries += 1;
                assert!(side == Side::Far && *port > 0);
                assert!(self.near_tries == 1 && !self.between);
            }
            Message::ConnectNear { .. } => {
                self.near_connects += 1;
                assert!(self.jobs == 1 && self.near_tries == 1 && self.near_connects == 1);
                assert!(!self.between);
            }
            Message::Expand(paths) => {
                self.expansions += 1;
                assert!(side == Side::Far && self.jobs == 0 && self.expansions == 1);
                assert!((1..=MAX_SOURCES).contains(&paths.len()));
            }
            Message::Expanded(found) => {
                assert!(side == Side::Near && self.expansions > 0);
                self.expansions -= 1;
                let count = found.as_ref().map_or(1, Vec::len);
                assert!((1..=MAX_SOURCES).contains(&count));
            }
            Message::Digests(digests) => {
                assert!(side == Side::Near && self.tells_digests);
                assert!(digests.len() <= MAX_DIGESTS);
            }
            Message::Content(content) => {
                assert!(self.removes && self.all_sent == 0);
                assert!((1..=MAX_CONTENT_FOLDERS).contains(&content.len()));
                let names: usize = content.iter().map(|one| one.names.len()).sum();
                assert!(names <= MAX_CONTENT_NAMES);
            }
            Message::AllSent { .. } => {
                self.all_sent += 1;
                assert!(self.removes && self.all_sent == 1);
            }
            Message::Extraneous(found) => {
                assert!(side == Side::Near && self.removes && self.dry_run);
                assert!((1..=MAX_EXTRANEOUS).contains(&found.len()));
            }
            Message::Finished(finished) => {
                let removal = finished.removal;
                assert!(removal.is_none() || self.removes);
                assert!(removal.is_none_or(|one| one.removed <= one.extraneous));
                assert!(finished.streams.len() <= self.streams);
                assert!(finished.finishing_ns <= MAX_SPENT_NS);
                let spent = finished.streams.iter().map(|stream| &stream.spent);
                spent.chain([&finished.naming]).for_each(can_be_spent);
                self.over = true;
            }
            Message::Spent(spent) => {
                assert!(side == Side::Near && self.jobs > 0);
                can_be_spent(spent);
            }
            Message::Failed(_) => self.over = true,
            Message::Warning(_) | Message::Scanned(_) | Message::Alive => {}
        }
    }
}

fn can_be_spent(spent: &Spent) {
    let times = spent.wall_ns.iter().chain(&spent.cpu_ns);
    assert!(
        times
            .chain([&spent.busy_us])
            .all(|&time| time <= MAX_SPENT_NS)
    );
}
