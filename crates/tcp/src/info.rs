//! TCP_INFO with units.
//!
//! Source: `struct tcp_info` of Linux `include/uapi/linux/tcp.h` (read from 6.18) and
//! `tcp_get_info` of `net/ipv4/tcp.c`. The kernel only ever appends to the structure, and returns
//! as much as it has: what came after Linux 4.10 is optional here.

use std::{os::fd::AsFd, time::Duration};

use crate::{Error, option};

/// Bytes up to and with `tcpi_sndbuf_limited` (Linux 4.10).
const LEAST_BYTES: usize = 192;
/// Room for what later kernels append; unknown fields are ignored.
const ROOM_BYTES: usize = 512;
/// `TCP_INFINITE_SSTHRESH`: slow start has not ended yet.
const INFINITE_SSTHRESH: u32 = 0x7fff_ffff;

/// A connection at one instant, as its own end sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Info {
    /// Whether the connection is established (`TCP_ESTABLISHED`).
    pub established: bool,
    /// Whether the other end has closed and this one has not (`TCP_CLOSE_WAIT`).
    pub peer_closed: bool,
    /// Smoothed RTT; `None` before the first sample.
    pub rtt: Option<Duration>,
    /// Mean deviation of the RTT.
    pub rtt_var: Duration,
    /// Least RTT of the kernel's window (five minutes by default); `None` before a sample.
    pub min_rtt: Option<Duration>,
    /// Congestion window, segments of [`Self::mss_bytes`].
    pub cwnd_segments: u32,
    /// Slow start threshold, segments; `None` as long as nothing ended slow start.
    pub ssthresh_segments: Option<u32>,
    /// Payload of a segment sent, bytes.
    pub mss_bytes: u32,
    /// Path MTU, bytes.
    pub path_mtu_bytes: u32,
    /// Time since the last segment came from the other host, data or acknowledgement.
    pub heard_ago: Duration,
    /// Segments sent and neither acknowledged nor known to be lost or retransmitted anew.
    pub unacked_segments: u32,
    /// Segments retransmitted since the connection began.
    pub retransmissions: u32,
    /// Rate at which the kernel spaces packets, bits per second; `None` when it does not.
    pub pacing_bps: Option<u64>,
    /// Bound of the pacing rate set on the socket, bits per second; `None` when unbounded.
    pub max_pacing_bps: Option<u64>,
    /// Payload acknowledged by the far end, bytes (and one for the SYN).
    pub bytes_acked: u64,
    /// Payload received in order, bytes.
    pub bytes_received: u64,
    /// Payload written by the application and not yet sent, bytes.
    pub notsent_bytes: u32,
    /// Latest estimate of the delivery rate, bits per second; `None` before the first.
    pub delivery_bps: Option<u64>,
    /// Whether that estimate was held down by the application rather than by the path.
    pub delivery_app_limited: bool,
    /// Time with data waiting or in flight.
    pub busy: Duration,
    /// Part of `busy` in which the far end's receive window was the limit.
    pub rwnd_limited: Duration,
    /// Part of `busy` in which our send buffer was the limit.
    pub sndbuf_limited: Duration,
    /// Payload retransmitted, bytes (Linux 4.19).
    pub bytes_retransmitted: Option<u64>,
    /// Segments received out of order (Linux 5.4).
    pub out_of_order_segments: Option<u32>,
    /// Receive window of the far end, bytes (Linux 5.4).
    pub send_window_bytes: Option<u32>,
}

/// What holds a sender back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Limit {
    /// The congestion window, or the pacing that goes with it.
    Cwnd,
    /// The application has nothing to send.
    App,
    /// The far end's receive window.
    Rwnd,
    /// Our own send buffer.
    Sndbuf,
}

impl Limit {
    /// The word used in samples.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cwnd => "cwnd",
            Self::App => "app",
            Self::Rwnd => "rwnd",
            Self::Sndbuf => "sndbuf",
        }
    }
}

