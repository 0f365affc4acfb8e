//! A transfer under a schedule: who does what next, what is delivered, which connection breaks, and what
//! a hostile end says or does to the bytes.

use howdah_wire::Side;

use super::Fault;
use super::session::Session;
use crate::input::Input;
use crate::message::any_message;

/// Most steps that an honest transfer takes to its end, once nothing disturbs it.
const MOST_STEPS: usize = 4000;

/// A session and whoever disturbs it.
struct Transfer {
    session: Session,
    hostile: Option<Side>,
}

/// The first bytes say what is moved and who is hostile; each of the rest is a step.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let mut transfer = Transfer::new(&mut input);
    let mut fault = None;
    while !input.is_empty() && fault.is_none() {
        fault = transfer.step(&mut input).err();
        transfer.session.streams.receiver.check();
    }
    if transfer.hostile.is_some() {
        // A hostile end may keep the other one waiting. What it may not do is asserted where it would.
        for _ in 0..8 {
            fault = fault.or_else(|| transfer.session.round().err());
        }
        transfer.session.streams.receiver.check();
        assert!(fault.is_none_or(|fault| !fault.is_empty()));
        return;
    }
    assert_eq!(fault, None, "honest ends have nothing to refuse");
    for _ in 0..MOST_STEPS {
        if transfer.session.over() {
            break;
        }
        let round = transfer.session.round();
        assert_eq!(round, Ok(()), "honest ends have nothing to refuse");
    }
    assert!(
        transfer.session.over(),
        "a transfer that nothing disturbs ends"
    );
    transfer.session.assert_whole();
}

impl Transfer {
    fn new(input: &mut Input<'_>) -> Self {
        let kind = input.byte();
        let hostile = match kind >> 2 & 3 {
            0 | 1 => None,
            2 => Some(Side::Near),
            _ => Some(Side::Far),
        };
        let session = Session::new(kind, input);
        Self { session, hostile }
    }

    fn step(&mut self, input: &mut Input<'_>) -> Result<(), Fault> {
        let operation = input.byte();
        let choice = usize::from(operation >> 4);
        match operation & 15 {
            0 => self
                .session
                .deliver(Side::Far, 1 + 4 * usize::from(input.byte())),
            1 => self
                .session
                .deliver(Side::Near, 1 + 4 * usize::from(input.byte())),
            2 => {
                self.session.dial(choice);
                Ok(())
            }
            3..=5 => self
                .session
                .deliver_data(choice, 1 + usize::from(input.byte())),
            6 | 7 => self.session.streams.send(choice, false).map(drop),
            8 => {
                let fails = self.hostile.is_none() || input.byte() & 1 != 0;
                self.session.streams.send(choice, fails).map(drop)
            }
            9 => {
                self.session.streams.break_off(choice, input.byte());
                Ok(())
            }
            10 => {
                self.session.progress();
                Ok(())
            }
            11 => {
                self.session.steer();
                Ok(())
            }
            12 => {
                let side = if choice & 1 == 0 {
                    Side::Near
                } else {
                    Side::Far
                };
                self.session.alive(side);
                Ok(())
            }
            13 => self.session.finish(),
            _ => {
                self.harm(choice, input);
                Ok(())
            }
        }
    }

    /// Something that only a hostile end, or whoever sits before it, does.
    fn harm(&mut self, choice: usize, input: &mut Input<'_>) {
        let Some(hostile) = self.hostile else {
            return;
        };
        let (kind, at, with) = (choice & 3, usize::from(input.u16()), input.byte());
        match kind {
            0 => self.session.said_by(hostile).damage(at, with),
            1 => {
                let message = any_message(input);
                if let Ok(frame) = howdah_wire::encode(&message) {
                    self.session.said_by(hostile).put(&frame);
                }
            }
            _ => {
                let Some((said, place)) = self.session.streams.said_by(hostile, at) else {
                    return;
                };
                match kind {
                    2 => said.damage(place, with),
                    _ => said.put(input.bytes(usize::from(with) & 63)),
                }
            }
        }
    }
}

/// Schedules: quiet ones, ones that break, and hostile ones.
pub fn seeds() -> Vec<Vec<u8>> {
    let files = [5, 0, 7, 103, 205, 108];
    let begin = [0, 255, 1, 255, 0, 255, 1, 255, 0, 255];
    let work = |stream: u8| {
        let choice = stream << 4;
        vec![
            2 | choice,
            3 | choice,
            255,
            6 | choice,
            6 | choice,
            3 | choice,
            200,
            7 | choice,
            3 | choice,
            9,
        ]
    };
    let broken = |stream: u8| vec![9 | stream << 4, stream & 3, 10, 0, 99, 1, 99];
    let mut seeds = Vec::new();
    for kind in [0, 1, 2, 3, 0x30, 0x31, 0x72, 0x73, 8, 9, 12, 13, 0x3a, 0x3f] {
        let head = [kind, 0b0010_0000];
        let steps = [
            work(0),
            work(1),
            broken(0),
            work(0),
            work(2),
            broken(1),
            work(1),
            vec![8, 1],
        ]
        .concat();
        let harm = [
            14, 3, 0, 5, 0x1e, 0, 0, 0, 9, 1, 0x2e, 2, 0, 7, 0x3e, 0, 0, 4, 1, 2, 3, 4,
        ];
        seeds.push(
            [
                &head[..],
                &files[..],
                &begin,
                &steps,
                &harm,
                &work(3),
                &[10, 13],
            ]
            .concat(),
        );
    }
    seeds
}
