//! What a site's policy and a user's make together, read from files.

use super::*;
use std::os::unix::fs::{PermissionsExt, symlink};

const STRICT: &str = "audit = \"required\"\n[ssh]\nkeep_logins = false\nfar_ends = [\"*.example.org\"]\n\
    [data]\nplaintext = false\ndelete = false\nports = \"50000-50100\"\n\
    [programs]\nload = false\n\
    [quota]\ncopy = \"1GB\"\nday = \"2GB\"\n";
const LOOSE: &str = "audit = \"on\"\n[ssh]\nkeep_logins = true\nfar_ends = [\"*\"]\n\
    [data]\nplaintext = true\ndelete = true\nports = \"1-65535\"\n[programs]\nload = true\n\
    [quota]\ncopy = \"1TB\"\nday = \"2TB\"\n";

/// A site's policy and a user's, which say nothing yet.
struct Files(tempfile::TempDir);

impl Files {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn places(&self) -> Places {
        Places::below(self.0.path())
    }

    fn put(&self, path: &Path, text: &[u8]) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self.mode(path, 0o644);
        self.mode(path.parent().unwrap(), 0o755);
    }

    fn mode(&self, path: &Path, mode: u32) {
        fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    }

    fn say(&self, site: &str, own: &str) -> Result<Policy, Error> {
        let places = self.places();
        self.put(&places.site, site.as_bytes());
        self.put(&places.own, own.as_bytes());
        Policy::in_force(places)
    }

    fn refused(&self) -> String {
        match Policy::in_force(self.places()) {
            Err(Error::Broken(why)) => why,
            other => panic!("{other:?}"),
        }
    }
}

