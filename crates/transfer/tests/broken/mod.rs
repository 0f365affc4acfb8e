//! Connections that break: a proxy between the ends cuts them at places drawn by seed.

use std::fs;
use std::io::{Read, Write, pipe};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::ends::{self, Ends, content, job, listing};
use crate::holes::holed_tree;
use crate::piped;
use crate::session::{MIB, tree};

/// Where the near end finds the proxy, at the port of the far end.
const ADDRESS: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// How connections end, or what becomes of a byte of theirs.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Cut {
    Reset,
    Closed,
    /// A bit of the first one is flipped, and all else goes on.
    Damaged,
}

/// What may still go over a connection, in both directions together.
struct Left {
    bytes: u64,
    cut: bool,
}

impl Left {
    /// How many of `count` bytes may go, and whether that cuts the connection. One connection has one cut, although
    /// the other direction may have bytes on their way too.
    fn take(&mut self, count: u64) -> (u64, bool) {
        let may = count.min(self.bytes);
        self.bytes -= may;
        let cuts = may < count && !self.cut;
        self.cut |= cuts;
        (may, cuts)
    }
}

/// Forwards connections, and cuts the first ones.
struct Proxy {
    over: AtomicBool,
    cut: AtomicUsize,
    /// After how many bytes each of the next connections ends.
    lengths: Mutex<Vec<u64>>,
    how: Cut,
    open: Mutex<Vec<TcpStream>>,
}

impl Proxy {
    fn new(how: Cut, lengths: Vec<u64>) -> Arc<Self> {
        Arc::new(Self {
            over: AtomicBool::new(false),
            cut: AtomicUsize::new(0),
            lengths: Mutex::new(lengths),
            how,
            open: Mutex::default(),
        })
    }

