//! Samples of `TCP_INFO` of the sending sockets, and their account at the end.

use std::collections::HashMap;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use howdah_tcp::{Info, Limit, Settings, SocketPlan};
use howdah_wire::{LimitedBy, Sample, StreamSummary, Totals};

use crate::abort::Abort;
use crate::door::NOTSENT_LOWAT_BYTES;

/// Rounds of samples kept. When there are more, every other one goes and the interval doubles.
const MAX_ROUNDS: usize = 20_000;

/// A path is dead when it lets no acknowledgement through for this long. `TCP_USER_TIMEOUT` is of no
/// use here: it counts a window that stays closed like silence (`tcp_probe_timer`, Linux 5.11), and
/// a disk may take longer than this to write what it was given.
const DEAD_AFTER: Duration = Duration::from_secs(30);

/// What a socket may have unsent is at least what it sends in this time.
const FED_FOR_MS: u64 = 20;
/// The most it may have unsent.
const MOST_UNSENT_BYTES: u32 = 4 << 20;

/// Samples the sockets of one sending end.
#[derive(Debug)]
pub struct Sampler {
    started: Instant,
    streams: HashMap<u16, Seen>,
}

#[derive(Debug)]
struct Seen {
    at: Instant,
    info: Info,
    max_cwnd: u32,
    /// When the receiver was last known to be there.
    answered: Instant,
}

impl Sampler {
    /// Times of samples count from `started`.
    pub fn new(started: Instant) -> Self {
        Self {
            started,
            streams: HashMap::new(),
        }
    }

    /// Asks every socket once. One that cannot be asked, or has no round trip yet, is left out.
    pub fn sample(&mut self, abort: &Abort) -> Vec<Sample> {
        let mut samples = Vec::new();
        abort.each(|stream, socket| {
            if let Ok(info) = Info::read(socket)
                && let (Some(rtt), Some(min_rtt)) = (info.rtt, info.min_rtt)
            {
                keep_fed(socket, &info);
                samples.push(self.one(stream, info, (rtt, min_rtt), Instant::now()));
            }
        });
        samples
    }

    /// Whether a stream has data that the receiver has not acknowledged.
    pub fn waiting(&self) -> bool {
        self.streams
            .values()
            .any(|seen| seen.info.unacked_segments > 0 || seen.info.notsent_bytes > 0)
    }

    /// Whether the path of a stream is dead.
    pub fn dead(&self) -> bool {
        let silent = |seen: &Seen| seen.at.duration_since(seen.answered);
        self.streams.values().any(|seen| silent(seen) > DEAD_AFTER)
    }

    fn one(
        &mut self,
        stream: u16,
        info: Info,
        (rtt, min_rtt): (Duration, Duration),
        now: Instant,
    ) -> Sample {
        let earlier = self.streams.get(&stream);
        let limited =
            earlier.and_then(|seen| info.limited_by(&seen.info, now.duration_since(seen.at)));
        let max_cwnd = earlier
            .map_or(0, |seen| seen.max_cwnd)
            .max(info.cwnd_segments);
        let answered = match earlier {
            Some(seen) if waits_for_an_answer(&info, &seen.info) => seen.answered,
            _ => now,
        };
        let sample = Sample {
            at_ns: u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX),
            stream,
            bytes_acked: info.bytes_acked,
            cwnd: info.cwnd_segments,
            ssthresh: info.ssthresh_segments,
            rtt_us: micros(rtt),
            min_rtt_us: micros(min_rtt),
            retransmissions: u64::from(info.retransmissions),
            delivery_rate_bps: info.delivery_bps.unwrap_or(0),
            pacing_rate_bps: info.pacing_bps,
            notsent_bytes: u64::from(info.notsent_bytes),
            limited: limited.map(limited_by),
        };
        self.streams.insert(
            stream,
            Seen {
                at: now,
                info,
                max_cwnd,
                answered,
            },
        );
        sample
    }

    /// The account of every socket that is still there, by index; `totals` is what each carried.
    pub fn summaries(&self, abort: &Abort, totals: &[(u16, Totals)]) -> Vec<StreamSummary> {
        let mut summaries = Vec::new();
        abort.each(|stream, socket| {
            let index = usize::from(stream);
            if summaries.len() <= index {
                summaries.resize(index + 1, StreamSummary::default());
            }
            let carried = totals.iter().find(|(of, _)| *of == stream);
            let mut summary = summary(socket, carried.map_or(0, |(_, totals)| totals.bytes));
            summary.max_cwnd = self.streams.get(&stream).map(|seen| seen.max_cwnd);
            summaries[index] = summary;
        });
        summaries
    }
}

/// Whether data is on the way and none of it was acknowledged since `earlier`, although the receiver
/// has room.
fn waits_for_an_answer(info: &Info, earlier: &Info) -> bool {
    info.unacked_segments > 0
        && info.bytes_acked == earlier.bytes_acked
        && info.send_window_bytes != Some(0)
}

