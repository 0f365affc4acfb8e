"""Values the pure tests share."""

from howdah.record import HostLimits

LIMITS = HostLimits(
    kernel="6.18.0",
    cpus=2,
    memory_bytes=2**33,
    congestion_controls_available=["reno", "cubic"],
    congestion_controls_allowed=["reno", "cubic"],
    congestion_control_default="cubic",
    rmem_max_bytes=212992,
    wmem_max_bytes=212992,
    tcp_rmem_max_bytes=6291456,
    tcp_wmem_max_bytes=4194304,
    tcp_mem_pages=(1, 2, 3),
    no_metrics_save=False,
    slow_start_after_idle=True,
    privileged=False,
)
