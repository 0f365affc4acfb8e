//! Since when a packet that is read may have been waiting, and when it came where the kernel noted it.

/// What is known of one device between its readings, ns on the link's clock.
#[derive(Debug, Default)]
pub(crate) struct Unread {
    since_ns: u64,
    /// When the kernel got the request to note the next arrival.
    requested_ns: Option<u64>,
}

impl Unread {
    /// What is read from now on came after `now_ns`, or as good as.
    pub fn nothing_waits(&mut self, now_ns: u64) {
        self.since_ns = now_ns;
    }

    /// The kernel gets a request, at `now_ns`, to note the first arrival from then on.
    pub fn asks(&mut self, now_ns: u64) {
        self.requested_ns = Some(now_ns);
    }

    /// When the packet just read at `now_ns` came: at `noted_ns` if the kernel noted that in answer to
    /// the last question and this is the first packet since; otherwise now.
    pub fn came_ns(&mut self, noted_ns: Option<u64>, now_ns: u64) -> u64 {
        let requested_ns = self.requested_ns.take();
        let noted_ns = noted_ns.filter(|noted_ns| {
            requested_ns.is_some_and(|requested_ns| (requested_ns..=now_ns).contains(noted_ns))
        });
        if let Some(noted_ns) = noted_ns {
            self.since_ns = noted_ns;
        }
        noted_ns.unwrap_or(now_ns)
    }

    /// How long a packet that came at `came_ns`, as far as is known, may have been waiting already.
    pub fn waited_ns(&self, came_ns: u64) -> u64 {
        came_ns - self.since_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requested(since_ns: u64, requested_ns: u64) -> Unread {
        let mut unread = Unread::default();
        unread.nothing_waits(since_ns);
        unread.asks(requested_ns);
        unread
    }

    #[test]
    fn the_first_packet_came_when_the_kernel_says_and_those_behind_it_not_before() {
        let mut unread = requested(100, 100);
        assert_eq!(
            (unread.came_ns(Some(150), 200), unread.waited_ns(150)),
            (150, 0)
        );
        assert_eq!(
            (unread.came_ns(Some(150), 210), unread.waited_ns(210)),
            (210, 60)
        );
    }

    #[test]
    fn a_note_counts_though_the_thread_woke_after_it() {
        let mut unread = requested(100, 100);
        unread.nothing_waits(190);
        assert_eq!(
            (unread.came_ns(Some(150), 200), unread.waited_ns(150)),
            (150, 0)
        );
    }

    #[test]
    fn without_a_note_it_came_when_it_was_read() {
        let mut unread = requested(100, 100);
        assert_eq!(
            (unread.came_ns(None, 200), unread.waited_ns(200)),
            (200, 100)
        );
    }

    #[test]
    fn a_note_from_before_the_question_or_from_the_future_counts_for_nothing() {
        for noted_ns in [99, 201] {
            let mut unread = requested(100, 100);
            assert_eq!(
                (unread.came_ns(Some(noted_ns), 200), unread.waited_ns(200)),
                (200, 100)
            );
        }
    }
}