    /// Listens at `port`.
    fn serve(self: &Arc<Self>, port: u16) {
        let listener = TcpListener::bind((ADDRESS, port)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let proxy = Arc::clone(self);
        thread::spawn(move || {
            while !proxy.over.load(Ordering::Relaxed) {
                match listener.accept() {
                    Ok((near, _)) => proxy.forward(near, port),
                    Err(_) => thread::sleep(Duration::from_millis(1)),
                }
            }
        });
    }

    fn forward(self: &Arc<Self>, near: TcpStream, port: u16) {
        near.set_nonblocking(false).unwrap();
        let Ok(far) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)) else {
            return;
        };
        let length = self.lengths.lock().unwrap().pop();
        let mut open = self.open.lock().unwrap();
        open.extend([near.try_clone().unwrap(), far.try_clone().unwrap()]);
        let left = Arc::new(Mutex::new(Left {
            bytes: length.unwrap_or(u64::MAX),
            cut: false,
        }));
        for (from, to) in [(&near, &far), (&far, &near)] {
            let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
            let (proxy, left) = (Arc::clone(self), Arc::clone(&left));
            thread::spawn(move || proxy.pump(from, to, &left));
        }
    }

    fn pump(&self, mut from: TcpStream, mut to: TcpStream, left: &Mutex<Left>) {
        let mut buffer = vec![0; 64 << 10];
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            let (may, cuts) = left.lock().unwrap().take(count as u64);
            let first = cuts && self.cut.fetch_add(1, Ordering::Relaxed) == 0;
            let mut goes_on = count;
            if may < count as u64 {
                if self.how == Cut::Damaged {
                    buffer[may as usize] ^= u8::from(first);
                    left.lock().unwrap().bytes = u64::MAX;
                } else {
                    goes_on = may as usize;
                }
            }
            if to.write_all(&buffer[..goes_on]).is_err() {
                break;
            }
            if goes_on < count {
                self.end(&from, &to);
                return;
            }
        }
        let _ = to.shutdown(Shutdown::Write);
    }

    fn end(&self, one: &TcpStream, other: &TcpStream) {
        for socket in [one, other] {
            if self.how == Cut::Reset {
                let now = Some(Duration::ZERO);
                rustix::net::sockopt::set_socket_linger(socket, now).unwrap();
                // Of a connected socket, this is a reset (connect(2), AF_UNSPEC).
                let _ = rustix::net::connect_unspec(socket);
            }
            let _ = socket.shutdown(Shutdown::Both);
        }
    }

    /// Cuts all connections there are.
    fn cut_all(&self) {
        for socket in self.open.lock().unwrap().drain(..) {
            self.cut.fetch_add(1, Ordering::Relaxed);
            self.end(&socket, &socket);
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

/// Runs a job through a proxy.
fn run_through(proxy: &Arc<Proxy>, job: &Value) -> Ends {
    let mut job = job.clone();
    job["data_address"] = json!(ADDRESS.to_string());
    let plan = json!({"streams": 4, "block_bytes": 1 << 20});
    Ends::start_with(&job, &plan, |port| proxy.serve(port))
}

/// Numbers below `below` (xorshift64).
fn drawn(seed: u64, count: usize, below: u64) -> Vec<u64> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    (0..count).map(|_| next()).collect()
}

#[test]
fn connections_that_break_are_replaced_and_nothing_is_lost_or_comes_twice() {
    let mut cuts = 0;
    for seed in 0..16 {
        let direction = ["push", "pull"][seed as usize % 2];
        let encrypt = seed / 2 % 2 == 0;
        let how = [Cut::Reset, Cut::Closed][seed as usize / 4 % 2];
        let base = tempfile::tempdir().unwrap();
        let (source, target) = (base.path().join("src"), base.path().join("dst"));
        tree(&source);
        let mut job = job(direction, &[&source], &target);
        job["encrypt"] = json!(encrypt);
        let kept = base.path().join("digests");
        ends::keep_digests(&mut job, &kept);
        let proxy = Proxy::new(how, drawn(seed + 1, 10, 5 << 20));
        let outcome = run_through(&proxy, &job).result();
        proxy.over.store(true, Ordering::Relaxed);
        let which = format!("seed {seed}: {direction}, encrypted {encrypt}, {how:?}");
        let outcome = outcome.unwrap_or_else(|error| panic!("{which}: {error}"));
        assert_eq!(listing(&target), listing(&source), "{which}");
        assert_eq!(outcome["files"], 304, "{which}");
        let sizes = listing(&source)
            .iter()
            .map(|one| one.4.len() as u64)
            .sum::<u64>();
        let link = "../nowhere".len() as u64;
        assert_eq!(outcome["bytes"], sizes - link, "{which}");
        let digests = ends::digests(&kept);
        assert_eq!(digests.len(), 304, "{which}");
        for (name, hex) in digests {
            let expected = blake3::hash(&fs::read(source.join(&name)).unwrap()).to_hex();
            assert_eq!(hex, expected.as_str(), "{which}: {}", name.display());
        }
        let cut = proxy.cut.load(Ordering::Relaxed);
        let replaced = outcome["connections_replaced"].as_u64().unwrap();
        assert!(replaced > 0 || cut == 0, "{which}: {cut} were cut");
        cuts += cut;
    }
    assert!(cuts > 50, "{cuts}");
}

#[test]
fn holes_that_a_broken_connection_has_lost_are_told_again() {
    let mut replaced = 0;
    for seed in 0..8 {
        let direction = ["push", "pull"][seed as usize % 2];
        let how = [Cut::Reset, Cut::Closed][seed as usize / 2 % 2];
        let base = tempfile::tempdir().unwrap();
        let (source, target) = (base.path().join("src"), base.path().join("dst"));
        holed_tree(&source);
        let mut job = job(direction, &[&source], &target);
        job["keep"] = json!({"sparse": seed / 4 == 0});
        let proxy = Proxy::new(how, drawn(seed + 1, 8, 2 << 20));
        let outcome = run_through(&proxy, &job).result();
        proxy.over.store(true, Ordering::Relaxed);
        let outcome = outcome.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert!(listing(&target) == listing(&source), "seed {seed}");
        let count = |key: &str| outcome[key].as_u64().unwrap();
        let sizes = listing(&source).into_iter().map(|one| one.4.len() as u64);
        let all = sizes.sum::<u64>();
        assert_eq!(count("bytes") + count("hole_bytes"), all, "seed {seed}");
        replaced += count("connections_replaced");
    }
    assert!(replaced > 20, "{replaced}");
}

#[test]
fn what_a_broken_connection_lost_of_a_pipe_is_sent_again_from_memory() {
    let mut replaced = 0;
    for seed in 0..8 {
        let how = [Cut::Reset, Cut::Closed][seed as usize / 2 % 2];
        let base = tempfile::tempdir().unwrap();
        let (source, target) = (base.path().join("src"), base.path().join("dst"));
        let given = content(40 * MIB + 77);
        let (mut reader, mut writer) = pipe().unwrap();
        let proxy = Proxy::new(how, drawn(seed + 1, 10, 8 << 20));
        let mut came = Vec::new();
        let outcome = if seed % 2 == 0 {
            let ends = run_through(&proxy, &piped::out_of(&reader, &target));
            drop(reader);
            writer.write_all(&given).unwrap();
            drop(writer);
            let outcome = ends.result();
            came = fs::read(&target).unwrap();
            outcome
        } else {
            fs::write(&source, &given).unwrap();
            let ends = run_through(&proxy, &piped::into(&writer, &source));
            drop(writer);
            thread::scope(|scope| {
                scope.spawn(|| reader.read_to_end(&mut came).unwrap());
                ends.result()
            })
        };
        proxy.over.store(true, Ordering::Relaxed);
        let outcome = outcome.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert!(came == given, "seed {seed}");
        replaced += outcome["connections_replaced"].as_u64().unwrap();
    }
    assert!(replaced > 20, "{replaced}");
}

#[test]
fn all_connections_may_break_at_once_and_memory_goes_on_too() {
    for direction in ["push", "pull"] {
        let mut job = job(direction, &[], Path::new(""));
        job["memory_bytes"] = json!(1_500_000_001_u64);
        let proxy = Proxy::new(Cut::Reset, Vec::new());
        let ends = run_through(&proxy, &job);
        for part in 1..=3 {
            ends.wait_for_bytes(part * 200_000_000);
            proxy.cut_all();
        }
        let outcome = ends.result().unwrap();
        proxy.over.store(true, Ordering::Relaxed);
        assert_eq!(outcome["bytes"], 1_500_000_001_u64, "{direction}");
        assert!(
            outcome["connections_replaced"].as_u64().unwrap() >= 6,
            "{outcome}"
        );
    }
}

#[test]
fn a_port_that_is_closed_for_a_while_is_waited_for_as_long_as_the_patience_lasts() {
    for (direction, patience_s, closed_s) in
        [("push", 300.0, 2), ("pull", 300.0, 2), ("push", 1.0, 60)]
    {
        let mut job = job(direction, &[], Path::new(""));
        job["memory_bytes"] = json!(1_000_000_000_u64);
        job["patience_s"] = json!(patience_s);
        let proxy = Proxy::new(Cut::Reset, Vec::new());
        let mut port = 0;
        job["data_address"] = json!(ADDRESS.to_string());
        let plan = json!({"streams": 4, "block_bytes": 1 << 20});
        let ends = Ends::start_with(&job, &plan, |of_far| {
            port = of_far;
            proxy.serve(port);
        });
        ends.wait_for_bytes(100_000_000);
        proxy.over.store(true, Ordering::Relaxed);
        thread::sleep(Duration::from_millis(100));
        proxy.cut_all();
        let since = Instant::now();
        while since.elapsed() < Duration::from_secs(closed_s) && !ends.session.wait(Duration::ZERO)
        {
            thread::sleep(Duration::from_millis(5));
        }
        if closed_s < 60 {
            let proxy = Proxy::new(Cut::Reset, Vec::new());
            proxy.serve(port);
            let outcome = ends.result().unwrap();
            assert_eq!(outcome["bytes"], 1_000_000_000_u64, "{direction}");
            proxy.over.store(true, Ordering::Relaxed);
        } else {
            assert!(
                since.elapsed() < Duration::from_secs(10),
                "{:?}",
                since.elapsed()
            );
            let error = ends.result().unwrap_err();
            assert!(
                error.contains("1 s of new connections brought nothing"),
                "{error}"
            );
        }
    }
}

#[test]
fn connections_that_end_before_they_carry_anything_are_replaced() {
    for how in [Cut::Reset, Cut::Closed] {
        let mut job = job("push", &[], Path::new(""));
        job["memory_bytes"] = json!(100_000_000_u64);
        let proxy = Proxy::new(how, vec![300; 4]);
        let outcome = run_through(&proxy, &job).result().unwrap();
        assert_eq!(outcome["bytes"], 100_000_000_u64, "{how:?}");
        assert_eq!(proxy.cut.load(Ordering::Relaxed), 4, "{how:?}");
    }
}

#[test]
fn without_patience_a_connection_that_breaks_ends_the_copy() {
    let mut job = job("push", &[], Path::new(""));
    job["memory_bytes"] = json!(1_000_000_000_u64);
    job["patience_s"] = json!(0.0);
    let proxy = Proxy::new(Cut::Reset, vec![100 << 20; 4]);
    let error = run_through(&proxy, &job).result().unwrap_err();
    assert!(
        error.contains("no patience for another connection"),
        "{error}"
    );
    assert!(error.contains("same command again to go on"), "{error}");
}

#[test]
fn a_bit_that_flips_on_the_way_ends_the_copy_and_is_named() {
    for number in 0..12 {
        let base = tempfile::tempdir().unwrap();
        let (source, target) = (base.path().join("src"), base.path().join("dst"));
        fs::write(&source, content(24 * MIB)).unwrap();
        let encrypt = number % 2 == 0;
        let mut job = job("push", &[&source], &target);
        job["encrypt"] = json!(encrypt);
        let proxy = Proxy::new(Cut::Damaged, vec![(3 << 20) + 250_000 * number; 4]);
        let error = run_through(&proxy, &job).result().unwrap_err();
        proxy.over.store(true, Ordering::Relaxed);
        let named = match encrypt {
            true => error.contains("changed on the way"),
            false => error.contains("a checksum does not match"),
        };
        assert!(named, "{number}: {error}");
        assert!(!target.exists());
    }
}

#[test]
fn a_file_that_changes_while_its_pieces_come_again_is_left_out() {
    let base = tempfile::tempdir().unwrap();
    let (source, target) = (base.path().join("src"), base.path().join("dst"));
    fs::create_dir(&source).unwrap();
    fs::write(source.join("changes"), content(64 * MIB)).unwrap();
    fs::write(source.join("stays"), content(300_000)).unwrap();
    let proxy = Proxy::new(Cut::Reset, vec![6 << 20; 12]);
    let ends = run_through(&proxy, &job("push", &[&source], &target));
    ends.wait_for_bytes(4 << 20);
    let mut file = fs::OpenOptions::new()
        .write(true)
        .open(source.join("changes"))
        .unwrap();
    file.write_all(b"!").unwrap();
    drop(file);
    let outcome = ends.result().unwrap();
    proxy.over.store(true, Ordering::Relaxed);
    assert_eq!(outcome["files"], 1, "{outcome}");
    assert_eq!(outcome["left_out"].as_array().unwrap().len(), 1);
    let left: Vec<_> = fs::read_dir(&target)
        .unwrap()
        .map(|one| one.unwrap().file_name())
        .collect();
    assert_eq!(left, ["stays"]);
}