fn refusal<T: std::fmt::Debug>(answer: Result<T, Error>) -> String {
    match answer {
        Err(Error::Refused(why)) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_says_nothing_forbids_nothing() {
    let files = Files::new();
    let none = Policy::in_force(files.places()).unwrap();
    assert_eq!(files.say("", "[ssh]\n[data]\n").unwrap(), none);
    none.check_plaintext(false).unwrap();
    none.check_programs().unwrap();
    none.check_far_end("anywhere").unwrap();
    assert!(none.keep_logins && !none.audit_required);
    assert!(none.rules().is_empty());
}

#[test]
fn each_key_binds_in_either_file_and_what_is_shown_could_stand_in_one() {
    let files = Files::new();
    let none = files.say("", "").unwrap();
    for text in [
        "audit = \"required\"",
        "[ssh]\nkeep_logins = false",
        "[ssh]\nfar_ends = [\"*.example.org\", \"10.9.0.0/16\", \"2001:db8::/32\"]",
        "[data]\nplaintext = false",
        "[data]\ndelete = false",
        "[data]\nports = \"50000-50100\"",
        "[data]\nports = \"50000\"",
        "[programs]\nload = false",
        "[quota]\ncopy = \"10TB\"",
        "[quota]\nday = \"1.5 GiB\"",
    ] {
        let places = files.places();
        let (site, own) = (files.say(text, "").unwrap(), files.say("", text).unwrap());
        let rules = site.rules();
        let [(line, by)] = &rules[..] else {
            panic!("{text}")
        };
        assert_eq!(*by, places.site);
        assert_eq!(own.rules(), [(line.clone(), places.own)]);
        assert_ne!(site, none);
        let again = match line.split_once('.') {
            Some((table, last)) if text.starts_with('[') => format!("[{table}]\n{last}"),
            _ => line.clone(),
        };
        assert_eq!(files.say(&again, "").unwrap(), site);
    }
}

#[test]
fn lists_of_both_files_and_odd_patterns_are_shown_as_each_file_could_have_them() {
    let files = Files::new();
    let odd = "[ssh]\nfar_ends = [\"a\\\"\\\\b\", \"\\u0007\\u0085\\u202e\", \"Ω.org\"]\n";
    let both = files.say(odd, "[ssh]\nfar_ends = [\"*\"]\n").unwrap();
    let rules = both.rules();
    let [(site, _), (own, _)] = &rules[..] else {
        panic!("{rules:?}")
    };
    assert_eq!(own, "ssh.far_ends = [\"*\"]");
    assert_eq!(howdah_wire::printable(site.as_bytes()), *site);
    assert_eq!(files.say(site, own).unwrap(), both);
}

#[test]
fn an_error_is_one_short_line_whatever_a_file_holds() {
    let files = Files::new();
    let odd = format!("\\u001b]0;\\u202e{}", "x".repeat(10_000));
    for text in [
        format!("audit = \"{odd}\""),
        format!("\"{odd}\" = 1"),
        format!("ssh.\"{odd}\" = 1"),
        format!("ssh.far_ends = [\"@{odd}\"]"),
        format!("ssh.far_ends = [\"/{odd}\"]"),
        format!("data.ports = \"{odd}\""),
        format!("quota.copy = \"{odd}\""),
        format!("quota.copy = \"1{odd}\""),
    ] {
        let why = files.say(&text, "").unwrap_err().to_string();
        assert_eq!(howdah_wire::printable(why.as_bytes()), why);
        let path = files.places().site.display().to_string();
        assert!(why.len() < path.len() + 400, "{why}");
    }
    let why = ports("1-\u{1b}[2J").unwrap_err();
    assert!(why.starts_with("ports '1-\\u{1b}[2J' is no range"), "{why}");
}

#[test]
fn a_user_tightens_and_never_loosens() {
    let files = Files::new();
    let strict = files.say(STRICT, "").unwrap();
    let mut both = files.say(STRICT, LOOSE).unwrap();
    assert!(
        refusal(both.check_far_end("dtn1")).starts_with("dtn1 is no far end that is allowed by ")
    );
    both.check_far_end("dtn1.example.org").unwrap();
    (both.far_ends, both.set_by) = (strict.far_ends.clone(), strict.set_by.clone());
    assert_eq!(both, strict);
    let own = files.say(LOOSE, STRICT).unwrap();
    let why = refusal(own.check_plaintext(false));
    assert!(
        why.contains("forbidden by your own policy on host "),
        "{why}"
    );
    assert!(
        why.ends_with("own/policy.toml, data.plaintext); leave out --plaintext"),
        "{why}"
    );
    assert_eq!(
        (own.copy_bytes, own.day_bytes),
        (Some(1_000_000_000), Some(2_000_000_000))
    );
}

#[test]
fn ranges_of_ports_meet() {
    let files = Files::new();
    let range = |text: &str| format!("[data]\nports = \"{text}\"");
    let both = files
        .say(&range("50000-50100"), &range("50050-60000"))
        .unwrap();
    assert_eq!(both.ports_of(None), Ok(Some((50050, 50100))));
    assert_eq!(
        both.ports_of(Some((50000, 50060))),
        Ok(Some((50050, 50060)))
    );
    let why = refusal(both.ports_of(Some((5, 6))));
    assert!(
        why.starts_with("ports 5-6 have none of 50050-50100, which is the range of "),
        "{why}"
    );
    assert!(why.ends_with("; give --ports 50050-50100"), "{why}");
    files.say(&range("50000-50100"), &range("1-9")).unwrap_err();
    let said = files.refused();
    assert!(
        said.contains("own/policy.toml: data.ports: 1-9 has no port of 50000-50100, which "),
        "{said}"
    );
    assert_eq!(
        files.say("", "").unwrap().ports_of(Some((5, 6))),
        Ok(Some((5, 6)))
    );
}

#[test]
fn refusals_name_the_policy_and_the_key() {
    let files = Files::new();
    let found = files.say(STRICT, "").unwrap();
    found.check_plaintext(true).unwrap();
    found.check_delete(false).unwrap();
    let by = format!(
        "the policy of host {} ({}, ",
        nodename(),
        files.places().site.display()
    );
    for (answer, ends) in [
        (
            found.check_plaintext(false),
            "data.plaintext); leave out --plaintext",
        ),
        (found.check_delete(true), "data.delete); leave out --delete"),
        (
            found.check_programs(),
            "programs.load); ask this host's administrator, or see docs/policy.md",
        ),
        (
            found.check_far_end("evil"),
            "ssh.far_ends); ask this host's administrator, or see docs/policy.md",
        ),
    ] {
        let why = refusal(answer);
        assert!(why.contains(&by) && why.ends_with(ends), "{why}");
    }
}

#[test]
fn what_is_no_policy_is_refused_by_its_file_and_key() {
    let files = Files::new();
    for (text, words) in [
        ("[ssh", "is not TOML: "),
        (
            "[tls]\n",
            "policy.toml: unknown key tls; known are audit, ssh, data, programs, quota; ",
        ),
        (
            "ssh = 1",
            "policy.toml: ssh: expected a table, got a whole number; ",
        ),
        (
            "[ssh]\nkeep = 1",
            "policy.toml: ssh: unknown key keep; known are keep_logins, far_ends; ",
        ),
        (
            "[ssh]\nkeep_logins = 'no'",
            "policy.toml: ssh.keep_logins: expected true or false, got a text; ",
        ),
        (
            "[ssh]\nfar_ends = []",
            "ssh.far_ends is empty: no far end would be allowed; leave the key out for all; ask this host's",
        ),
        (
            "[ssh]\nfar_ends = ['10.9.0.1/16']",
            "ssh.far_ends 1: '10.9.0.1/16' is no network; give for example 10.9.0.0/16; ask this host's",
        ),
        (
            "[ssh]\nfar_ends = ['me@dtn1']",
            "ssh.far_ends 1: 'me@dtn1' is no pattern of hosts; give for example *.example.org",
        ),
        (
            "audit = 'off'",
            "policy.toml: audit: 'off' is unknown; give on or required; ",
        ),
        (
            "audit = true",
            "policy.toml: audit: expected a text, got true or false; ",
        ),
        (
            "[data]\nports = 50000",
            "policy.toml: data.ports: expected a text, got a whole number; ",
        ),
        (
            "[data]\nports = '5-4'",
            "data.ports: '5-4' is no range of ports; give for example \"50000-50999\"; ask this host's",
        ),
        ("[data]\nports = '1-65536'", "is no range of ports; give "),
        ("[data]\nports = '0-9'", "is no range of ports; give "),
        ("[data]\nports = '-'", "is no range of ports; give "),
        ("[data]\nports = '+5'", "is no range of ports; give "),
        ("[data]\nports = '0050000'", "is no range of ports; give "),
        (
            "[quota]\ncopy = '10'",
            "policy.toml: quota.copy: size \"10\" has no unit; ",
        ),
        (
            "[quota]\ncopy = '0'",
            "quota.copy: size \"0\" has no unit; write 0B where nothing may be moved; ask this host's",
        ),
        (
            "[quota]\ncopy = 20",
            "quota.copy: expected a text with a unit, as \"20TB\", got a whole number; ask this host's",
        ),
        (
            "[quota]\nday = true",
            "policy.toml: quota.day: expected a text with a unit, as \"20TB\", got true or false; ",
        ),
        ("[quota]\nday = '-1B'", "policy.toml: quota.day: "),
        ("\u{ff}", "is not TOML: "),
    ] {
        for file in [files.places().site, files.places().own] {
            files.put(&file, text.as_bytes());
            let said = files.refused();
            assert!(
                said.starts_with(&file.display().to_string()) && said.contains(words),
                "{said}"
            );
            assert!(!said.contains('\n'), "{said}");
            fs::remove_file(file).unwrap();
        }
    }
    files.put(&files.places().own, b"\xff");
    assert!(
        files
            .refused()
            .contains("is not TOML: it is no UTF-8; ask this host's administrator")
    );
}

#[test]
fn what_others_can_write_to_is_refused() {
    let files = Files::new();
    files.say("", "").unwrap();
    for file in [files.places().site, files.places().own] {
        for mode in [0o666, 0o664, 0o646] {
            files.mode(&file, mode);
            assert!(files.refused().contains(" and nobody else's to write"));
        }
        files.mode(&file, 0o644);
        let folder = file.parent().unwrap();
        files.mode(folder, 0o777);
        let said = files.refused();
        assert!(said.starts_with(&format!(
            "{}, which has a policy in it, must be ",
            folder.display()
        )));
        files.mode(folder, 0o755);
    }
    Policy::in_force(files.places()).unwrap();
    // Only root can give a file away, and no file of another user is root's.
    if uid() == ROOT {
        std::os::unix::fs::chown(files.places().site, Some(4711), None).unwrap();
    }
    let places = Places {
        root: ROOT,
        ..files.places()
    };
    let Err(Error::Broken(said)) = Policy::in_force(places) else {
        panic!("it is in force")
    };
    assert!(said.contains(
        "must be root's and nobody else's to write (chown root, chmod 644); ask this host's"
    ));
}

#[test]
fn what_is_no_file_is_refused_and_not_waited_for() {
    let files = Files::new();
    let site = files.places().site;
    files.say("", "").unwrap();
    files.put(&site, &vec![b'#'; (1 << 20) + 1]);
    assert!(
        files
            .refused()
            .contains("is no policy: it has more than 1048576 bytes; ")
    );
    fs::remove_file(&site).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, &site, 0o644.into()).unwrap();
    assert!(files.refused().contains("is no policy: it is no file; "));
}

#[test]
fn links_that_lead_nowhere_and_a_file_in_place_of_the_folder_are_no_missing_policy() {
    for file in [|places: Places| places.site, |places: Places| places.own] {
        let files = Files::new();
        let path = file(files.places());
        let folder = path.parent().unwrap();
        fs::create_dir_all(folder).unwrap();
        let nowhere = Path::new("/nonexistent/policy");
        symlink(nowhere, &path).unwrap();
        let begins = format!("cannot read {}: ", path.display());
        let leads = |at: &Path| {
            format!(
                "{begins}{} is a link that leads nowhere; {SEE}",
                at.display()
            )
        };
        assert_eq!(files.refused(), leads(&path));
        fs::remove_file(&path).unwrap();
        Policy::in_force(files.places()).unwrap();
        fs::remove_dir(folder).unwrap();
        symlink(nowhere, folder).unwrap();
        assert_eq!(files.refused(), leads(folder));
        fs::remove_file(folder).unwrap();
        fs::write(folder, "").unwrap();
        assert_eq!(
            files.refused(),
            format!("{begins}{} is no folder; {SEE}", folder.display())
        );
        fs::remove_file(folder).unwrap();
        Policy::in_force(files.places()).unwrap();
        // A folder that is elsewhere and has no policy.
        symlink(files.0.path(), folder).unwrap();
        Policy::in_force(files.places()).unwrap();
    }
}

#[test]
fn a_user_without_a_home_has_no_policy() {
    for home in ["/dev/null", "/nonexistent"] {
        let own = Path::new(home).join(".config/howdah/policy.toml");
        let places = Places {
            own,
            ..Files::new().places()
        };
        Policy::in_force(places).unwrap();
    }
}

#[test]
fn a_quota_of_nothing_refuses_every_copy() {
    let files = Files::new();
    for key in ["copy", "day"] {
        let found = files.say(&format!("[quota]\n{key} = \"0B\""), "").unwrap();
        let mut quota = crate::Quota::new(&found);
        let why = refusal(quota.begin(None));
        assert!(
            why.starts_with("copies that move a byte are forbidden by the policy of "),
            "{why}"
        );
    }
}
