//! Rules by cgroup: the deepest first, then those of no cgroup, for new connections and for live ones.

mod own;
mod path;
mod privilege;

use std::{
    fs,
    net::{TcpListener, TcpStream},
    path::PathBuf,
    process::{Child, Command, ExitCode, Stdio},
};

use howdah_cc::{Connection, Place, Shares};
use own::{Own, place, said};
use path::{Path, send};
use privilege::tests;

/// A cgroup of a test's own with one below it, and processes in both.
struct Groups {
    root: PathBuf,
    outer: String,
    members: Vec<Child>,
}

impl Groups {
    fn new(mark: char) -> Self {
        let mounts = fs::read_to_string("/proc/mounts").unwrap();
        let root = mounts
            .lines()
            .map(|line| line.split(' ').collect::<Vec<_>>())
            .find(|fields| fields[2] == "cgroup2")
            .map(|fields| PathBuf::from(fields[1]));
        let mut groups = Self {
            root: root.expect("cgroup2 is mounted"),
            outer: format!("/howdah-test-{}{mark}", std::process::id()),
            members: Vec::new(),
        };
        for name in [groups.outer(), groups.inner()] {
            groups.make(&name);
        }
        groups
    }

    fn outer(&self) -> String {
        self.outer.clone()
    }

    fn inner(&self) -> String {
        format!("{}/inner", self.outer)
    }

    fn folder(&self, name: &str) -> PathBuf {
        self.root.join(&name[1..])
    }

    fn make(&mut self, name: &str) {
        fs::create_dir(self.folder(name)).unwrap();
    }

    /// What the kernel says of the near end of a new connection, made by a process of a cgroup.
    fn connect(&mut self, name: &str, path: &Path, listener: &TcpListener) -> TcpStream {
        let to = listener.local_addr().unwrap();
        let script = "echo $$ >$0/cgroup.procs && exec 3<>/dev/tcp/$1/$2 && exec cat <&3";
        let (ip, port) = (to.ip().to_string(), to.port().to_string());
        let folder = self.folder(name);
        let begin = || {
            Command::new("bash")
                .args(["-c", script])
                .arg(&folder)
                .args([&ip, &port])
                .stdout(Stdio::null())
                .spawn()
                .unwrap()
        };
        self.members.push(path.near(begin));
        listener.accept().unwrap().0
    }

    fn end_members(&mut self) {
        for mut member in self.members.drain(..) {
            let _ = member.kill();
            let _ = member.wait();
        }
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        self.end_members();
        for name in [self.inner(), self.outer()] {
            let _ = fs::remove_dir(self.folder(&name));
        }
    }
}

/// The near end of a connection, of which we have the far end.
fn near_of(own: &Own, far: &TcpStream) -> Connection {
    let (remote, local) = (far.local_addr().unwrap(), far.peer_addr().unwrap());
    let mut all = own.store.connections().unwrap();
    all.retain(|each| each.local == local && each.remote == remote && !each.listens);
    assert_eq!(all.len(), 1);
    all.remove(0)
}

fn all_of(cgroup: &str, namespace: u64) -> Place {
    Place::new(None, "1-65535", Some(cgroup), Some(namespace)).unwrap()
}

fn the_deepest_cgroup_decides_and_what_it_leaves_goes_to_the_next() {
    let own = Own::new('u');
    for program in ["scalable", "highspeed"] {
        own.load(program, &[]).unwrap();
    }
    let (scalable, highspeed) = (own.name("scalable"), own.name("highspeed"));
    let path = Path::new(100_000_000, 2_000_000, 0.0);
    for (family, to) in [(4, "10.78.0.2/32"), (6, "fd78::2/128")] {
        let mut groups = Groups::new('u');
        let (outer, inner) = (groups.outer(), groups.inner());
        let listener = path.listener(family);
        let (outside, _far) = path.connection_to(&listener, "cubic");
        let namespace = own.connection(&outside).namespace;
        let mut connect = |name: &str| groups.connect(name, &path, &listener);
        let live = [connect(&outer), connect(&inner)];
        let before = near_of(&own, &live[0]).control;
        let ends = [
            outside.local_addr().unwrap(),
            live[0].peer_addr().unwrap(),
            live[1].peer_addr().unwrap(),
        ];
        let of_live = || {
            let all = own.store.connections().unwrap();
            ends.map(|end| {
                let near = all
                    .iter()
                    .find(|each| each.local == end && each.namespace == namespace);
                near.unwrap().control.clone()
            })
        };
        let by_prefix = Place {
            namespace: Some(namespace),
            ..place(to, "1-65535")
        };
        let by_both = Place {
            cgroup: Some(outer.parse().unwrap()),
            ..by_prefix.clone()
        };
        let by_cgroup = all_of(&inner, namespace);
        let attach = |rule: &Place, control: &str| {
            let attached = own.store.attach(rule.clone(), control, None);
            attached.unwrap().moved
        };
        let detach = |rule: &Place| own.store.detach(rule).unwrap().moved;

        assert_eq!(attach(&by_cgroup, &highspeed), 1);
        assert_eq!(attach(&by_prefix, "reno"), 2);
        assert_eq!(of_live(), ["reno", "reno", &highspeed]);
        assert_eq!(attach(&by_both, &scalable), 1);
        assert_eq!(of_live(), ["reno", &scalable, &highspeed]);

        let new = [connect(&outer), connect(&inner)];
        assert_eq!(near_of(&own, &new[0]).control, scalable);
        assert_eq!(near_of(&own, &new[1]).control, highspeed);
        let (new_outside, _far) = path.connection_to(&listener, "cubic");
        assert_eq!(own.connection(&new_outside).control, "reno");
        let chosen: Vec<_> = own.store.rules().unwrap();
        assert_eq!(
            chosen.iter().map(|rule| rule.chosen).collect::<Vec<_>>(),
            [1, 1, 1]
        );

        assert_eq!(detach(&by_cgroup), 2);
        assert_eq!(of_live(), ["reno", &scalable, &scalable]);
        assert_eq!(attach(&by_cgroup, &highspeed), 2);
        assert_eq!(detach(&by_both), 2);
        assert_eq!(of_live(), ["reno", "reno", &highspeed]);
        assert_eq!(detach(&by_cgroup), 2);
        assert_eq!(of_live(), ["reno", "reno", "reno"]);
        assert_eq!(detach(&by_prefix), 6);
        assert_eq!(of_live(), ["cubic", &before, &before]);
        assert_eq!(near_of(&own, &new[1]).control, before);
    }
}

