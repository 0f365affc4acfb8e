//! Each program in the running kernel is verified, chosen by a socket, and has every callback run.

mod counting;
mod path;
mod privilege;

use std::{
    io::{self, Write as _},
    mem,
    net::{Shutdown, TcpStream},
    os::fd::AsRawFd,
    process::ExitCode,
    thread,
    time::{Duration, Instant},
};

use counting::{Counting, runs};
use howdah_cc::{Error, PROGRAMS, Program, Store, Trial};
use howdah_link::Change;
use path::{Path, send};
use privilege::{Test, tests};
use rustix::net::sockopt::{set_socket_send_buffer_size, set_tcp_congestion, tcp_congestion};

/// `TCP_CA_Loss` (include/uapi/linux/tcp.h).
const LOSS: u8 = 4;
/// `TCP_INFINITE_SSTHRESH` (include/net/tcp.h): nothing has ended slow start.
const INFINITE_SSTHRESH: u32 = 0x7fff_ffff;

/// How often an undo is tried.
const UNDO_TRIES: u32 = 3;

/// Names of this test's own, so that they do not meet those that somebody uses.
fn store(mark: char) -> Store {
    let number = std::process::id() % 10_000;
    Store::at(
        &format!("howdah-test-{number}{mark}"),
        &format!("{mark}{number}"),
    )
}

fn trial(store: &Store, program: &Program) -> Result<Trial, Error> {
    Trial::begin(store, program, &program.values(&[])?)
}

/// A program under loss, on both families, then through an undo and back to another control, so that each of
/// its callbacks has a reason to run.
fn every_callback_runs(program: &Program) {
    let _counting = Counting::begin();
    let trial = trial(&store('c'), program).unwrap_or_else(|error| panic!("{error}"));
    for family in [4, 6] {
        let path = Path::new(50_000_000, 20_000_000, 0.002);
        let (mut near, mut far) = path.connection(trial.name(), family);
        send(&mut near, &mut far, 4_000_000);
        assert_eq!(tcp_congestion(&near).unwrap(), trial.name());
        let undone = (0..UNDO_TRIES).any(|_| undo(trial.name(), family));
        assert!(undone, "{} never undid its cut", trial.name());
        set_tcp_congestion(&near, "reno").unwrap();
    }
    for (callback, id) in trial.callbacks().unwrap() {
        assert!(runs(id) > 0, "{callback}");
    }
}

/// The delay of a path jumps by more than a timeout. The sender takes what is late for lost, until the ACKs of
/// the first transmission say that it was not (Eifel, RFC 3522): then the window it had comes back. Whether that
/// came: a machine that pauses may lose something in truth.
fn undo(control: &str, family: u8) -> bool {
    const RTT_NS: u64 = 20_000_000;
    let jump = Change {
        at_ns: 500_000_000,
        delay_ns: Some(500_000_000),
        ..Change::default()
    };
    let path = Path::of(1_000_000_000, RTT_NS, 0.0, vec![jump]);
    let (near, far) = path.connection(control, family);
    // The buffer bounds the window, so that nothing is lost and slow start has no end.
    set_socket_send_buffer_size(&near, 1 << 18).unwrap();
    let looks = looks_while_sending(near, far, Duration::from_millis(1_600));

    let cut = looks.iter().position(|look| look.lost);
    let cut = cut.unwrap_or_else(|| panic!("{control} never took what was late for lost"));
    let (before, after) = (&looks[cut - 1], &looks[cut..]);
    assert!(before.cwnd > 50, "{before:?}");
    let fallen = after.iter().map(|look| look.cwnd).min();
    assert!(fallen < Some(before.cwnd / 2), "{fallen:?}");
    // The kernel reads the window before it locks the socket, and the rest after that (tcp_get_info): the first look
    // may have the window of before the undo.
    let mut looks = after.windows(2);
    let undone = looks.find(|two| two.iter().all(Look::is_uncut));
    if let Some([_, undone]) = undone {
        assert!(
            undone.cwnd >= before.cwnd,
            "{control}: {before:?} before, {undone:?} after the undo"
        );
    }
    undone.is_some()
}

/// A connection at one instant.
#[derive(Debug)]
struct Look {
    /// Whether a timeout has taken all that is on its way for lost, and nothing has undone or mended that yet.
    lost: bool,
    cwnd: u32,
    ssthresh: u32,
}

impl Look {
    fn of(socket: &TcpStream) -> Self {
        // SAFETY: all zeros are a `tcp_info`.
        let mut info: libc::tcp_info = unsafe { mem::zeroed() };
        let mut length = mem::size_of_val(&info) as libc::socklen_t;
        // SAFETY: the kernel writes at most `length` bytes, which is what `info` has.
        let failed = unsafe {
            libc::getsockopt(
                socket.as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                (&raw mut info).cast(),
                &raw mut length,
            )
        };
        assert_eq!(failed, 0, "{}", io::Error::last_os_error());
        Self {
            lost: info.tcpi_ca_state == LOSS,
            cwnd: info.tcpi_snd_cwnd,
            ssthresh: info.tcpi_snd_ssthresh,
        }
    }

    /// Whether no cut counts any more. Where a kernel has skipped `ssthresh` (`skipped.h`), a threshold beyond this one
    /// is what lay on its stack.
    fn is_uncut(&self) -> bool {
        !self.lost && self.ssthresh == INFINITE_SSTHRESH
    }
}

