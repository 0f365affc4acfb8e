//! Copies that compare files by their content. Offers wait at the receiver until the digests of both ends are known.
//!
//! Only files of the same size are read, at both ends at once. Offers are answered in their order.

use std::collections::VecDeque;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use howdah_wire::{Compare, Compared, Message, Offer, OfferedFile, TreePath};

use crate::end::abort::lock;
use crate::end::context::Context;
use crate::error::TransferError;
use crate::session::answering::answer;
use crate::session::digesting::{Digesting, FileBlake3, Files, digest};
use crate::session::listing::Listing;
use crate::streams::receive::Receiving;
use crate::streams::send::Sending;
use crate::tree::needed::Need;

/// A file of the sender whose digest the receiver needs.
#[derive(Debug, Clone)]
pub struct Asked {
    /// Index of its source.
    pub source: u16,
    /// Its path below that source.
    pub path: TreePath,
    /// Its size in bytes, when it was found.
    pub size: u64,
    /// Its modification time then, in nanoseconds since 1970.
    pub mtime_ns: i64,
}

impl Files for Arc<Sending> {
    type File = Asked;

    fn digest(&self, context: &Context, file: &Asked, read: &AtomicU64) -> FileBlake3 {
        let Asked { source, path, .. } = file;
        // Why it cannot be read is said when it is sent.
        let open = self
            .sources
            .open_file(None, *source, path, file.size, file.mtime_ns)
            .ok()?;
        let digest = digest(context, open.descriptor(), file.size, read);
        digest.filter(|_| open.changed().is_none())
    }

    fn take(
        &self,
        context: &Context,
        first: u64,
        blake3: Vec<FileBlake3>,
    ) -> Result<(), TransferError> {
        let compared = Compared { first, blake3 };
        context.control.say(Message::Compared(compared));
        Ok(())
    }
}

/// The files that the sender has to read, and their bytes.
pub struct Asking {
    digesting: Arc<Digesting<Arc<Sending>>>,
    /// Sizes of all that was asked for, in bytes.
    asked: u64,
}

impl Asking {
    /// Nothing was asked for.
    pub fn new(sending: &Arc<Sending>) -> Self {
        Self {
            digesting: Digesting::new(Arc::clone(sending)),
            asked: 0,
        }
    }

    /// Begins to read the files that the receiver asks for.
    ///
    /// # Errors
    /// When the system has no thread left.
    pub fn hear(&mut self, context: &Arc<Context>, compare: &Compare) -> Result<(), TransferError> {
        let asked = self.digesting.files().queue.asked(compare)?;
        let bytes: u64 = asked.iter().map(|file| file.size).sum();
        self.asked = self.asked.saturating_add(bytes);
        self.digesting.add(context, compare.first, asked)
    }

    /// The bytes that were read so far.
    pub fn read_bytes(&self) -> u64 {
        self.digesting.read_bytes()
    }

    /// Whether this end still has to read.
    pub fn is_busy(&self) -> bool {
        self.digesting.is_busy()
    }

    /// The bytes that the receiver reports as read, limited to what is possible.
    pub fn believed(&self, said: u64) -> u64 {
        said.min(self.asked)
    }
}

/// An offer that waits.
struct Waiting {
    offer: Offer,
    needs: Vec<Need>,
    here: Option<Vec<FileBlake3>>,
    there: Option<Vec<FileBlake3>>,
}

/// The receiver's part of the comparison.
pub struct Comparing {
    digesting: Arc<Digesting<Receiver>>,
    asked: u64,
}

/// The receiver's files, for the threads that read them.
pub struct Receiver {
    receiving: Arc<Receiving>,
    listed: Arc<Mutex<Listing>>,
    /// Offers that wait, in their order.
    waiting: Mutex<VecDeque<Waiting>>,
}

impl Files for Receiver {
    type File = OfferedFile;

    fn digest(&self, context: &Context, file: &OfferedFile, read: &AtomicU64) -> FileBlake3 {
        let open = self.receiving.placement().open_there(file)?;
        digest(context, &open, file.size, read)
    }

