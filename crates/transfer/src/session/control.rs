//! The control channel over two descriptors. One thread reads and one writes. Neither blocks for ever.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use howdah_wire::{Conversation, FrameReader, Limit, Message, Side, encode, preamble};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;

use crate::end::abort::lock;
use crate::error::TransferError;
use crate::session::outgoing::{Next, Outgoing};
use crate::session::steer::Wish;

/// What a writable pipe takes without blocking (POSIX `PIPE_BUF`), in bytes.
const WRITE_BYTES: usize = 4096;
const READ_BYTES: usize = 64 * 1024;
/// An end that has nothing to say says so this often, whatever its other threads are busy with.
const HEARTBEAT: Duration = Duration::from_secs(5);
/// Events that may wait for the thread that handles them; each holds one message at most.
pub const MAX_EVENTS: usize = 16;
/// How long the reader waits before it looks again whether there is room for an event.
const ROOM_GLANCE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 1_000_000,
};
/// What is still to be written when a channel closes gets this long.
const LINGER: Duration = Duration::from_millis(1500);

/// An event at one end. The thread that runs the transfer handles one after the other.
#[derive(Debug)]
pub enum Event {
    /// The peer said something that it may say now.
    Message(Message),
    /// Nothing more will come from the peer; why, if that is not how it should end.
    Closed(Option<TransferError>),
    /// A data stream has done all its work.
    StreamDone,
    /// What all streams brought is in place.
    InPlace,
    /// The user has the streams send otherwise.
    Steer(Wish),
    /// The user limits what the streams send together.
    Limit(Limit),
    /// A thread of this end cannot go on.
    Failed(TransferError),
    /// The user, or a signal, stops this end; says why.
    Stop(TransferError),
}

/// The writing half. Clones write to the same channel.
#[derive(Debug, Clone)]
pub struct Control {
    outgoing: Arc<Outgoing>,
}

impl Control {
    /// Queues a message, see [`Outgoing::say`]. If the channel has ended, the message is dropped. The reader reports
    /// the end.
    pub fn say(&self, message: Message) {
        self.outgoing.say(message);
    }

    /// Whether names in folders have room, see [`Outgoing::has_room`].
    fn has_room(&self) -> bool {
        self.outgoing.has_room()
    }

    /// Tells the other end why this one stops, unless it knows.
    pub fn say_why(&self, error: &TransferError) {
        match error {
            TransferError::There(_) => {}
            TransferError::Cancelled => self.say(Message::Cancel),
            error => self.say(Message::Failed(error.to_string())),
        }
    }
}

/// Where the names in a far end's folders are forwarded to, in a copy between two far ends. While there is no room,
/// no more messages are read from that far end.
#[derive(Debug, Default)]
pub struct Onward {
    to: OnceLock<Control>,
    waiting: AtomicBool,
}

impl Onward {
    /// Sets the channel on which the names need room.
    pub fn set(&self, to: Control) {
        let _ = self.to.set(to);
    }

