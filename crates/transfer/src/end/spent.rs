//! How threads spend their time. From this a copy's user is told why it is slow.
//!
//! A thread registers itself ([`begin`]), and then notes what it does ([`doing`]). A change reads the clock, which
//! takes some 40 ns. For one change out of many the processor time is read too, which is a system call. Small changes
//! are not noted: each activity covers at least 16 KiB of a file. Each second, and at the end, the kernel is asked
//! how long the thread waited for a processor. That wait is not counted as time of the disk. Code on other threads is
//! not counted.

use std::cell::RefCell;
use std::fs::File;
use std::marker::PhantomData;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use howdah_wire::{Doing, Spent};
use rustix::time::{ClockId, clock_gettime};

/// For one out of this many changes of a sender, the processor time is read. A sender changes three times for 16 KiB.
/// The number is odd, so that each kind of change is measured in turn.
pub const SENDER_MEASURES: u32 = 241;
/// The same for other threads, which change a few times for half a megabyte, and ten times for a small file.
pub const OTHERS_MEASURE: u32 = 61;

/// Between two questions how long a thread waited for a processor.
const ASK_EVERY: Duration = Duration::from_secs(1);

/// The times of one stream's threads, which follow one another, or of another thread.
#[derive(Debug)]
pub struct Book {
    wall_ns: [AtomicU64; Doing::COUNT],
    cpu_ns: [AtomicU64; Doing::COUNT],
    delayed_ns: AtomicU64,
    /// What the thread does now, and since when, in nanoseconds from `opened` on. [`NOBODY`]: no thread is booked.
    doing: AtomicUsize,
    since_ns: AtomicU64,
    opened: Instant,
}

const NOBODY: usize = usize::MAX;

impl Default for Book {
    fn default() -> Self {
        Self {
            wall_ns: Default::default(),
            cpu_ns: Default::default(),
            delayed_ns: AtomicU64::default(),
            doing: AtomicUsize::new(NOBODY),
            since_ns: AtomicU64::default(),
            opened: Instant::now(),
        }
    }
}

impl Book {
    fn note(&self, doing: usize, now: Instant) {
        self.since_ns
            .store(since_ns(self.opened, now), Ordering::Relaxed);
        self.doing.store(doing, Ordering::Relaxed);
    }

    /// The times so far, with what the thread does now. If the thread changes at this moment, some microseconds may
    /// be counted twice or not yet.
    pub fn spent(&self) -> Spent {
        let read = |times: &[AtomicU64; Doing::COUNT]| {
            std::array::from_fn(|index| times[index].load(Ordering::Relaxed))
        };
        let mut wall_ns: [u64; Doing::COUNT] = read(&self.wall_ns);
        if let Some(all) = wall_ns.get_mut(self.doing.load(Ordering::Relaxed)) {
            let now_ns = since_ns(self.opened, Instant::now());
            *all += now_ns.saturating_sub(self.since_ns.load(Ordering::Relaxed));
        }
        Spent {
            wall_ns,
            cpu_ns: read(&self.cpu_ns),
            delayed_ns: self.delayed_ns.load(Ordering::Relaxed),
            ..Spent::default()
        }
    }
}

/// The times of all threads of one end.
#[derive(Debug)]
pub struct Books {
    streams: Vec<Arc<Book>>,
    /// The times of the thread that flushes files. It is at [`Doing::Naming`] while it waits for the thread that
    /// gives files their names.
    pub naming: Arc<Book>,
}

impl Books {
    /// Nothing spent yet.
    pub fn new(streams: u16) -> Self {
        Self {
            streams: (0..streams).map(|_| Arc::default()).collect(),
            naming: Arc::default(),
        }
    }

    /// The times of a stream. For a stream that is not in the plan, they are not read by anyone.
    pub fn of(&self, stream: u16) -> Arc<Book> {
        let known = self.streams.get(usize::from(stream));
        known.map_or_else(Arc::default, Arc::clone)
    }

    /// What all streams have spent together.
    pub fn sum(&self) -> Spent {
        let mut sum = Spent::default();
        for book in &self.streams {
            sum.add(&book.spent());
        }
        sum
    }
}

struct Clock {
    book: Arc<Book>,
    doing: Doing,
    since: Instant,
    /// On the processor's clock, of a change that is measured there.
    cpu_since_ns: Option<u64>,
    changes: u32,
    measures: u32,
    scheduled: Scheduled,
}

/// What the scheduler says of this thread (`/proc/thread-self/schedstat`): what it ran, and then how long it could
/// have run and waited, in nanoseconds. A limit by cgroup counts as waiting.
struct Scheduled {
    /// Absent where it cannot be read.
    file: Option<File>,
    delayed_ns: u64,
    asked: Instant,
}

impl Scheduled {
    fn new() -> Self {
        let mut made = Self {
            file: File::open("/proc/thread-self/schedstat").ok(),
            delayed_ns: 0,
            asked: Instant::now(),
        };
        made.more_ns(made.asked);
        made
    }

    /// How much more it waited since the last time.
    fn more_ns(&mut self, now: Instant) -> u64 {
        self.asked = now;
        let mut text = [0; 96];
        let read = |file: &File| file.read_at(&mut text, 0).ok();
        let Some(len) = self.file.as_ref().and_then(read) else {
            return 0;
        };
        let text = str::from_utf8(&text[..len]).unwrap_or_default();
        let field = text.split_ascii_whitespace().nth(1);
        let now_ns: u64 = field.and_then(|field| field.parse().ok()).unwrap_or(0);
        now_ns.saturating_sub(std::mem::replace(&mut self.delayed_ns, now_ns))
    }
}

