//! Sends probes by a schedule and takes what comes back, on a thread of its own.
//!
//! A probe is taken to leave when it is handed to the kernel: what waits in this host's own queue waits as the
//! data will, so it is part of the round trip. Its answer came when the kernel of this host received it.

use std::{
    net::SocketAddr,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    time::{ClockId, clock_gettime},
};
use serde::{Deserialize, Serialize};

use crate::{
    Account, Counts, Error, Look, ProbeKind, Reading, Rhythm, Schedule, Token, arrival,
    packet::{
        Echo, Icmp, PROBE_BYTES, icmp_probe, read_icmp, read_udp_answer, udp_probe,
        without_ipv4_header,
    },
    socket::Socket,
};

/// A probe is lost this long after it left.
const PATIENCE_NS: u64 = 3_000_000_000;
/// What is still out at the end gets twice the longest round trip so far, and this.
const LAST_CALL_NS: u64 = 100_000_000;
/// How long a wait looks away from the stop.
const GLANCE_NS: u64 = 50_000_000;
const ONE_INSTANT_NS: u64 = 10_000;
const READINGS: u32 = 5;
const LONGEST_NS: u64 = 24 * 3600 * 1_000_000_000;
const STEP_NS: std::ops::RangeInclusive<u64> = 1_000_000..=60_000_000_000;

/// A probing, as it is asked for.
#[derive(Clone, Debug, Deserialize)]
pub struct Wanted {
    /// By what.
    #[serde(rename = "way")]
    pub kind: ProbeKind,
    /// As `192.0.2.7:0` and `[fe80::7%3]:0`; the port is the responder's.
    pub to: String,
    /// The responder's, 32 hexadecimal digits; none for ICMP.
    pub token: Option<String>,
    /// How long probes are sent.
    pub for_ns: u64,
    /// When.
    pub rhythm: Rhythm,
}

/// What happened since it was last asked.
#[derive(Debug, Serialize)]
pub struct Taken {
    /// Probes whose fate became known.
    pub looks: Vec<Look>,
    /// All so far.
    pub counts: Counts,
    /// Since the probing began.
    pub elapsed_s: f64,
    /// The last error that this host, a router or the far one gave in place of an answer.
    pub refused: Option<String>,
    /// Nothing more will come.
    pub ended: bool,
}

struct State {
    account: Account,
    refused: Option<String>,
    stop: bool,
    ended: bool,
}

struct Shared {
    state: Mutex<State>,
    ended: Condvar,
    began: Instant,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Both clocks at one instant, or nearly so where this thread is interrupted all the time.
    fn reading(&self) -> Reading {
        let mut tries = 0;
        loop {
            let before_ns = self.now_ns();
            let day = clock_gettime(ClockId::Realtime);
            let monotonic_ns = self.now_ns();
            tries += 1;
            if monotonic_ns - before_ns < ONE_INSTANT_NS || tries == READINGS {
                return Reading {
                    monotonic_ns,
                    realtime_ns: day.tv_sec * 1_000_000_000 + day.tv_nsec,
                };
            }
        }
    }

    fn now_ns(&self) -> u64 {
        self.began.elapsed().as_nanos() as u64
    }
}

