//! TCP sockets: congestion control, buffers, pacing, TCP_INFO, RTT and host limits.