impl Info {
    /// Asks the kernel about a socket.
    pub fn read(socket: impl AsFd) -> Result<Self, Error> {
        let mut bytes = [0; ROOM_BYTES];
        let failed = |source| Error::Read {
            what: "TCP_INFO",
            source,
        };
        let length =
            option::get(socket, libc::IPPROTO_TCP, libc::TCP_INFO, &mut bytes).map_err(failed)?;
        Self::parse(&bytes[..length]).ok_or_else(|| {
            failed(std::io::Error::other(
                "the kernel is older than Linux 4.10, which howdah needs",
            ))
        })
    }

    /// Reads `struct tcp_info`; `None` if it ends before the fields that Linux 4.10 had.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        if bytes.len() < LEAST_BYTES {
            return None;
        }
        let u32_at = |offset: usize| {
            let field = bytes.get(offset..offset + 4)?;
            Some(u32::from_ne_bytes(field.try_into().ok()?))
        };
        let u64_at = |offset: usize| {
            let field = bytes.get(offset..offset + 8)?;
            Some(u64::from_ne_bytes(field.try_into().ok()?))
        };
        let rate_at = |offset| {
            let rate = u64_at(offset)?;
            (rate != u64::MAX).then(|| rate.saturating_mul(8))
        };
        let rtt_us = u32_at(68)?;
        let min_rtt_us = u32_at(148)?;
        let ssthresh = u32_at(76)?;
        Some(Self {
            established: bytes[0] == 1,
            peer_closed: bytes[0] == 8,
            rtt: (rtt_us != 0).then(|| micros(rtt_us)),
            rtt_var: micros(u32_at(72)?),
            min_rtt: (min_rtt_us != 0 && min_rtt_us != u32::MAX).then(|| micros(min_rtt_us)),
            cwnd_segments: u32_at(80)?,
            ssthresh_segments: (ssthresh < INFINITE_SSTHRESH).then_some(ssthresh),
            mss_bytes: u32_at(16)?,
            path_mtu_bytes: u32_at(60)?,
            heard_ago: Duration::from_millis(u32_at(52)?.min(u32_at(56)?).into()),
            unacked_segments: u32_at(24)?,
            retransmissions: u32_at(100)?,
            pacing_bps: rate_at(104),
            max_pacing_bps: rate_at(112),
            bytes_acked: u64_at(120)?,
            bytes_received: u64_at(128)?,
            notsent_bytes: u32_at(144)?,
            delivery_bps: rate_at(160).filter(|&rate| rate != 0),
            delivery_app_limited: bytes[7] & 1 != 0,
            busy: Duration::from_micros(u64_at(168)?),
            rwnd_limited: Duration::from_micros(u64_at(176)?),
            sndbuf_limited: Duration::from_micros(u64_at(184)?),
            bytes_retransmitted: u64_at(208),
            out_of_order_segments: u32_at(224),
            send_window_bytes: u32_at(228),
        })
    }

    /// What held the sender back most between an earlier look and this one, `elapsed` apart.
    ///
    /// The kernel attributes busy time to receive window and send buffer; of the rest, the flag
    /// of the latest rate sample tells application from congestion window.
    /// `None` when nothing can be said because no time passed.
    #[must_use]
    pub fn limited_by(&self, earlier: &Self, elapsed: Duration) -> Option<Limit> {
        if elapsed.is_zero() {
            return None;
        }
        let busy = self.busy.saturating_sub(earlier.busy).min(elapsed);
        let rwnd = self.rwnd_limited.saturating_sub(earlier.rwnd_limited);
        let sndbuf = self.sndbuf_limited.saturating_sub(earlier.sndbuf_limited);
        let idle = elapsed - busy;
        let rest = busy.saturating_sub(rwnd).saturating_sub(sndbuf);
        let (app, cwnd) = if self.delivery_app_limited {
            (idle + rest, Duration::ZERO)
        } else {
            (idle, rest)
        };
        let shares = [
            (cwnd, Limit::Cwnd),
            (rwnd, Limit::Rwnd),
            (sndbuf, Limit::Sndbuf),
            (app, Limit::App),
        ];
        shares
            .into_iter()
            .max_by_key(|&(time, _)| time)
            .map(|(_, limit)| limit)
    }
}

fn micros(value: u32) -> Duration {
    Duration::from_micros(value.into())
}

#[cfg(test)]
mod tests;