/// A probing on its way; it stops when this is dropped.
pub struct Prober {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Prober {
    /// Begins at once.
    ///
    /// # Errors
    /// When the target cannot be, this user may not, or there is no way there.
    pub fn start(wanted: &Wanted) -> Result<Self, Error> {
        let (to, token) = checked(wanted)?;
        let socket = Socket::connected(wanted.kind, to)?;
        let seed = u64::from_be_bytes(std::array::from_fn(|index| token.0[index]));
        let schedule = Schedule::new(wanted.rhythm, wanted.for_ns, seed);
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                account: Account::new(PATIENCE_NS),
                refused: None,
                stop: false,
                ended: false,
            }),
            ended: Condvar::new(),
            began: Instant::now(),
        });
        let mut work = Work {
            socket,
            kind: wanted.kind,
            icmp: if to.is_ipv4() { Icmp::V4 } else { Icmp::V6 },
            token,
            schedule,
            step_ns: wanted.rhythm.step_ns,
            for_ns: wanted.for_ns,
            sent: Vec::new(),
            shared: Arc::clone(&shared),
        };
        let thread = thread::Builder::new()
            .name("howdah-probe".to_owned())
            .spawn(move || work.run())
            .map_err(|source| Error::Socket {
                what: "start a thread for",
                source,
            })?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// What happened, after `timeout` or when the probing has ended, whichever is first.
    #[must_use]
    pub fn take(&self, timeout: Duration) -> Taken {
        let (mut state, _) = self
            .shared
            .ended
            .wait_timeout_while(self.shared.lock(), timeout, |state| !state.ended)
            .unwrap_or_else(PoisonError::into_inner);
        Taken {
            looks: state.account.take(),
            counts: state.account.counts(),
            elapsed_s: self.shared.now_ns() as f64 / 1e9,
            refused: state.refused.clone(),
            ended: state.ended,
        }
    }

    /// Sends no more and waits for no answer. What left a moment ago is then neither answered nor lost.
    pub fn stop(&self) {
        self.shared.lock().stop = true;
    }
}

impl Drop for Prober {
    fn drop(&mut self) {
        self.stop();
        if let Some(thread) = self.thread.take() {
            // A panic there has been printed; there is nothing left to undo.
            let _ = thread.join();
        }
    }
}

fn checked(wanted: &Wanted) -> Result<(SocketAddr, Token), Error> {
    let no = |why: String| Error::Wanted(why);
    let to = wanted
        .to
        .parse()
        .map_err(|_| no(format!("{:?} is no address to probe", wanted.to)))?;
    let token = match (&wanted.token, wanted.kind) {
        (Some(text), ProbeKind::Udp) => {
            Token::from_hex(text).ok_or_else(|| no("the far end's token is none".to_owned()))?
        }
        (None, ProbeKind::Icmp) => Token::random().map_err(|source| Error::Socket {
            what: "get a token for",
            source,
        })?,
        _ => {
            return Err(no(
                "a UDP probing has a responder's token, one by ICMP has none".to_owned(),
            ));
        }
    };
    let Rhythm { step_ns, burst } = wanted.rhythm;
    if !STEP_NS.contains(&step_ns) || !(1..=LONGEST_NS).contains(&wanted.for_ns) {
        return Err(no(
            "a probing has steps of 1 ms to 60 s and lasts up to a day".to_owned(),
        ));
    }
    let bursts_fit = |burst: crate::Burst| {
        burst
            .gap_ns
            .checked_mul(burst.count)
            .is_some_and(|whole_ns| whole_ns < burst.every_ns)
            && burst.count <= burst.every_ns / *STEP_NS.start()
    };
    if !burst.is_none_or(bursts_fit) {
        return Err(no(
            "bursts overlap, or are of more than a probe a millisecond".to_owned(),
        ));
    }
    Ok((to, token))
}

/// How long the last probes are waited for.
fn last_call_ns(account: &Account) -> u64 {
    (2 * account.longest_rtt_ns()).min(PATIENCE_NS - LAST_CALL_NS) + LAST_CALL_NS
}

struct Work {
    socket: Socket,
    kind: ProbeKind,
    icmp: Icmp,
    token: Token,
    schedule: Schedule,
    step_ns: u64,
    for_ns: u64,
    /// By number.
    sent: Vec<Reading>,
    shared: Arc<Shared>,
}

impl Work {
    fn run(&mut self) {
        while let Some(until_ns) = self.next_instant_ns() {
            self.wait(until_ns);
            self.receive();
            self.shared.lock().account.settle(self.shared.now_ns());
            self.send_due();
        }
        let mut state = self.shared.lock();
        let now_ns = self.shared.now_ns();
        let until_lost_ns = match (state.stop, state.account.longest_rtt_ns()) {
            (false, _) => 0,
            (true, 0) => PATIENCE_NS,
            (true, _) => last_call_ns(&state.account),
        };
        state.account.close(now_ns, until_lost_ns);
        state.ended = true;
        self.shared.ended.notify_all();
    }

