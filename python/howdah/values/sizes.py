"""The windows, buffers and blocks that a transfer can have, by what both ends' kernels allow.

References: window and buffers, RFC 7323 §1.1 and net/ipv4/tcp_output.c:tcp_select_window; the buffer
autotuning, net/ipv4/tcp_input.c:tcp_sndbuf_expand and tcp_rcv_space_adjust; SO_SNDBUF and SO_RCVBUF
doubled, net/core/sock.c; initial window of 10 segments, RFC 6928.
"""

import math
from typing import NamedTuple

from howdah.values.path import Path
from howdah.values.plan import BLOCK_BYTES_MIN

TARGET_RATE_BPS = 10e9
"""The capacity is unknown; windows are made for this one, the fastest path the project is measured on."""

HEADROOM = 1.8
"""Window over bandwidth × delay: streams do not share evenly, and a queue holds as much again. Less than 2,
so that all streams together hardly overflow a queue of one bandwidth × delay on such a path; the kernel may
open a window further, up to twice, where packets carry more than it had thought (tcp_measure_rcv_mss)."""

BUFFER_MIN_BYTES = 4 * 1024 * 1024
"""The least buffer asked for: on short paths the wait for a processor counts, not the round trip."""

RECEIVE_SHARE = 0.5
"""Part of a receive buffer that is window: tcp_adv_win_scale = 1, before the kernel has measured better.
Plans count on no more; ``dedicated.models.buffers`` has what to expect of a buffer that was asked for."""

FORCED_BUFFER_MAX_BYTES = 512 * 1024 * 1024
"""The most that a stream asks for with CAP_NET_ADMIN (the kernel stores twice this in 31 bits)."""

INITIAL_WINDOW_BYTES = 10 * 1448

BLOCK_BYTES = 1024 * 1024
"""The default block has one system call and one checksum; at 10 Gb/s it is 0.8 ms of the whole rate."""

BLOCKS_PER_STREAM_MIN = 4
"""The fewest blocks of a stream: with fewer, the last block of the slowest stream would show."""


class Windows(NamedTuple):
    """The largest window that one stream can have, in bytes."""

    autotuned_bytes: int
    explicit_bytes: int


def windows(path: Path) -> Windows:
    """The windows that autotuning reaches, and that asking for a buffer reaches, by the smaller end."""
    sender, receiver = path.sender, path.receiver
    asked_send = FORCED_BUFFER_MAX_BYTES if sender.privileged else sender.wmem_max_bytes
    asked_receive = FORCED_BUFFER_MAX_BYTES if receiver.privileged else receiver.rmem_max_bytes
    # The kernel doubles what is asked for, so what is asked for is about what is window.
    return Windows(
        autotuned_bytes=min(sender.tcp_wmem_max_bytes, int(receiver.tcp_rmem_max_bytes * RECEIVE_SHARE)),
        explicit_bytes=min(asked_send, asked_receive),
    )


def streams_of(most: int, bytes_total: int | None) -> int:
    """The streams, or fewer where there are not as many of the smallest blocks."""
    return most if bytes_total is None else max(1, min(most, bytes_total // BLOCK_BYTES_MIN))


def choose_block(streams: int, bytes_total: int | None) -> int:
    """Blocks small enough that every stream gets several."""
    if bytes_total is None:
        return BLOCK_BYTES
    share = bytes_total // (streams * BLOCKS_PER_STREAM_MIN)
    # A power of two, so that blocks of a file begin on page and record boundaries.
    return max(BLOCK_BYTES_MIN, min(BLOCK_BYTES, 1 << max(0, share.bit_length() - 1)))


def window_rate_bps(streams: int, window_bytes: float, rtt_s: float) -> float:
    """The most that ``streams`` windows can carry: one window each a round trip."""
    return streams * window_bytes * 8 / rtt_s


def ramp_round_trips(streams: int, rtt_s: float) -> int:
    """Round trips of slow start until the streams together fill 10 Gb/s × this round trip."""
    bdp_bytes = TARGET_RATE_BPS / 8 * rtt_s
    return max(0, math.ceil(math.log2(max(1.0, bdp_bytes / (streams * INITIAL_WINDOW_BYTES)))))
