//! Whether a copy may begin and go on, by the policy of this host, and what is logged of it. The twin of
//! `python/howdah/remote/oversight.py`.

use std::env;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use howdah_transfer::Overseer;
use serde::{Deserialize, Deserializer, de};

use crate::audit::{Copy, Outcome};
use crate::policy::{self, Places, Policy};
use crate::quota::Quota;

/// What a near end asks for: FarJob of `python/howdah/remote/messages.py`.
#[derive(Debug, Deserialize)]
pub struct Job {
    direction: String,
    /// The paths at the sender.
    #[serde(deserialize_with = "many")]
    pub sources: Vec<Vec<u8>>,
    /// The path at the receiver.
    #[serde(deserialize_with = "one")]
    pub destination: Vec<u8>,
    memory_bytes: Option<u64>,
    #[serde(default)]
    delete: bool,
    /// Whether nothing is copied.
    pub dry_run: bool,
    /// Whether the data streams are encrypted.
    pub encrypt: bool,
}

impl Job {
    /// Whether this host sends.
    pub fn sends(&self) -> bool {
        self.direction == "pull"
    }
}

/// What has moved when a copy has ended: FarAccount of the same file.
#[derive(Debug, Default, Deserialize)]
pub struct Account {
    /// Payload that arrived.
    pub bytes: u64,
    /// Files in place.
    pub files: u64,
    /// What was removed at the receiver.
    #[serde(default)]
    pub removed: u64,
    /// The sum of the digests of its files, in hexadecimal.
    pub digest_sum: Option<String>,
    error: Option<String>,
    cancelled: bool,
}

fn one<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    let text = String::deserialize(deserializer)?;
    STANDARD.decode(text).map_err(de::Error::custom)
}

fn many<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Vec<u8>>, D::Error> {
    let texts = Vec::<String>::deserialize(deserializer)?;
    let decoded = texts.into_iter().map(|text| STANDARD.decode(text));
    decoded.collect::<Result<_, _>>().map_err(de::Error::custom)
}

/// The overseer of one far end.
pub struct Oversight {
    places: Places,
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
    /// By the policy that lies at these places when a job comes: a far end that was kept ready may be older.
    pub fn new(places: Places) -> Self {
        Self {
            places,
            accepted: Mutex::new(None),
        }
    }

    fn begin(&self, job: &Job, copy: &Copy, policy: &Policy) -> Result<Quota, String> {
        policy.check_plaintext(job.encrypt)?;
        policy.check_delete(job.delete && !job.sends() && !job.dry_run)?;
        let mut quota = Quota::new(policy, &self.places);
        if !job.dry_run {
            quota.begin(job.memory_bytes)?;
        }
        copy.begin(policy)?;
        Ok(quota)
    }

    fn held(&self) -> MutexGuard<'_, Option<Accepted>> {
        self.accepted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Overseer for Oversight {
    fn accept(&self, job: &[u8]) -> Result<(), String> {
        let job: Job = serde_json::from_slice(job).map_err(|error| error.to_string())?;
        let began = Instant::now();
        let ssh = env::var("SSH_CONNECTION").unwrap_or_default();
        let copy = Copy::new(&job, ssh.split_whitespace().next());
        let policy = policy::in_force(&self.places);
        let begun = policy
            .as_ref()
            .map_err(Clone::clone)
            .and_then(|policy| self.begin(&job, &copy, policy));
        match (policy, begun) {
            (Ok(policy), Ok(quota)) => {
                *self.held() = Some(Accepted {
                    began,
                    policy,
                    copy,
                    quota,
                    refusal: None,
                });
                Ok(())
            }
            (policy, begun) => {
                let why = begun.err().unwrap_or_default();
                let elapsed_s = began.elapsed().as_secs_f64();
                copy.end(
                    policy.as_ref().ok(),
                    Outcome::Refused,
                    Some(&why),
                    &Account::default(),
                    elapsed_s,
                )?;
                Err(why)
            }
        }
    }

    fn moved(&self, moved: u64, known: u64) -> Result<(), String> {
        let mut held = self.held();
        let accepted = held.as_mut().ok_or("no job was accepted")?;
        let answer = accepted.quota.moved(moved, known);
        accepted.refusal = answer.as_ref().err().cloned();
        answer
    }

    fn ended(&self, account: &[u8]) -> Result<(), String> {
        let account: Account =
            serde_json::from_slice(account).map_err(|error| error.to_string())?;
        let mut held = self.held();
        let accepted = held.as_mut().ok_or("no job was accepted")?;
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
        let logged = accepted
            .copy
            .end(policy, outcome, error, &account, elapsed_s);
        counted.map(drop).and(logged)
    }
}
