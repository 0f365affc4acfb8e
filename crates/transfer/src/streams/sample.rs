//! Samples of `TCP_INFO` of the sending sockets, and their statistics at the end.

use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use howdah_tcp::{Info, Limit, Settings, SocketPlan};
use howdah_wire::{Connection, LimitedBy, Sample, Spent, StreamSummary, Totals};

use crate::connect::setup::NOTSENT_LOWAT_BYTES;
use crate::end::abort::Abort;
use crate::end::spent::Books;

/// Rounds of samples kept. When there are more, every other one goes and the interval doubles.
const MAX_ROUNDS: usize = 20_000;

/// A path is dead when it lets no acknowledgement through for this long beyond what timeouts of TCP
/// explain. `TCP_USER_TIMEOUT` is of no use here: it counts a window that stays closed like silence
/// (`tcp_probe_timer`, Linux 5.11), and a disk may take longer than this to write what it was given.
const DEAD_AFTER: Duration = Duration::from_secs(2);
/// Three timeouts in a row, each twice as long as the one before (RFC 6298 §5.5), take so many of the first.
const EXPLAINED_TIMEOUTS: u32 = 1 + 2 + 4;
/// The least that a timeout is above the round trip (`TCP_RTO_MIN`).
const LEAST_TIMEOUT_MARGIN: Duration = Duration::from_millis(200);
/// Between two samples at most this time counts. What is longer was this host's own pause.
const LONGEST_LOOK: Duration = Duration::from_secs(1);

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
    connection: Connection,
    open: bool,
    at: Instant,
    info: Info,
    before: Before,
    max_cwnd: u32,
    /// How long the receiver has acknowledged nothing that waits for it.
    unanswered: Duration,
}

/// The statistics of a stream's earlier connections.
#[derive(Debug, Clone, Copy, Default)]
struct Before {
    bytes_acked: u64,
    retransmissions: u64,
    busy: Duration,
    rwnd_limited: Duration,
    sndbuf_limited: Duration,
}

impl Sampler {
    /// Times of samples count from `started`.
    pub fn new(started: Instant) -> Self {
        Self {
            started,
            streams: HashMap::new(),
        }
    }

    /// Reads every socket once. A socket that cannot be read, or has no round trip yet, is left out.
    pub fn sample(&mut self, abort: &Abort) -> Vec<Sample> {
        let mut samples = Vec::new();
        abort.each(|socket| {
            if let Ok(info) = Info::read(socket)
                && let (Some(rtt), Some(min_rtt)) = (info.rtt, info.min_rtt)
            {
                keep_fed(socket.as_fd(), &info);
                samples.push(self.one(socket.connection, info, (rtt, min_rtt), Instant::now()));
            }
            if let Some(seen) = self.streams.get_mut(&socket.connection.stream) {
                seen.open = socket.open && seen.connection == socket.connection;
            }
        });
        samples
    }

    /// Whether a stream has data that the receiver has not acknowledged.
    pub fn waiting(&self) -> bool {
        self.streams
            .values()
            .filter(|seen| seen.open)
            .any(|seen| seen.info.unacked_segments > 0 || seen.info.notsent_bytes > 0)
    }

    /// Connections whose path is dead.
    pub fn dead(&self) -> Vec<Connection> {
        let dead = |seen: &Seen| {
            let silent = seen.unanswered > DEAD_AFTER + explained(&seen.info);
            (seen.open && silent).then_some(seen.connection)
        };
        self.streams.values().filter_map(dead).collect()
    }

