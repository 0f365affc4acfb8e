//! The receiver's answers to offers.

use std::sync::Mutex;

use howdah_wire::limits::MAX_SPANS;
use howdah_wire::{Answer, Found, Message, Offer, Offered, Side};

use crate::end::abort::lock;
use crate::end::context::Context;
use crate::session::listing::Listing;
use crate::tree::needed::Need;

/// Answers an offer with the files that are needed, and notes the others as skipped. In a dry run a near end lists
/// all of them.
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
    let lists = context.job.dry_run && context.side == Side::Near;
    let (mut skipped_files, mut skipped_bytes) = (0, 0_u64);
    for ((file, &needed), left_out) in offer.files.into_iter().zip(&needed).zip(left_out) {
        if left_out {
            continue;
        }
        if !needed && file.kind == Offered::File {
            skipped_files += 1;
            skipped_bytes = skipped_bytes.saturating_add(file.size);
        }
        if lists {
            let kind = file.kind.kind();
            lock(listed).add_answered(file.source, file.path, kind, file.size, needed);
        }
    }
    let skipped = &mut lock(&context.board.notes).skipped;
    skipped.files += skipped_files;
    skipped.bytes = skipped.bytes.saturating_add(skipped_bytes);
    context.control.say(Message::Answer(Answer {
        first: offer.first,
        needed,
        found,
        other_xattrs,
    }));
}
