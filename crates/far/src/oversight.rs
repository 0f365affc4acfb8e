//! Oversees one copy at its far end, under the policy of that host: decides whether it may begin and continue, and
//! writes the log.

use std::env;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use howdah_site::{Account, Copy, End, Error, Job, Outcome, Places, Policy, Quota};
use howdah_transfer::Overseer;

/// The overseer of one far end.
pub struct Oversight {
    places: Places,
    /// The folder at which the paths of the near end begin, as the host has it.
    root: Option<Vec<u8>>,
    /// There once a job was accepted.
    accepted: Mutex<Option<Accepted>>,
}

struct Accepted {
    began: Instant,
    policy: Policy,
    copy: Copy,
    quota: Quota,
    refusal: Option<String>,
}

impl Oversight {
    /// Uses the policy at these places at the time when a job comes, because a far end that was kept ready may be
    /// older than the policy. Paths begin at `root`, if it is given.
    pub fn new(places: Places, root: Option<&Path>) -> Self {
        let whole = |root: &Path| fs::canonicalize(root).unwrap_or_else(|_| root.to_owned());
        Self {
            places,
            root: root.map(|root| whole(root).into_os_string().into_vec()),
            accepted: Mutex::new(None),
        }
    }

    /// The job, with this end's paths as paths of the host.
    ///
    /// # Errors
    /// For what is no job.
    pub fn read(&self, job: &[u8]) -> Result<Job, String> {
        let mut job: Job = serde_json::from_slice(job).map_err(|error| error.to_string())?;
        let Some(root) = &self.root else {
            return Ok(job);
        };
        if job.is_pull() {
            for path in &mut job.sources {
                *path = beneath(root, path);
            }
        } else {
            job.destination = beneath(root, &job.destination);
        }
        Ok(job)
    }

    fn begin(&self, job: &Job, copy: &Copy, policy: &Policy) -> Result<Quota, Error> {
        policy.check_plaintext(job.encrypt)?;
        policy.check_delete(job.delete && !job.is_pull() && !job.dry_run)?;
        let mut quota = Quota::new(policy);
        if !job.dry_run {
            quota.begin(job.memory_bytes)?;
        }
        copy.begin(policy)?;
        Ok(quota)
    }

    fn accepted(&self) -> MutexGuard<'_, Option<Accepted>> {
        self.accepted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Overseer for Oversight {
    fn accept(&self, job: &[u8]) -> Result<(), String> {
        let job = self.read(job)?;
        let began = Instant::now();
        let ssh = env::var_os("SSH_CONNECTION").unwrap_or_default();
        let client = ssh.as_bytes().split(|&byte| byte == b' ').next();
        let peer = client.filter(|client| !client.is_empty());
        let copy = Copy::new(End::Far, &job, peer, None);
        let policy = Policy::in_force(self.places.clone());
        let begun = match &policy {
            Ok(policy) => self.begin(&job, &copy, policy),
            Err(broken) => Err(broken.clone()),
        };
        match (policy, begun) {
            (Ok(policy), Ok(quota)) => {
                *self.accepted() = Some(Accepted {
                    began,
                    policy,
                    copy,
                    quota,
                    refusal: None,
                });
                Ok(())
            }
            (policy, begun) => {
                let why = begun.err().map(|error| error.to_string());
                let elapsed_s = began.elapsed().as_secs_f64();
                let (policy, nothing) = (policy.as_ref().ok(), Account::default());
                // What was refused first is why nothing is copied, also where no log takes the line.
                let _unlogged = copy.end(
                    policy,
                    Outcome::Refused,
                    why.as_deref(),
                    &nothing,
                    elapsed_s,
                    None,
                );
                Err(why.unwrap_or_default())
            }
        }
    }

    fn moved(&self, moved: u64, known: u64) -> Result<(), String> {
        let mut guard = self.accepted();
        let accepted = guard.as_mut().ok_or("no job was accepted")?;
        let answer = accepted.quota.moved(moved, known);
        accepted.refusal = answer.err().map(|error| error.to_string());
        accepted.refusal.clone().map_or(Ok(()), Err)
    }

    fn ended(&self, account: &[u8]) -> Result<(), String> {
        let account: Account =
            serde_json::from_slice(account).map_err(|error| error.to_string())?;
        let mut guard = self.accepted();
        let accepted = guard.as_mut().ok_or("no job was accepted")?;
        let outcome = match (&accepted.refusal, account.cancelled, &account.error) {
            (Some(_), _, _) => Outcome::Refused,
            (None, true, _) => Outcome::Interrupted,
            (None, false, Some(_)) => Outcome::Failed,
            (None, false, None) => Outcome::Complete,
        };
        let counted = accepted.quota.count(account.bytes);
        let error = accepted.refusal.as_deref().or(account.error.as_deref());
        let elapsed_s = accepted.began.elapsed().as_secs_f64();
        let policy = Some(&accepted.policy);
        let copy = &accepted.copy;
        let logged = copy.end(policy, outcome, error, &account, elapsed_s, None);
        counted
            .map(drop)
            .and(logged)
            .map_err(|error| error.to_string())
    }
}

/// A path of the near end, which begins at `root`, as the host has it.
fn beneath(root: &[u8], path: &[u8]) -> Vec<u8> {
    let path = path.strip_prefix(b"~").unwrap_or(path);
    let inside = path
        .iter()
        .position(|&byte| byte != b'/')
        .map(|at| &path[at..]);
    let folder = root.strip_suffix(b"/").unwrap_or(root);
    [folder, b"/", inside.unwrap_or_default()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use std::os::unix::fs::symlink;

    fn beneath_of(root: &Path, direction: &str, sources: &Value, destination: &str) -> Job {
        let oversight = Oversight::new(Places::of_this_host(), Some(root));
        let job = json!({"direction": direction, "sources": sources, "destination": destination,
            "from_memory": false, "dry_run": false, "encrypt": true});
        oversight.read(job.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn paths_of_a_near_end_begin_at_the_folder_as_the_host_has_it() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("link");
        symlink("/usr", &link).unwrap();
        // "run 42" to "/in"; "~/a", "/b" and "c".
        let push = beneath_of(&link, "push", &json!(["cnVuIDQy"]), "L2lu");
        assert_eq!(
            (&push.sources[0][..], &push.destination[..]),
            (&b"run 42"[..], &b"/usr/in"[..])
        );
        let pull = beneath_of(
            Path::new("/"),
            "pull",
            &json!(["fi9h", "L2I=", "Yw=="]),
            "L2lu",
        );
        assert_eq!(pull.sources, [b"/a", b"/b", b"/c"]);
        assert_eq!(pull.destination, b"/in");
    }
}
