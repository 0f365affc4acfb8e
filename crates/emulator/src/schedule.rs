//! How the kernel schedules the thread that moves packets.

use rustix::thread::set_current_timer_slack;

/// Asks for exact timers and to run before ordinary programs, where the kernel allows it.
pub(crate) fn prefer() {
    // Both only make releases later when refused, and lateness is measured.
    let _ = set_current_timer_slack(std::num::NonZeroU64::new(1));
    let parameters = libc::sched_param { sched_priority: 1 };
    // SAFETY: reads one sched_param; 0 is the calling thread.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) };
}
