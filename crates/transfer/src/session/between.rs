//! The near end of a copy between two far ends. It gives both their job, and forwards their messages. The data goes
//! directly from one far end to the other.
//!
//! Each far end has a conversation with this end only, by the rules of any copy. To the sender, this end is a
//! receiving near end. To the receiver, it is a sending one. So each message is checked here before it is forwarded,
//! and neither far end can change the job of the other. This module gives them their jobs. `relay` forwards messages,
//! and `movement` checks that the copy makes progress.

mod movement;
mod relay;

use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::thread;
use std::time::Duration;

use howdah_wire::limits::MAX_ADDRESSES;
use howdah_wire::{DataPort, Direction, Job, Peer, Side, Way};

use crate::end::abort::lock;
use crate::end::context::{Board, Context};
use crate::end::digests::Digests;
use crate::error::TransferError;
use crate::session::control::{Channel, Control, Event, Onward};
use crate::session::greeting::Greeted;
use crate::session::job::{self, Asked, Between, Connects};
use crate::session::memory::MemoryMark;
use crate::session::near::Session;
use crate::session::report;
use crate::tree::names::NamesFile;

use relay::Relay;

/// The path between the far ends may be out for their patience, and they wait this much longer.
const FAR_WAITS_LONGER: Duration = Duration::from_secs(60);

impl Session {
    /// Carries out a Job by a Plan, both JSON. This session's far end sends to the far end of `receiver`. From then
    /// on this session is the one of the whole copy. The other session must live as long.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn start_between(
        &self,
        receiver: &Self,
        job: &[u8],
        plan: &[u8],
    ) -> Result<(), TransferError> {
        let Asked {
            job,
            digests,
            names,
            between,
            ..
        } = job::read(job, plan)?;
        job::check(&job)?;
        let can_be = |between: &Between| {
            job.memory.is_none() && !job.pipe && (1..=MAX_ADDRESSES).contains(&between.to.len())
        };
        let Some(between) = between.filter(can_be) else {
            let words = "a copy between two far ends is of files, and says which end connects, and where to";
            return Err(TransferError::Here(words.to_owned()));
        };
        let list = names.map(|names| names.open()).transpose()?;
        let mut setup = lock(&self.setup);
        let sender = setup.greeted()?;
        let receiver = lock(&receiver.setup).greeted()?;
        let jobs = Jobs::new(job, &between, &sender, &receiver, digests.is_some());
        let digests = digests.map_or_else(Digests::nowhere, |path| Digests::to_file(&path));
        let board = Arc::new(Board::new(digests));
        lock(&self.shared.state).running = Some((jobs.receiver.clone(), Arc::clone(&board)));
        let (shared, events) = (Arc::clone(&self.shared), self.events.clone());
        let patience = self.patience;
        let spawned = thread::Builder::new()
            .name("howdah-between".into())
            .spawn(move || {
                let mut channels = [sender.channel, receiver.channel];
                let controls = channels.each_ref().map(Channel::control);
                let onward = channels[0].onward();
                onward.set(controls[1].clone());
                let inboxes = [sender.inbox, receiver.inbox];
                let path_patience = Duration::from_nanos(jobs.sender.patience_ns);
                let context = Context::new(
                    Side::Near,
                    jobs.sender.clone(),
                    controls[0].clone(),
                    events,
                    patience + path_patience + FAR_WAITS_LONGER,
                    Arc::clone(&shared.abort),
                    board,
                );
                let outcome =
                    carry_out(&context, jobs, &between, (controls, onward), inboxes, list);
                shared.abort.trigger();
                context.join();
                channels.iter_mut().for_each(Channel::close);
                shared.end(outcome);
            });
        let thread = spawned
            .map_err(|error| TransferError::Here(format!("cannot start a thread: {error}")))?;
        setup.thread = Some(thread);
        Ok(())
    }
}

/// One of the two far ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Sender,
    Receiver,
}

const ENDS: [End; 2] = [End::Sender, End::Receiver];

impl End {
    /// What its user calls it.
    fn name(self, between: &Between) -> &str {
        match self {
            Self::Sender => &between.sender,
            Self::Receiver => &between.receiver,
        }
    }
}

/// What each far end is told to do.
struct Jobs {
    sender: Job,
    receiver: Job,
}

impl Jobs {
    fn new(
        job: Job,
        between: &Between,
        sender: &Greeted,
        receiver: &Greeted,
        tells_digests: bool,
    ) -> Self {
        let connect = |to: &Greeted| Way::Connect {
            to: DataPort {
                addresses: between.to.clone(),
                port: to.hello.port,
            },
            token: to.hello.token,
        };
        let accept = Way::Accept { from: between.from };
        let (sends, receives) = match between.connects {
            Connects::Sender => (connect(receiver), accept),
            Connects::Receiver => (accept, connect(sender)),
        };
        let peer = |of: &Greeted, way| {
            let key = of.hello.key.clone();
            Some(Peer { key, way })
        };
        Self {
            sender: Job {
                direction: Direction::Pull,
                peer: peer(receiver, sends),
                tells_digests,
                ..job.clone()
            },
            receiver: Job {
                direction: Direction::Push,
                peer: peer(sender, receives),
                ..job
            },
        }
    }
}

fn carry_out(
    context: &Arc<Context>,
    jobs: Jobs,
    between: &Between,
    controls: ([Control; 2], Arc<Onward>),
    inboxes: [Receiver<Event>; 2],
    list: Option<NamesFile>,
) -> Result<Vec<u8>, TransferError> {
    let mark = MemoryMark::now();
    let job = jobs.receiver.clone();
    let mut relay = Relay::new(context, between, jobs, controls, list);
    let outcome = relay.until_finished(inboxes);
    if let Err(error) = &outcome {
        relay.say_why(error);
    }
    context.abort.settle();
    if let Some(why) = context.board.digests.finish() {
        context.warn(format!("the digests could not all be kept: {why}"));
    }
    outcome?;
    let (trace, account) = relay.account(&mark);
    Ok(report::outcome(&job, &context.board, &trace, &account))
}