fn what_lay_on_the_stack_is_no_undo() {
    let look = |lost, cwnd, ssthresh| Look {
        lost,
        cwnd,
        ssthresh,
    };
    // A timeout whose cut a kernel skipped: half of all numbers are beyond the threshold that means none.
    assert!(!look(true, 1, 0x9c3f_be90).is_uncut());
    assert!(!look(false, 1, 0x9c3f_be90).is_uncut());
    assert!(!look(true, 1, INFINITE_SSTHRESH).is_uncut());
    assert!(!look(false, 180, 90).is_uncut());
    assert!(look(false, 180, INFINITE_SSTHRESH).is_uncut());
}

/// What a connection that always has data says of itself, about every millisecond.
fn looks_while_sending(near: TcpStream, far: TcpStream, span: Duration) -> Vec<Look> {
    let until = Instant::now() + span;
    thread::scope(|scope| {
        scope.spawn(|| io::copy(&mut &far, &mut io::sink()));
        scope.spawn(|| while (&near).write_all(&[0; 1 << 16]).is_ok() {});
        let mut looks = vec![];
        while Instant::now() < until {
            looks.push(Look::of(&near));
            thread::sleep(Duration::from_millis(1));
        }
        near.shutdown(Shutdown::Both).unwrap();
        looks
    })
}

fn a_name_that_is_taken_is_refused_and_freed_at_the_end() {
    let program = Program::find("scalable").unwrap();
    let store = store('n');
    let first = trial(&store, program).unwrap();
    let Err(refused @ Error::NameTaken { .. }) = trial(&store, program) else {
        panic!("registered twice");
    };
    assert!(refused.to_string().contains(first.name()), "{refused}");
    drop(first);
    trial(&store, program).unwrap();
}

fn a_name_the_kernel_cannot_take_is_refused_in_one_line_with_its_log_kept() {
    let nameless = Store::at("howdah-test", "\0");
    let refused = trial(&nameless, Program::find("scalable").unwrap());
    let Err(refused) = refused else {
        panic!("a control without a name");
    };
    assert!(!refused.to_string().contains('\n'), "{refused}");
    assert!(refused.log().is_some());
}

fn every_program_has_parameters_in_range_and_names_that_fit() {
    for program in PROGRAMS {
        assert!(program.name.len() + "hd_".len() <= 15, "{}", program.name);
        for parameter in program.parameters {
            assert!(parameter.allows(parameter.default));
            let text = parameter.unit.show(parameter.default);
            let given = [(parameter.name.to_owned(), text)];
            assert_eq!(
                program.values(&given).unwrap(),
                program.values(&[]).unwrap()
            );
        }
    }
}

fn the_docs_name_every_parameter() {
    let docs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cc.md");
    let docs = std::fs::read_to_string(docs).unwrap();
    for program in PROGRAMS {
        for parameter in program.parameters {
            let named = format!("`{}`", parameter.name);
            assert!(docs.contains(&named), "{}: {named}", program.name);
        }
    }
}

fn wrong_parameters_are_refused_in_one_line() {
    let hold = Program::find("hd_hold").unwrap();
    for (name, text, says) in [
        (
            "gard_loss",
            "10%",
            "has no parameter \"gard_loss\"; it has headroom",
        ),
        (
            "guard_loss",
            "0.01%",
            "0.01% is out of range; it takes 0.1% to 100%",
        ),
        ("guard_loss", "lots", "\"lots\" is not a number"),
        ("base_rtt_window", "2", "has no unit"),
        (
            "base_rtt_window",
            "1ms",
            "1ms is out of range; it takes 10ms to 600s",
        ),
        ("guard_rounds", "0", "0 is out of range"),
        ("frame_overhead", "38", "has no unit"),
    ] {
        let error = hold
            .values(&[(name.into(), text.into())])
            .unwrap_err()
            .to_string();
        assert!(error.contains(says), "{error}");
        assert!(!error.contains('\n'));
    }
    let htcp = Program::find("htcp").unwrap();
    let error = htcp
        .values(&[("rtt_scaling".into(), "1".into())])
        .unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("\"1\" is neither on nor off; it takes on or off")
    );
    let highspeed = Program::find("highspeed").unwrap();
    let error = highspeed.values(&[("x".into(), "1".into())]).unwrap_err();
    assert!(error.to_string().ends_with("it has none"), "{error}");
    let error = Program::find("cubic").unwrap_err().to_string();
    assert!(
        error.ends_with(&format!("howdah brings {}", Program::names().join(", "))),
        "{error}"
    );
}

fn main() -> ExitCode {
    // Resume hands a connection over at once, unless it knows its path: see resume.rs.
    let stays = PROGRAMS.iter().filter(|program| program.name != "resume");
    let each = stays.map(|program| -> Test {
        let name = format!("every_callback_of_{}_runs", program.name);
        (name, Box::new(|| every_callback_runs(program)))
    });
    let mut needing = tests![
        a_name_that_is_taken_is_refused_and_freed_at_the_end,
        a_name_the_kernel_cannot_take_is_refused_in_one_line_with_its_log_kept,
    ];
    needing.extend(each);
    let others = tests![
        every_program_has_parameters_in_range_and_names_that_fit,
        what_lay_on_the_stack_is_no_undo,
        the_docs_name_every_parameter,
        wrong_parameters_are_refused_in_one_line,
    ];
    privilege::run([(path::missing_privilege(), needing), (None, others)])
}
