//! The inputs and the results of an algorithm. The calls are those of Linux's `struct tcp_congestion_ops`.

use crate::Window;

/// One ACK. Segments are counted from the start of the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ack {
    /// The time at which the ACK came, µs.
    pub now_us: u64,
    /// RTT of the newest segment it acknowledges, µs; at least 1.
    pub rtt_us: u64,
    /// Segments it acknowledges for the first time.
    pub acked: u32,
    /// Segments acknowledged in all, with these.
    pub delivered: u64,
    /// The value of `delivered` when the newest of these segments was sent.
    pub delivered_when_sent: u64,
    /// Segments still on their way.
    pub in_flight: u64,
    /// All segments that are known to be lost.
    pub lost: u64,
    /// Segments that the sender has written and that were not sent yet; `u64::MAX` for endless data.
    pub waiting: u64,
    /// Whether losses are being repaired. The window does not grow then.
    pub recovering: bool,
}

/// The state when the sender has written data, before any of it is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// The time, µs.
    pub now_us: u64,
    /// As in [`Ack`].
    pub delivered: u64,
    /// As in [`Ack`].
    pub in_flight: u64,
    /// As in [`Ack`], with what was just written.
    pub waiting: u64,
    /// As in [`Ack`].
    pub recovering: bool,
}

/// A congestion control.
pub trait Control {
    /// Linux calls this `init`: the connection is established, and its handshake took `rtt_us`.
    fn begin(&mut self, _window: &mut Window, _rtt_us: u64) {}

    /// Linux calls `pkts_acked` and then `cong_avoid`, or `cong_control` if the control owns the window.
    fn acked(&mut self, window: &mut Window, ack: &Ack);

    /// Linux calls this `min_tso_segs`, before data may be sent. It is also called after each ACK.
    fn written(&mut self, _window: &mut Window, _written: &Written) {}

    /// Linux calls this `ssthresh`: the window after the loss that was just found, segments. It is called
    /// once for all the
    /// losses of a round trip.
    fn cut(&mut self, window: &Window, now_us: u64) -> u32;

    /// Linux calls this `set_state(Open)`: the losses are repaired.
    fn repaired(&mut self, _now_us: u64) {}

    /// Whether it sets the window in recovery too, as `cong_control` does. Otherwise the sender reduces the window to
    /// the result of [`Control::cut`], by proportional rate reduction.
    fn owns_window(&self) -> bool {
        false
    }

    /// The pacing rate, segments per second. Without one, segments are sent as ACKs come.
    fn pacing_per_s(&self) -> Option<f64> {
        None
    }
}

impl<C: Control + ?Sized> Control for Box<C> {
    fn begin(&mut self, window: &mut Window, rtt_us: u64) {
        (**self).begin(window, rtt_us);
    }

    fn acked(&mut self, window: &mut Window, ack: &Ack) {
        (**self).acked(window, ack);
    }

    fn written(&mut self, window: &mut Window, written: &Written) {
        (**self).written(window, written);
    }

    fn cut(&mut self, window: &Window, now_us: u64) -> u32 {
        (**self).cut(window, now_us)
    }

    fn repaired(&mut self, now_us: u64) {
        (**self).repaired(now_us);
    }

    fn owns_window(&self) -> bool {
        (**self).owns_window()
    }

    fn pacing_per_s(&self) -> Option<f64> {
        (**self).pacing_per_s()
    }
}