    /// Until when there is nothing to do but to receive; none at the end.
    fn next_instant_ns(&self) -> Option<u64> {
        let state = self.shared.lock();
        if state.stop {
            return None;
        }
        if let Some(due) = self.schedule.next() {
            return Some(due.at_ns);
        }
        let end_ns = self.for_ns + last_call_ns(&state.account);
        (state.account.outstanding() > 0 && self.shared.now_ns() < end_ns).then_some(end_ns)
    }

    fn wait(&self, until_ns: u64) {
        let left_ns = until_ns.saturating_sub(self.shared.now_ns()).min(GLANCE_NS);
        let timeout = Timespec {
            tv_sec: 0,
            tv_nsec: left_ns as _,
        };
        let mut polled = [PollFd::new(&self.socket, PollFlags::IN)];
        // A signal, or whatever else ends it early, is another look at the clock.
        let _ = poll(&mut polled, Some(&timeout));
    }

    /// Sends what is due; what should have left more than a step ago is left out, so that nothing is sent in a
    /// rush after this host has slept.
    fn send_due(&mut self) {
        while let Some(due) = self.schedule.next() {
            let reading = self.shared.reading();
            if reading.monotonic_ns < due.at_ns {
                return;
            }
            self.schedule.advance();
            let mut state = self.shared.lock();
            let late_ns = reading.monotonic_ns - due.at_ns;
            if late_ns > self.step_ns {
                state.account.skip();
                continue;
            }
            let number = state.account.send(due.slot, reading.monotonic_ns, late_ns);
            drop(state);
            self.sent.push(reading);
            if let Err(errno) = self.send(number) {
                self.shared.lock().refused = Some(std::io::Error::from(errno).to_string());
            }
        }
    }

    fn send(&self, number: u64) -> Result<(), Errno> {
        let bytes = match self.kind {
            ProbeKind::Udp => udp_probe(self.token, number),
            ProbeKind::Icmp => icmp_probe(self.icmp, self.token, number),
        };
        // The first error may be of a probe before, told now, and this one has not left yet.
        self.socket
            .send(&bytes)
            .or_else(|_| self.socket.send(&bytes))
    }

    fn receive(&mut self) {
        let mut buffer = [0; 4 * PROBE_BYTES];
        loop {
            match self.socket.receive(&mut buffer) {
                Ok(None) => return,
                Ok(Some(received)) => {
                    self.take(&buffer[..received.length], received.stamp_ns);
                }
                Err(error) => {
                    self.shared.lock().refused = Some(error.to_string());
                    return;
                }
            }
        }
    }

    fn take(&self, bytes: &[u8], stamp_ns: Option<i64>) {
        let read = self.shared.reading();
        let answer = match self.kind {
            ProbeKind::Udp => read_udp_answer(bytes, self.token),
            ProbeKind::Icmp => {
                let bytes = if self.socket.raw && self.icmp == Icmp::V4 {
                    without_ipv4_header(bytes)
                } else {
                    bytes
                };
                match read_icmp(bytes, self.icmp, self.token, self.socket.raw) {
                    Echo::Answer(number) => Some((number, 0)),
                    Echo::Foreign => None,
                    Echo::Other => return,
                }
            }
        };
        let mut state = self.shared.lock();
        let Some((number, held_ns)) = answer else {
            state.account.foreign();
            return;
        };
        let sent = usize::try_from(number)
            .ok()
            .and_then(|index| self.sent.get(index));
        let Some(sent) = sent else {
            state.account.foreign();
            return;
        };
        let came = arrival(*sent, read, stamp_ns);
        let verdict = state.account.answer(number, came.at_ns, held_ns);
        if !came.by_kernel && matches!(verdict, crate::Verdict::InTime(_)) {
            state.account.unstamped();
        }
    }
}