    fn one(
        &mut self,
        connection: Connection,
        info: Info,
        (rtt, min_rtt): (Duration, Duration),
        now: Instant,
    ) -> Sample {
        let stream = connection.stream;
        let known = self.streams.get(&stream);
        let earlier = known.filter(|seen| seen.connection == connection);
        let before = known.map_or(Before::default(), |seen| match earlier {
            Some(_) => seen.before,
            None => seen.before.and(&seen.info),
        });
        let limited =
            earlier.and_then(|seen| info.limited_by(&seen.info, now.duration_since(seen.at)));
        let max_cwnd = known
            .map_or(0, |seen| seen.max_cwnd)
            .max(info.cwnd_segments);
        let unanswered = match earlier {
            Some(seen) if waits_for_an_answer(&info, &seen.info) => {
                seen.unanswered + now.duration_since(seen.at).min(LONGEST_LOOK)
            }
            _ => Duration::ZERO,
        };
        let come = before.and(&info);
        let sample = Sample {
            at_ns: u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX),
            stream,
            bytes_acked: come.bytes_acked,
            cwnd: info.cwnd_segments,
            ssthresh: info.ssthresh_segments,
            rtt_us: micros(rtt),
            min_rtt_us: micros(min_rtt),
            retransmissions: come.retransmissions,
            delivery_rate_bps: info.delivery_bps.unwrap_or(0),
            pacing_rate_bps: info.pacing_bps,
            notsent_bytes: u64::from(info.notsent_bytes),
            limited: limited.map(limited_by),
        };
        self.streams.insert(
            stream,
            Seen {
                connection,
                open: true,
                at: now,
                info,
                before,
                max_cwnd,
                unanswered,
            },
        );
        sample
    }

    /// The times of all streams, with the statistics of the sockets at their last sample.
    pub fn spent(&self, books: &Books) -> Spent {
        let mut sockets = Before::default();
        for seen in self.streams.values() {
            let one = seen.before.and(&seen.info);
            sockets.busy += one.busy;
            sockets.rwnd_limited += one.rwnd_limited;
            sockets.sndbuf_limited += one.sndbuf_limited;
        }
        sockets.beside(books.sum())
    }

    /// The statistics of every socket that is still open, by index. `totals` is what each stream carried.
    pub fn summaries(
        &self,
        abort: &Abort,
        totals: &[(u16, Totals)],
        books: &Books,
    ) -> Vec<StreamSummary> {
        let mut summaries = Vec::new();
        abort.each(|socket| {
            let stream = socket.connection.stream;
            let index = usize::from(stream);
            if summaries.len() <= index {
                summaries.resize(index + 1, StreamSummary::default());
            }
            let carried = totals.iter().find(|(of, _)| *of == stream);
            let mut summary = summary(
                socket.as_fd(),
                carried.map_or(0, |(_, totals)| totals.bytes),
            );
            summary.spent = books.of(stream).spent();
            if let Some(seen) = self.streams.get(&stream) {
                summary.max_cwnd = Some(seen.max_cwnd);
                let sockets = seen.before.and(&seen.info);
                summary.spent = sockets.beside(summary.spent);
                summary.retransmissions += match seen.connection == socket.connection {
                    true => seen.before.retransmissions,
                    false => seen.before.and(&seen.info).retransmissions,
                };
            }
            summaries[index] = summary;
        });
        summaries
    }
}

impl Before {
    /// The same with what another connection has come to.
    fn and(self, info: &Info) -> Self {
        Self {
            bytes_acked: self.bytes_acked + info.bytes_acked,
            retransmissions: self.retransmissions + u64::from(info.retransmissions),
            busy: self.busy + info.busy,
            rwnd_limited: self.rwnd_limited + info.rwnd_limited,
            sndbuf_limited: self.sndbuf_limited + info.sndbuf_limited,
        }
    }

    /// What a stream has spent, with what its sockets say.
    fn beside(self, spent: Spent) -> Spent {
        let us = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        Spent {
            busy_us: us(self.busy),
            rwnd_limited_us: us(self.rwnd_limited),
            sndbuf_limited_us: us(self.sndbuf_limited),
            ..spent
        }
    }
}

/// Whether data is on the way and none of it was acknowledged since `earlier`, although the receiver
/// has room; or whether it never will, since the other end has closed.
fn waits_for_an_answer(info: &Info, earlier: &Info) -> bool {
    let closed = info.peer_closed && info.notsent_bytes > 0;
    info.bytes_acked == earlier.bytes_acked
        && (closed || info.unacked_segments > 0 && info.send_window_bytes != Some(0))
}