thread_local! {
    static CLOCK: RefCell<Option<Clock>> = const { RefCell::new(None) };
}

impl Clock {
    fn change(&mut self, doing: Doing) -> Doing {
        let now = Instant::now();
        let index = self.doing as usize;
        add(&self.book.wall_ns[index], since_ns(self.since, now));
        if let Some(before_ns) = self.cpu_since_ns.take() {
            let ran_ns = cpu_ns().saturating_sub(before_ns);
            add(&self.book.cpu_ns[index], ran_ns * u64::from(self.measures));
        }
        self.changes += 1;
        if self.changes == self.measures {
            self.changes = 0;
            self.cpu_since_ns = Some(cpu_ns());
            if now.duration_since(self.scheduled.asked) >= ASK_EVERY {
                self.ask(now);
            }
        }
        self.since = now;
        self.book.note(doing as usize, now);
        std::mem::replace(&mut self.doing, doing)
    }

    fn ask(&mut self, now: Instant) {
        add(&self.book.delayed_ns, self.scheduled.more_ns(now));
    }
}

/// Adds to a counter that one thread at a time writes.
fn add(counter: &AtomicU64, ns: u64) {
    let before = counter.load(Ordering::Relaxed);
    counter.store(before.wrapping_add(ns), Ordering::Relaxed);
}

fn since_ns(then: Instant, now: Instant) -> u64 {
    u64::try_from(now.duration_since(then).as_nanos()).unwrap_or(u64::MAX)
}

/// What this thread has run on a processor.
fn cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000
        + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// Counts the time of this thread, which is at [`Doing::Start`], until the returned value is dropped.
#[must_use]
pub fn begin(book: Arc<Book>, measures: u32) -> Booked {
    let now = Instant::now();
    book.note(Doing::Start as usize, now);
    CLOCK.set(Some(Clock {
        book,
        doing: Doing::Start,
        since: now,
        cpu_since_ns: None,
        changes: 0,
        measures,
        scheduled: Scheduled::new(),
    }));
    Booked(PhantomData)
}

/// A thread that is booked.
pub struct Booked(PhantomData<*const ()>);

impl Drop for Booked {
    fn drop(&mut self) {
        change(Doing::Rest);
        if let Some(mut clock) = CLOCK.take() {
            let now = Instant::now();
            clock.ask(now);
            clock.book.note(NOBODY, now);
        }
    }
}

/// The thread does this from now on; what it did.
fn change(doing: Doing) -> Option<Doing> {
    CLOCK.with_borrow_mut(|clock| clock.as_mut().map(|clock| clock.change(doing)))
}

/// Notes that the first block or piece has come. From now on the thread's activities are counted separately.
pub fn started() {
    if current() == Some(Doing::Start) {
        change(Doing::Rest);
    }
}

fn current() -> Option<Doing> {
    CLOCK.with_borrow(|clock| clock.as_ref().map(|clock| clock.doing))
}

/// Notes that the thread does this until the returned value is dropped. Before [`started`], everything is counted as
/// the start.
#[must_use]
pub fn doing(doing: Doing) -> Stay {
    let before = current().filter(|&before| before != Doing::Start);
    if before.is_some() {
        change(doing);
    }
    Stay {
        before,
        thread: PhantomData,
    }
}

/// An activity of a thread, until this is dropped.
pub struct Stay {
    before: Option<Doing>,
    thread: PhantomData<*const ()>,
}

impl Stay {
    /// Changes to another activity. The clock is read once in place of twice.
    pub fn then(&self, doing: Doing) {
        if self.before.is_some() {
            change(doing);
        }
    }
}

impl Drop for Stay {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            change(before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread::sleep;

    const STEP: Duration = Duration::from_millis(30);

    fn of(spent: &Spent, doing: Doing) -> Duration {
        Duration::from_nanos(spent.wall_ns[doing as usize])
    }

    #[test]
    fn time_is_booked_where_it_was_spent_and_all_of_it() {
        let book = Arc::new(Book::default());
        let began = Instant::now();
        {
            let _booked = begin(Arc::clone(&book), 1);
            {
                let _not_apart = doing(Doing::Waiting);
                sleep(STEP);
            }
            started();
            {
                let disk = doing(Doing::Disk);
                sleep(STEP);
                let under_way = book.spent();
                assert!(of(&under_way, Doing::Disk) >= STEP, "{under_way:?}");
                disk.then(Doing::Digest);
                let busy = Instant::now();
                while busy.elapsed() < STEP {}
            }
            {
                let _socket = doing(Doing::Socket);
                {
                    let _turn = doing(Doing::Turn);
                    sleep(STEP);
                }
            }
        }
        let all = began.elapsed();
        let _nobody_books_this = doing(Doing::Flush);
        let spent = book.spent();
        for doing in [Doing::Start, Doing::Disk, Doing::Digest, Doing::Turn] {
            assert!(of(&spent, doing) >= STEP, "{doing:?}: {spent:?}");
        }
        for doing in [Doing::Waiting, Doing::Socket, Doing::Flush] {
            assert!(of(&spent, doing) < STEP / 2, "{doing:?}: {spent:?}");
        }
        let sum: u64 = spent.wall_ns.iter().sum();
        assert!(Duration::from_nanos(sum) <= all, "{sum}: {all:?}");
        let ran = spent.cpu_ns[Doing::Digest as usize];
        assert!(ran > 0 && ran <= spent.wall_ns[Doing::Digest as usize] + 1_000_000);
        assert!(spent.cpu_ns[Doing::Disk as usize] < ran / 2, "{spent:?}");
        assert!(spent.delayed_ns <= sum, "{spent:?}");
    }
}
