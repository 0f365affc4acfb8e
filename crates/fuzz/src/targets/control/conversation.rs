//! Messages of both ends in any order, judged by one of them.

use howdah_wire::{Conversation, Message, ProtocolError, Side};

use super::ledger::Ledger;
use crate::input::Input;
use crate::message::any_message;

pub fn run(data: &[u8]) {
    // What is wrong is refused, which is what the ledger looks at.
    let _ = judge(data);
}

/// Holds what an end takes for right against the ledger; the first message that it refuses, if there is one.
fn judge(data: &[u8]) -> Result<(), (Message, ProtocolError)> {
    let mut input = Input::new(data);
    let side = match input.byte() & 1 {
        0 => Side::Near,
        _ => Side::Far,
    };
    let mut conversation = Conversation::new(side);
    let mut ledger = Ledger::default();
    while !input.is_empty() {
        let heard = input.byte() & 3 != 0;
        let message = any_message(&mut input);
        if heard {
            if let Err(error) = conversation.hear(&message) {
                return Err((message, error));
            }
            ledger.hear(side, &message);
            assert_eq!(conversation.ended(), ledger.over());
        } else if ledger.may_say(side, &message) {
            conversation.say(&message);
            ledger.say(&message);
        }
    }
    Ok(())
}

pub fn seeds() -> Vec<Vec<u8>> {
    // Side, then for each message: 1 to receive it or 0 to send it, its kind, its choices.
    let hello = |kind| vec![1, kind, 1, b'0', 0];
    let begin = |heard, direction| vec![heard, 2, direction, 1, b's', 1, 1, b'd', 0, 0, 0, 0];
    let end = |streams| vec![0, 0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, streams, 0, 0, 9, 0, 1];
    let job = |heard, direction, streams| [begin(heard, direction), vec![0], end(streams)].concat();
    let deletes = |heard| [begin(heard, 0), vec![1, 0, 0], end(2)].concat();
    let far_hello = vec![1, 1, 1, b'0', 0, 7, 0, 1, b'a', 1, 1, 0];
    let offer = vec![
        1, 4, 0, 0, 0, 1, b'f', 0, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3,
    ];
    let answer = |heard| vec![heard, 5, 0, 1, 3];
    let finished = vec![1, 12, 0, 0, 0];
    vec![
        [
            vec![1],
            hello(0),
            job(1, 0, 2),
            offer.clone(),
            answer(0),
            finished.clone(),
        ]
        .concat(),
        [
            vec![0],
            far_hello.clone(),
            job(0, 1, 2),
            offer.clone(),
            answer(0),
            finished.clone(),
        ]
        .concat(),
        [
            vec![0],
            far_hello,
            job(0, 0, 2),
            vec![1, 3, 0, 1],
            vec![1, 7, 1, 1, 2, 0, 3, 2, 0, 0, 0, 0, 0],
            finished,
        ]
        .concat(),
        [
            vec![1],
            hello(0),
            [
                vec![1, 2, 0, 1, b's', 1, 1, b'd', 0, 0, 0, 2],
                vec![0],
                end(2),
            ]
            .concat(),
            offer,
            vec![0, 29, 0, 1, 0],
            vec![1, 30, 0, 0, 1],
        ]
        .concat(),
        [
            vec![1],
            hello(0),
            deletes(1),
            vec![1, 23, 0, 1, b'f', 7, 2, 0, 0],
            vec![1, 23, 0, 1, b'f', 7, 2, 1, 0],
            vec![1, 24, 1],
        ]
        .concat(),
        [
            vec![0, 1, 1, 1, b'0', 0, 7, 0, 1, b'a', 1, 1, 0],
            deletes(0),
            vec![1, 3, 0, 1],
            vec![1, 12, 0, 0, 1, 3, 2, 0, 0],
        ]
        .concat(),
        [
            vec![1],
            hello(0),
            job(1, 1, 3),
            vec![1, 15, 0, 2, 0],
            vec![0, 17, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, b'c'],
        ]
        .concat(),
    ]
}

#[test]
fn each_seed_is_taken_for_right_to_its_end() {
    let judged: Vec<_> = seeds().iter().map(|seed| judge(seed)).collect();
    assert!(judged.iter().all(Result::is_ok), "{judged:#?}");
}