/// Lets a fast socket take more unsent bytes, so that it does not run dry while its thread waits
/// for a core.
fn keep_fed(socket: BorrowedFd<'_>, info: &Info) {
    let in_time = info.delivery_bps.unwrap_or(0) / 8 * FED_FOR_MS / 1000;
    let bytes = u32::try_from(in_time)
        .unwrap_or(u32::MAX)
        .clamp(NOTSENT_LOWAT_BYTES, MOST_UNSENT_BYTES);
    // A socket that refuses keeps what it has.
    let _ = SocketPlan {
        notsent_lowat_bytes: Some(bytes),
        ..SocketPlan::default()
    }
    .apply(socket);
}

/// The account of one socket.
pub fn summary(socket: BorrowedFd<'_>, bytes: u64) -> StreamSummary {
    let info = Info::read(socket).ok();
    let settings = Settings::read(socket).ok();
    StreamSummary {
        bytes,
        retransmissions: info
            .as_ref()
            .map_or(0, |info| u64::from(info.retransmissions)),
        min_rtt_us: info.and_then(|info| info.min_rtt).map(micros),
        congestion_control: settings.as_ref().map(|set| set.congestion_control.clone()),
        send_buffer_bytes: settings.as_ref().map(|set| set.send_buffer_bytes),
        receive_buffer_bytes: settings.as_ref().map(|set| set.receive_buffer_bytes),
        max_cwnd: None,
    }
}

fn micros(duration: Duration) -> u32 {
    u32::try_from(duration.as_micros()).unwrap_or(u32::MAX)
}

fn limited_by(limit: Limit) -> LimitedBy {
    match limit {
        Limit::Cwnd => LimitedBy::Cwnd,
        Limit::App => LimitedBy::App,
        Limit::Rwnd => LimitedBy::Rwnd,
        Limit::Sndbuf => LimitedBy::Sndbuf,
    }
}

/// The samples of a transfer, however long it takes.
#[derive(Debug)]
pub struct Trace {
    rounds: Vec<Vec<Sample>>,
    keep_every: usize,
    seen: usize,
}

impl Trace {
    /// No samples yet.
    pub fn new() -> Self {
        Self {
            rounds: Vec::new(),
            keep_every: 1,
            seen: 0,
        }
    }

    /// Adds the samples of one instant.
    pub fn add(&mut self, round: Vec<Sample>) {
        if !round.is_empty() && self.seen.is_multiple_of(self.keep_every) {
            self.rounds.push(round);
        }
        self.seen += 1;
        if self.rounds.len() > MAX_ROUNDS {
            let mut index = 0;
            self.rounds.retain(|_| {
                index += 1;
                index % 2 == 1
            });
            self.keep_every *= 2;
        }
    }

    /// All samples kept, in time.
    pub fn samples(&self) -> impl Iterator<Item = &Sample> {
        self.rounds.iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn a_socket_is_sampled_and_accounted_for() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let abort = Abort::default();
        abort.register(1, socket.into());
        let mut sampler = Sampler::new(Instant::now());
        let samples = sampler.sample(&abort);
        assert_eq!(samples.len(), 1);
        assert!(samples[0].stream == 1 && samples[0].cwnd > 0);
        let totals = Totals {
            bytes: 7,
            ..Totals::default()
        };
        let summaries = sampler.summaries(&abort, &[(1, totals)]);
        assert_eq!(summaries.len(), 2);
        assert_eq!(summaries[1].bytes, 7);
        assert_eq!(summaries[1].max_cwnd, Some(samples[0].cwnd));
        assert!(summaries[1].congestion_control.is_some());
    }

    #[test]
    fn a_path_is_dead_when_nothing_is_acknowledged_but_not_when_the_receiver_has_no_room() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let silent = Info {
            unacked_segments: 3,
            send_window_bytes: Some(1000),
            ..Info::read(&socket).unwrap()
        };
        let closed = Info {
            send_window_bytes: Some(0),
            ..silent.clone()
        };
        let idle = Info {
            unacked_segments: 0,
            ..silent.clone()
        };
        let started = Instant::now();
        for (info, dead) in [(silent, true), (closed, false), (idle, false)] {
            let mut sampler = Sampler::new(started);
            let mut sample = |info: Info, after: Duration| {
                sampler.one(0, info, (Duration::ZERO, Duration::ZERO), started + after);
                sampler.dead()
            };
            let second = Duration::from_secs(1);
            assert!(!sample(info.clone(), Duration::ZERO));
            assert!(!sample(info.clone(), DEAD_AFTER));
            assert_eq!(sample(info.clone(), DEAD_AFTER + second), dead, "{info:?}");
            let acked = Info {
                bytes_acked: info.bytes_acked + 1,
                ..info.clone()
            };
            assert!(!sample(acked, DEAD_AFTER + 2 * second));
        }
    }

    #[test]
    fn a_trace_never_grows_without_bound_and_keeps_its_span() {
        let mut trace = Trace::new();
        for at_ns in 0..3 * MAX_ROUNDS as u64 {
            let sample = Sample {
                at_ns,
                ..Sample::default()
            };
            trace.add(vec![sample]);
        }
        let times: Vec<u64> = trace.samples().map(|sample| sample.at_ns).collect();
        assert!(times.len() <= MAX_ROUNDS);
        assert!(times[0] == 0 && *times.last().unwrap() > 3 * MAX_ROUNDS as u64 - 10);
        assert!(
            times
                .windows(2)
                .all(|pair| pair[1] - pair[0] == times[1] - times[0])
        );
    }
}