    fn take(
        &self,
        context: &Context,
        first: u64,
        digests: Vec<FileBlake3>,
    ) -> Result<(), TransferError> {
        self.set(context, first, |one| one.here = Some(digests))
    }
}

impl Receiver {
    /// Notes digests of an offer, and answers what can be answered.
    fn set(
        &self,
        context: &Context,
        first: u64,
        set: impl FnOnce(&mut Waiting),
    ) -> Result<(), TransferError> {
        let mut waiting = lock(&self.waiting);
        if let Some(one) = waiting.iter_mut().find(|one| one.offer.first == first) {
            set(one);
        }
        self.answer(context, &mut waiting)
    }

    fn answer(
        &self,
        context: &Context,
        waiting: &mut VecDeque<Waiting>,
    ) -> Result<(), TransferError> {
        while waiting
            .front()
            .is_some_and(|one| one.here.is_some() && one.there.is_some())
            && let Some(mut one) = waiting.pop_front()
        {
            let here = one.here.take().unwrap_or_default();
            let there = one.there.take().unwrap_or_default();
            let mut same = here
                .into_iter()
                .zip(there)
                .map(|(here, there)| here.is_some() && here == there);
            let placement = self.receiving.placement();
            for (file, need) in one.offer.files.iter().zip(&mut one.needs) {
                if *need == Need::Comparison {
                    let same = same.next().unwrap_or(false);
                    let not_kept = |why| context.leave_out_once(why);
                    *need = placement.compared(file, same, context.job.dry_run, not_kept)?;
                }
            }
            answer(context, &self.listed, one.offer, one.needs);
        }
        Ok(())
    }
}

impl Comparing {
    /// No offer has come.
    pub fn new(receiving: &Arc<Receiving>, listed: &Arc<Mutex<Listing>>) -> Self {
        Self {
            digesting: Digesting::new(Receiver {
                receiving: Arc::clone(receiving),
                listed: Arc::clone(listed),
                waiting: Mutex::default(),
            }),
            asked: 0,
        }
    }

    /// Puts an offer off until its files are compared, and asks for their digests.
    ///
    /// # Errors
    /// When the system has no thread left, and as an answer fails.
    pub fn put_off(
        &mut self,
        context: &Arc<Context>,
        offer: Offer,
        needs: Vec<Need>,
    ) -> Result<(), TransferError> {
        let indexes = (0u16..).zip(&offer.files).zip(&needs);
        let (files, asked): (Vec<u16>, Vec<OfferedFile>) = indexes
            .filter(|(_, need)| **need == Need::Comparison)
            .map(|((index, file), _)| (index, file.clone()))
            .unzip();
        let bytes = asked.iter().map(|file| file.size);
        self.asked = bytes.fold(self.asked, u64::saturating_add);
        let first = offer.first;
        let none = files.is_empty().then(Vec::new);
        let receiver = self.digesting.files();
        let mut waiting = lock(&receiver.waiting);
        waiting.push_back(Waiting {
            offer,
            needs,
            here: none.clone(),
            there: none,
        });
        if asked.is_empty() {
            return receiver.answer(context, &mut waiting);
        }
        drop(waiting);
        context
            .control
            .say(Message::Compare(Compare { first, files }));
        self.digesting.add(context, first, asked)
    }

    /// Handles the sender's digests. `howdah_wire::Conversation` has checked that they were asked for.
    ///
    /// # Errors
    /// As an answer fails.
    pub fn hear(&self, context: &Context, compared: Compared) -> Result<(), TransferError> {
        let Compared { first, blake3 } = compared;
        let receiver = self.digesting.files();
        receiver.set(context, first, |one| one.there = Some(blake3))
    }

    /// The bytes that were read so far.
    pub fn read_bytes(&self) -> u64 {
        self.digesting.read_bytes()
    }

    /// Whether this end still has to read.
    pub fn is_busy(&self) -> bool {
        self.digesting.is_busy()
    }

    /// Whether offers wait.
    pub fn is_waiting(&self) -> bool {
        !lock(&self.digesting.files().waiting).is_empty()
    }

    /// The bytes that the sender reports as read, limited to what is possible.
    pub fn believed(&self, said: u64) -> u64 {
        said.min(self.asked)
    }
}