    /// Whether names wait for room. Meanwhile no messages are read from their end.
    pub fn waiting(&self) -> bool {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Waits for room, unless this end closes.
    fn wait(&self, wake: &OwnedFd) -> bool {
        let full = || self.to.get().is_some_and(|to| !to.has_room());
        while full() {
            self.waiting.store(true, Ordering::Relaxed);
            if woken_within(ROOM_GLANCE, wake) {
                return false;
            }
        }
        self.waiting.store(false, Ordering::Relaxed);
        true
    }
}

/// Both halves of a control channel. Dropping it ends both threads.
pub struct Channel {
    control: Control,
    onward: Arc<Onward>,
    wake: Arc<OwnedFd>,
    reader: Option<JoinHandle<()>>,
    writer: Option<JoinHandle<()>>,
}

impl Channel {
    /// Takes the descriptors over, greets, and reports messages to `events`. `signals`, a signalfd, is watched too.
    ///
    /// # Errors
    /// When the system has no descriptor or thread left.
    pub fn open(
        side: Side,
        read: OwnedFd,
        write: OwnedFd,
        signals: Option<OwnedFd>,
        events: SyncSender<Event>,
    ) -> io::Result<Self> {
        let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let outgoing = Arc::new(Outgoing::default());
        let conversation = Arc::new(Mutex::new(Conversation::new(side)));
        let onward = Arc::new(Onward::default());
        let reader = {
            let conversation = Arc::clone(&conversation);
            let onward = Arc::clone(&onward);
            let wake = Arc::clone(&wake);
            thread::Builder::new()
                .name("howdah-hear".into())
                .spawn(move || {
                    let hearing = Hearing {
                        conversation,
                        events,
                        onward,
                    };
                    hearing.run(&read, &wake, signals.as_ref());
                })?
        };
        let writer = {
            let (wake, outgoing) = (Arc::clone(&wake), Arc::clone(&outgoing));
            thread::Builder::new()
                .name("howdah-say".into())
                .spawn(move || {
                    write_messages(&write, &outgoing, &conversation, &wake, HEARTBEAT);
                    outgoing.give_up();
                })?
        };
        Ok(Self {
            control: Control { outgoing },
            onward,
            wake,
            reader: Some(reader),
            writer: Some(writer),
        })
    }

    /// The writing half.
    pub fn control(&self) -> Control {
        self.control.clone()
    }

    /// The switch that says where names in folders are forwarded to.
    pub fn onward(&self) -> Arc<Onward> {
        Arc::clone(&self.onward)
    }

    /// Writes what is queued, then closes both halves.
    pub fn close(&mut self) {
        self.control.outgoing.close();
        let deadline = Instant::now() + LINGER;
        while self
            .writer
            .as_ref()
            .is_some_and(|writer| !writer.is_finished())
        {
            if Instant::now() > deadline {
                break;
            }
            thread::sleep(Duration::from_millis(1));
        }
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
        for thread in [self.writer.take(), self.reader.take()]
            .into_iter()
            .flatten()
        {
            let _ = thread.join();
        }
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        self.close();
    }
}

struct Hearing {
    conversation: Arc<Mutex<Conversation>>,
    events: SyncSender<Event>,
    onward: Arc<Onward>,
}

impl Hearing {
    fn run(mut self, read: &OwnedFd, wake: &OwnedFd, signals: Option<&OwnedFd>) {
        let closed = match self.hear(read, wake, signals) {
            Ok(None) => return,
            Ok(Some(event)) => event,
            Err(error) => Event::Closed(Some(error)),
        };
        self.report(closed, wake);
    }

    /// Hands an event on; waits for room unless this end closes. The peer is held back meanwhile.
    fn report(&self, mut event: Event, wake: &OwnedFd) -> bool {
        loop {
            match self.events.try_send(event) {
                Ok(()) => return true,
                Err(TrySendError::Disconnected(_)) => return false,
                Err(TrySendError::Full(back)) => event = back,
            }
            if woken_within(ROOM_GLANCE, wake) {
                return false;
            }
        }
    }

