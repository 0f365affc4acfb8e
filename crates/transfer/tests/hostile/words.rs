//! Words of the control channel that lie, or come out of place.

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::net::Shutdown;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

use howdah_wire::{
    Content, Delete, Direction, Limit, LinkTarget, Memory, Message, Piece, Removal, Steering,
    Totals, encode,
};

use super::liar::{Liar, header, job, tree_path};

#[test]
fn a_message_out_of_place_and_a_frame_of_noise_end_the_session() {
    for noise in [
        encode(&Message::Job(Box::new(job()))).unwrap(),
        encode(&Message::Steer(steering())).unwrap(),
        encode(&Message::Limit(Limit {
            most_bps: Some(0),
            paused: false,
        }))
        .unwrap(),
        vec![0xff; 64],
    ] {
        let mut liar = Liar::begin();
        liar.control.write_all(&noise).unwrap();
        let started = Instant::now();
        assert!(liar.far.join().unwrap().is_err());
        assert!(started.elapsed() < Duration::from_secs(5));
    }
}

#[test]
fn a_sender_is_steered_to_nothing_that_the_plan_or_a_kernel_has_not() {
    let lies = [
        (0, None),
        (2, None),
        (1, Some("bbr\0".to_owned())),
        (1, Some("x".repeat(1 << 20))),
    ];
    for (streams, congestion_control) in lies {
        let mut liar = Liar::begin_job(None, |job| {
            job.direction = Direction::Pull;
            job.sources.clear();
            job.memory = Some(Memory::Bytes(1 << 20));
        });
        liar.say(&Message::Steer(Steering {
            congestion_control,
            streams,
            ..steering()
        }));
        assert!(liar.far.join().unwrap().is_err());
    }
}

/// A job that removes what the source has not, of a folder to which these pieces come and that has no names.
fn removal_by(pieces: &[u8], pushed: Totals, folders: &[&str]) -> (tempfile::TempDir, Removal) {
    let mut liar = Liar::begin_job(None, |job| {
        // In a new folder nothing would be looked for.
        let target = Path::new(OsStr::from_bytes(&job.destination)).join("src");
        fs::create_dir(target).unwrap();
        job.delete = Some(Delete {
            excluded: false,
            most: None,
        });
    });
    fs::create_dir(liar.base.path().join("outside")).unwrap();
    fs::write(liar.base.path().join("outside/precious"), b"precious").unwrap();
    let mut stream = liar.stream(liar.hello.token);
    stream.write_all(pieces).unwrap();
    stream.write_all(&header(Piece::End(pushed))).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    for folder in folders {
        liar.say(&Message::Content(vec![Content {
            source: 0,
            folder: tree_path(folder),
            names: Vec::new(),
            complete: true,
        }]));
    }
    liar.say(&Message::AllSent { whole: true });
    let finished = liar.finished();
    liar.far.join().unwrap().unwrap();
    (liar.base, finished.removal.unwrap())
}

#[test]
fn a_link_does_not_lead_a_removal_outside() {
    for points_to in ["../../outside", "/", ".."] {
        let link = Piece::Link {
            source: 0,
            path: tree_path("way"),
            target: LinkTarget::try_from(points_to.as_bytes().to_vec()).unwrap(),
            mtime_ns: 0,
            owner: None,
            xattrs: None,
        };
        let pushed = Totals {
            links: 1,
            special_files: 0,
            ..Totals::default()
        };
        let (base, removal) = removal_by(&header(link), pushed, &["way", "way/outside", "other"]);
        assert_eq!(removal, Removal::default());
        for name in ["victim", "outside/precious"] {
            assert_eq!(fs::read(base.path().join(name)).unwrap(), b"precious");
        }
    }
}

fn steering() -> Steering {
    Steering {
        congestion_control: Some("reno".to_owned()),
        streams: 1,
        pacing_bps: None,
    }
}