/// For how long a few losses one after the other let nothing through (RFC 6298 §2).
fn explained(info: &Info) -> Duration {
    let margin = LEAST_TIMEOUT_MARGIN.max(info.rtt_var * 4);
    (info.rtt.unwrap_or_default() + margin) * EXPLAINED_TIMEOUTS
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
        spent: Spent::default(),
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

/// The samples of a transfer. Their number is limited, however long the transfer takes.
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
        let connection = Connection {
            stream: 1,
            incarnation: 0,
        };
        abort.register(connection, socket.into());
        let mut sampler = Sampler::new(Instant::now());
        let samples = sampler.sample(&abort);
        assert_eq!(samples.len(), 1);
        assert!(samples[0].stream == 1 && samples[0].cwnd > 0);
        let totals = Totals {
            bytes: 7,
            ..Totals::default()
        };
        let summaries = sampler.summaries(&abort, &[(1, totals)], &Books::new(2));
        assert_eq!(summaries.len(), 2);
        assert_eq!(summaries[1].bytes, 7);
        assert_eq!(summaries[1].max_cwnd, Some(samples[0].cwnd));
        assert!(summaries[1].congestion_control.is_some());
    }

    #[test]
    fn a_path_is_dead_when_nothing_is_acknowledged_but_not_where_a_receiver_that_is_there_has_no_room()
     {
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
        let gone = Info {
            peer_closed: true,
            notsent_bytes: 1,
            ..closed.clone()
        };
        let started = Instant::now();
        for (info, dead) in [(silent, true), (closed, false), (idle, false), (gone, true)] {
            let mut sampler = Sampler::new(started);
            let mut sample = |info: Info, after: Duration| {
                let rtts = (Duration::ZERO, Duration::ZERO);
                sampler.one(connection(0), info, rtts, started + after);
                !sampler.dead().is_empty()
            };
            let tenth = Duration::from_millis(100);
            let limit = DEAD_AFTER + explained(&info);
            let tenths = (limit.as_millis() / tenth.as_millis()) as u32;
            for number in 0..=tenths {
                assert!(!sample(info.clone(), tenth * number), "{number}: {info:?}");
            }
            assert_eq!(sample(info.clone(), tenth * (tenths + 1)), dead, "{info:?}");
            let acked = Info {
                bytes_acked: info.bytes_acked + 1,
                ..info.clone()
            };
            assert!(!sample(acked, tenth * (tenths + 2)));
        }
    }

    #[test]
    fn a_longer_round_trip_explains_a_longer_silence_and_a_pause_of_this_host_is_none() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let silent = |rtt_ms| Info {
            rtt: Some(Duration::from_millis(rtt_ms)),
            rtt_var: Duration::ZERO,
            unacked_segments: 3,
            send_window_bytes: Some(1000),
            ..Info::read(&socket).unwrap()
        };
        for (rtt_ms, step_ms, expected) in [(20, 100, 37), (366, 100, 61), (20, 3_600_000, 5)] {
            let mut sampler = Sampler::new(Instant::now());
            let mut looks = 0;
            while sampler.dead().is_empty() {
                let rtts = (Duration::ZERO, Duration::ZERO);
                let at = sampler.started + looks * Duration::from_millis(step_ms);
                sampler.one(connection(0), silent(rtt_ms), rtts, at);
                looks += 1;
            }
            assert_eq!(looks, expected, "{rtt_ms} ms, every {step_ms} ms");
        }
    }

    fn connection(incarnation: u16) -> Connection {
        Connection {
            stream: 0,
            incarnation,
        }
    }

    #[test]
    fn what_a_stream_has_sent_is_of_all_its_connections() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let info = |bytes_acked, retransmissions| Info {
            bytes_acked,
            retransmissions,
            unacked_segments: 1,
            send_window_bytes: Some(1000),
            ..Info::read(&socket).unwrap()
        };
        let started = Instant::now();
        let mut sampler = Sampler::new(started);
        let mut come = Vec::new();
        for (incarnation, bytes, again) in [(0, 10, 1), (0, 20, 2), (1, 3, 0), (1, 4, 5), (4, 1, 1)]
        {
            let rtts = (Duration::ZERO, Duration::ZERO);
            let after = started + DEAD_AFTER / 2 * (come.len() as u32);
            let sample = sampler.one(connection(incarnation), info(bytes, again), rtts, after);
            come.push((sample.bytes_acked, sample.retransmissions));
            assert!(sampler.dead().is_empty());
        }
        assert_eq!(come, [(10, 1), (20, 2), (23, 2), (24, 7), (25, 8)]);
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