fn a_cgroup_that_is_not_there_is_refused_or_waited_for() {
    let own = Own::new('w');
    own.load("hold", &[]).unwrap();
    let path = Path::new(100_000_000, 2_000_000, 0.0);
    let mut groups = Groups::new('w');
    let inner = groups.inner();
    let listener = path.listener(4);
    let far = groups.connect(&inner, &path, &listener);
    let namespace = near_of(&own, &far).namespace;
    let rule = all_of(&inner, namespace);
    let nowhere = all_of(&format!("{inner}/none"), namespace);
    let refused = said(own.store.attach(nowhere.clone(), "reno", None));
    assert!(
        refused.contains(&format!("there is no cgroup {inner}/none below /")),
        "{refused}"
    );

    let mut shares = Shares::open(&own.store, "one").unwrap();
    shares.define("images", 20_000_000).unwrap();
    let wanted = [rule.clone(), nowhere].map(|place| (place, "images".to_owned()));
    let placing = shares.place(&wanted).unwrap();
    assert_eq!((placing.begun, placing.moved), (1, 1));
    assert_eq!(
        placing.missing[0].to_string(),
        format!("{inner}/none"),
        "{placing:?}"
    );
    assert_eq!(near_of(&own, &far).control, own.name("hold"));
    let (mut other, mut far_other) = path.connection("reno", 4);
    send(&mut other, &mut far_other, 10_000);
    assert_eq!(own.connection(&other).control, "reno");
    assert_eq!(shares.all().unwrap()[0].sent_bytes, 0);

    // A service that starts anew has another cgroup of the same path.
    drop(far);
    groups.end_members();
    fs::remove_dir(groups.folder(&inner)).unwrap();
    let placing = shares.place(&wanted[..1]).unwrap();
    assert_eq!((placing.begun, placing.ended), (0, 0));
    assert_eq!(placing.missing.len(), 1);
    groups.make(&inner);
    let placing = shares.place(&wanted[..1]).unwrap();
    assert_eq!((placing.begun, placing.ended), (1, 1));
    assert!(placing.missing.is_empty());
    let far = groups.connect(&inner, &path, &listener);
    assert_eq!(near_of(&own, &far).control, own.name("hold"));
    own.store.detach(&rule).unwrap();
}

fn a_rule_says_whose_or_where() {
    let refused = said(Place::new(None, "1", None, None));
    assert!(refused.contains("by a prefix they go to, by a cgroup"));
    let both = Place::new(Some("10.9.0.0/16"), "5432", Some("/a/b"), Some(7)).unwrap();
    assert_eq!(
        both.to_string(),
        "--cgroup /a/b --to 10.9.0.0/16 --ports 5432 --namespace 7"
    );
    let whole = Place::new(None, "1-65535", Some("/"), None).unwrap();
    assert_eq!(whole.to_string(), "--cgroup / --ports 1-65535");
}

fn main() -> ExitCode {
    let needing = tests![
        the_deepest_cgroup_decides_and_what_it_leaves_goes_to_the_next,
        a_cgroup_that_is_not_there_is_refused_or_waited_for
    ];
    let others = tests![a_rule_says_whose_or_where];
    privilege::run([(path::missing_privilege(), needing), (None, others)])
}
