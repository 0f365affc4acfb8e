//! What the receiver says to an offer.

use std::sync::Mutex;

use howdah_wire::limits::MAX_SPANS;
use howdah_wire::{Answer, Found, Message, Offer, Side};

use crate::end::abort::lock;
use crate::end::context::Context;
use crate::session::listing::{Action, Listing};
use crate::tree::needed::Need;

/// Answers an offer by what is needed of its files, and notes the others as skipped; a near end lists all of a dry run.
pub fn answer(context: &Context, listed: &Mutex<Listing>, offer: Offer, needs: Vec<Need>) {
    let mut needed = Vec::with_capacity(needs.len());
    let (mut found, mut other_xattrs) = (Vec::new(), Vec::new());
    let left_out: Vec<bool> = needs.iter().map(|need| *need == Need::LeftOut).collect();
    let mut left = MAX_SPANS;
    for (index, need) in (0u16..).zip(needs) {
        needed.push(matches!(need, Need::AllBut(_)));
        if need == Need::Xattrs {
            other_xattrs.push(index);
        }
        if let Need::AllBut(spans) = need
            && (1..=left).contains(&spans.len())
        {
            left -= spans.len();
            found.push(Found { index, spans });
        }
    }
    let mut notes = lock(&context.board.notes);
    let files = offer.files.iter().zip(needed.iter().zip(&left_out));
    for (file, _) in files.filter(|(_, (needed, left_out))| !**needed && !**left_out) {
        notes.skipped.files += 1;
        notes.skipped.bytes = notes.skipped.bytes.saturating_add(file.size);
    }
    drop(notes);
    if context.job.dry_run && context.side == Side::Near {
        let files = offer.files.into_iter().zip(needed.iter().zip(&left_out));
        for (file, (&needed, _)) in files.filter(|(_, (_, left_out))| !**left_out) {
            let action = Action::of(needed);
            lock(listed).add(file.source, file.path, file.size, action);
        }
    }
    context.control.say(Message::Answer(Answer {
        first: offer.first,
        needed,
        found,
        other_xattrs,
    }));
}