    /// Reads until the channel ends; `None` when this end closed it.
    fn hear(
        &mut self,
        read: &OwnedFd,
        wake: &OwnedFd,
        signals: Option<&OwnedFd>,
    ) -> Result<Option<Event>, TransferError> {
        let mut frames = FrameReader::new();
        let mut buffer = vec![0; READ_BYTES];
        let lost = |error: Errno| {
            TransferError::Gone(format!(
                "the control channel broke: {}",
                io::Error::from(error)
            ))
        };
        loop {
            let mut polled = vec![
                PollFd::new(read, PollFlags::IN),
                PollFd::new(wake, PollFlags::IN),
            ];
            polled.extend(signals.map(|signals| PollFd::new(signals, PollFlags::IN)));
            match poll(&mut polled, None) {
                Err(Errno::INTR) => continue,
                other => other.map_err(lost)?,
            };
            if !polled[1].revents().is_empty() {
                return Ok(None);
            }
            if polled
                .get(2)
                .is_some_and(|signals| !signals.revents().is_empty())
            {
                let stop = TransferError::Here("stopped by a signal".to_owned());
                return Ok(Some(Event::Stop(stop)));
            }
            let count = match rustix::io::read(read, &mut buffer) {
                Err(Errno::INTR) => continue,
                Err(Errno::CONNRESET | Errno::IO) => 0,
                other => other.map_err(lost)?,
            };
            if count == 0 {
                if !frames.greeted() {
                    return Err(howdah_wire::FrameError::Foreign(frames.foreign()).into());
                }
                return Ok(Some(Event::Closed(None)));
            }
            frames.push(&buffer[..count]);
            while let Some(message) = frames.next_message()? {
                lock(&self.conversation).hear(&message)?;
                if matches!(message, Message::Content(_)) && !self.onward.wait(wake) {
                    return Ok(None);
                }
                if !self.report(Event::Message(message), wake) {
                    return Ok(None);
                }
            }
        }
    }
}

/// Whether this end closes within a time.
fn woken_within(time: Timespec, wake: &OwnedFd) -> bool {
    let mut polled = [PollFd::new(wake, PollFlags::IN)];
    poll(&mut polled, Some(&time)).is_ok_and(|count| count > 0)
}

fn write_messages(
    write: &OwnedFd,
    outgoing: &Outgoing,
    conversation: &Mutex<Conversation>,
    wake: &OwnedFd,
    heartbeat: Duration,
) {
    if write_all(write, &preamble(), wake).is_err() {
        return;
    }
    let mut greeted = false;
    loop {
        let message = match outgoing.next(heartbeat) {
            Next::Message(message) => message,
            Next::Nothing if greeted => Message::Alive,
            Next::Nothing => continue,
            Next::End => return,
        };
        greeted = true;
        let Ok(frame) = encode(&message) else {
            continue;
        };
        // Before it is written, so that the peer cannot answer what is not noted yet.
        lock(conversation).say(&message);
        if write_all(write, &frame, wake).is_err() {
            return;
        }
    }
}

fn write_all(write: &OwnedFd, mut bytes: &[u8], wake: &OwnedFd) -> Result<(), Errno> {
    while !bytes.is_empty() {
        let mut polled = [
            PollFd::new(write, PollFlags::OUT),
            PollFd::from_borrowed_fd(wake.as_fd(), PollFlags::IN),
        ];
        match poll(&mut polled, None::<&Timespec>) {
            Err(Errno::INTR) => continue,
            other => other?,
        };
        if !polled[1].revents().is_empty() {
            return Err(Errno::CANCELED);
        }
        let count = match rustix::io::write(write, &bytes[..bytes.len().min(WRITE_BYTES)]) {
            Err(Errno::INTR | Errno::AGAIN) => continue,
            other => other?,
        };
        bytes = &bytes[count..];
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use howdah_wire::Hello;

    #[test]
    fn an_end_that_is_busy_says_that_it_is_there_but_greets_first() {
        let (read, write) = rustix::pipe::pipe().unwrap();
        let wake = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
        let outgoing = Arc::new(Outgoing::default());
        let conversation = Mutex::new(Conversation::new(Side::Near));
        let beat = Duration::from_millis(5);
        let queue = Arc::clone(&outgoing);
        let writer =
            thread::spawn(move || write_messages(&write, &queue, &conversation, &wake, beat));
        thread::sleep(10 * beat);
        let hello = Message::Hello(Hello {
            version: "0".to_owned(),
            key: Vec::new(),
        });
        outgoing.say(hello.clone());
        let mut frames = FrameReader::new();
        let mut next = || loop {
            if let Some(message) = frames.next_message().unwrap() {
                return message;
            }
            let mut buffer = [0; READ_BYTES];
            let count = rustix::io::read(&read, &mut buffer).unwrap();
            assert!(count > 0, "the writer has gone");
            frames.push(&buffer[..count]);
        };
        assert_eq!(
            [next(), next(), next()],
            [hello, Message::Alive, Message::Alive]
        );
        outgoing.close();
        writer.join().unwrap();
    }
}
