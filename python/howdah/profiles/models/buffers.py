"""The window of a buffer that was asked for at both ends.

Linux keeps twice what is asked for (net/core/sock.c) and counts in it the memory of packets, not their
payload. Howdah asks for B at the end that sends and for 2 B at the one that receives, so with B in a plan

- the send end holds up to 2 B, and takes more only once that is down to two thirds (sk_stream_min_wspace), so
  1.3 to 2 B;
- the receive end has 4 B for it, which binds nothing: packets seldom cost more than twice their payload.
"""

WINDOW_PER_BUFFER = 1.5
"""Runs without loss in a lab had 1.15 to 1.8 times their buffer in flight (Linux 6.18, 1 to 10 streams,
244 kB and 1 MB, 11.8 to 366 ms). A receiver that may not have 2 B (net.core.rmem_max) offers 1 to 2 B."""


def window_bytes(buffer_bytes: float) -> float:
    """Payload in flight of a stream with ``buffer_bytes`` asked for at both ends, where they hold it back."""
    return WINDOW_PER_BUFFER * buffer_bytes
