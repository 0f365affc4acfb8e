//! The keys of encrypted data streams. They cost no round trip of their own.
//!
//! Each end makes an X25519 key pair for the session (RFC 7748), and sends its public key to the other over ssh,
//! which has authenticated both. So both ends have the same secret before the first stream is dialled. Nobody else
//! can compute it, not even a host that only forwards the public keys.
//!
//! For each connection, the end that dials it draws a nonce, and the end that accepts it draws another one. HKDF
//! (RFC 5869) makes one secret for each direction from the session's secret, both public keys, the greeting and the
//! nonces. The rest is TLS 1.3's: keys from a secret, the next secret, records (RFC 8446 §7.3, §7.2, §5).
//!
//! - The dialler's direction needs no byte from the other end, so payload follows the greeting at once.
//! - The first record is empty. It proves to the accepting end that the dialler has the key.
//! - The accepting end's direction depends on its own nonce too. If somebody replays an earlier connection, no record
//!   is encrypted with a key that was used before.

use std::net::TcpStream;

use aws_lc_rs::agreement::{PrivateKey, UnparsedPublicKey, X25519, agree};
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Prk, Salt};

use super::record::{Content, HEADER_BYTES, TRAILER_BYTES, TrafficKey};
use super::stream::TlsStream;
use crate::streams::limiter::write_all;
use crate::streams::stream::StreamError;

const KEY_BYTES: usize = 32;
/// Bytes that each end draws for each connection.
pub(super) const NONCE_BYTES: usize = 32;
const PROOF_BYTES: usize = HEADER_BYTES + TRAILER_BYTES;
/// The dialler's nonce and an empty record, which follow its greeting. The other end's answer is the same.
pub const OPENING_BYTES: usize = NONCE_BYTES + PROOF_BYTES;
const SALT: &[u8] = b"howdah data streams";

/// An X25519 key pair made for one session and never written anywhere.
pub struct Identity {
    private: PrivateKey,
    public: [u8; KEY_BYTES],
}

impl Identity {
    /// Makes a key pair.
    ///
    /// # Errors
    /// [`StreamError::Broken`] when the system has no randomness.
    pub fn generate() -> Result<Self, StreamError> {
        let made = || {
            let private = PrivateKey::generate(&X25519).ok()?;
            let public = private.compute_public_key().ok()?;
            let public = public.as_ref().try_into().ok()?;
            Some(Self { private, public })
        };
        made().ok_or(StreamError::Broken("no key could be made"))
    }

    /// The public key, 32 bytes (RFC 7748 §6.1), for the other end.
    #[must_use]
    pub fn public_key(&self) -> &[u8] {
        &self.public
    }
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Identity").finish_non_exhaustive()
    }
}

/// The secret that both ends of a session share. The keys of all its connections are derived from it.
#[derive(Clone)]
pub struct SessionKeys {
    secret: Prk,
    own: [u8; KEY_BYTES],
    peer: [u8; KEY_BYTES],
}

impl SessionKeys {
    /// Computes the secret shared with the end that has this public key.
    ///
    /// # Errors
    /// [`StreamError::Broken`] when it is not a public key of X25519.
    pub fn agree(own: &Identity, peer_public_key: &[u8]) -> Result<Self, StreamError> {
        let wrong = StreamError::Broken("what the other end gave as its public key is none");
        let Ok(peer) = <[u8; KEY_BYTES]>::try_from(peer_public_key) else {
            return Err(wrong);
        };
        let theirs = UnparsedPublicKey::new(&X25519, peer);
        let secret = agree(&own.private, theirs, wrong, |shared| {
            Ok(Salt::new(HKDF_SHA256, SALT).extract(shared))
        })?;
        Ok(Self {
            secret,
            own: own.public,
            peer,
        })
    }

    /// Begins a connection that this end has dialled. Sends `greeting`, and the proof that this end has the key.
    /// Records may follow at once.
    ///
    /// # Errors
    /// [`StreamError::Io`] when the socket fails, [`StreamError::Broken`] when there is no randomness.
    pub fn dial(&self, socket: TcpStream, greeting: &[u8]) -> Result<TlsStream, StreamError> {
        let nonce = drawn()?;
        let context = Context::new(&self.own, &self.peer, &nonce, greeting);
        let mut sending = Direction::new(context.dialler(&self.secret))?;
        let mut proof = [0; PROOF_BYTES];
        sending.key.seal(Content::Application, &mut proof)?;
        write_all(&socket, None, &[greeting, &nonce, &proof].concat())?;
        let awaited = Awaited {
            secret: self.secret.clone(),
            context,
        };
        Ok(TlsStream::dialled(socket, sending, awaited))
    }

    /// Checks what followed the `greeting` of a connection that this end has accepted. `None` if whoever dialled it does
    /// not have the key.
    pub fn check(&self, greeting: &[u8], opening: &[u8; OPENING_BYTES]) -> Option<Checked> {
        let (nonce, proof) = opening.split_first_chunk::<NONCE_BYTES>()?;
        let context = Context::new(&self.peer, &self.own, nonce, greeting);
        let mut receiving = Direction::new(context.dialler(&self.secret)).ok()?;
        let mut proof = <[u8; PROOF_BYTES]>::try_from(proof).ok()?;
        let opened = receiving.key.open(&mut proof).ok()?;
        (opened == (Content::Application, 0)).then(|| Checked {
            receiving,
            secret: self.secret.clone(),
            context,
        })
    }
}

/// A connection that was accepted. Its dialler has the key.
pub struct Checked {
    receiving: Direction,
    secret: Prk,
    context: Context,
}

impl Checked {
    /// Continues with the connection. Sends this end's nonce, and the proof that it has the key.
    ///
    /// # Errors
    /// As [`SessionKeys::dial`].
    pub fn go_on(self, socket: TcpStream) -> Result<TlsStream, StreamError> {
        let nonce = drawn()?;
        let mut sending = Direction::new(self.context.acceptor(&self.secret, &nonce))?;
        let mut proof = [0; PROOF_BYTES];
        sending.key.seal(Content::Application, &mut proof)?;
        write_all(&socket, None, &[&nonce[..], &proof].concat())?;
        Ok(TlsStream::new(socket, sending, self.receiving))
    }
}

/// The accepting end's direction, before its nonce has arrived.
pub(super) struct Awaited {
    secret: Prk,
    context: Context,
}

impl Awaited {
    pub(super) fn with(&self, nonce: &[u8; NONCE_BYTES]) -> Result<Direction, StreamError> {
        Direction::new(self.context.acceptor(&self.secret, nonce))
    }

    /// Whether this is what an accepting end that has the key says first.
    pub(super) fn proves(&self, answer: &[u8; OPENING_BYTES]) -> bool {
        let opened = || {
            let (nonce, proof) = answer.split_first_chunk::<NONCE_BYTES>()?;
            let mut proof = <[u8; PROOF_BYTES]>::try_from(proof).ok()?;
            self.with(nonce).ok()?.key.open(&mut proof).ok()
        };
        opened() == Some((Content::Application, 0))
    }
}

/// What the keys of one connection depend on, beside the session's secret and the accepting end's nonce.
struct Context(Vec<u8>);

impl Context {
    fn new(
        dialler: &[u8; KEY_BYTES],
        acceptor: &[u8; KEY_BYTES],
        nonce: &[u8; NONCE_BYTES],
        greeting: &[u8],
    ) -> Self {
        Self([dialler, acceptor, nonce, greeting].concat())
    }

    fn dialler(&self, secret: &Prk) -> Secret {
        expand(secret, &[b"dialler", &self.0])
    }

    fn acceptor(&self, secret: &Prk, nonce: &[u8; NONCE_BYTES]) -> Secret {
        expand(secret, &[b"acceptor", nonce, &self.0])
    }
}

/// A traffic secret (RFC 8446 §7.2).
pub type Secret = [u8; 32];

/// The keys of one direction of a connection: those in use, and the secret for the next ones.
pub struct Direction {
    pub(super) secret: Secret,
    pub(super) key: TrafficKey,
}

impl Direction {
    /// The keys that follow from a traffic secret (RFC 8446 §7.3).
    ///
    /// # Errors
    /// [`StreamError::Broken`] when the library makes no key, which does not happen.
    pub fn new(secret: Secret) -> Result<Self, StreamError> {
        let key = expand_label::<16>(&secret, b"key");
        let iv = expand_label::<12>(&secret, b"iv");
        let key = TrafficKey::new(0, &key, &iv);
        let key = key.ok_or(StreamError::Broken("no key came out of the secret"))?;
        Ok(Self { secret, key })
    }

    /// The next keys (RFC 8446 §7.2).
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn next(&self) -> Result<Self, StreamError> {
        Self::new(expand_label(&self.secret, b"traffic upd"))
    }

    /// The key in use.
    pub fn key(&mut self) -> &mut TrafficKey {
        &mut self.key
    }
}

fn drawn() -> Result<[u8; NONCE_BYTES], StreamError> {
    let mut nonce = [0; NONCE_BYTES];
    aws_lc_rs::rand::fill(&mut nonce)
        .map_err(|_| StreamError::Broken("the system has no randomness"))?;
    Ok(nonce)
}

/// HKDF-Expand-Label with an empty context (RFC 8446 §7.1).
fn expand_label<const BYTES: usize>(secret: &Secret, label: &[u8]) -> [u8; BYTES] {
    const PREFIX: &[u8] = b"tls13 ";
    let length = (BYTES as u16).to_be_bytes();
    let label_length = [(PREFIX.len() + label.len()) as u8];
    let secret = Prk::new_less_safe(HKDF_SHA256, secret);
    expand(&secret, &[&length, &label_length, PREFIX, label, &[0]])
}

/// HKDF-Expand (RFC 5869 §2.3), of up to 8,160 bytes.
fn expand<const BYTES: usize>(secret: &Prk, info: &[&[u8]]) -> [u8; BYTES] {
    struct Length(usize);
    impl KeyType for Length {
        fn len(&self) -> usize {
            self.0
        }
    }
    const { assert!(BYTES <= 255 * 32) }
    let mut bytes = [0; BYTES];
    secret
        .expand(info, Length(BYTES))
        .and_then(|expanded| expanded.fill(&mut bytes))
        .expect("the length is in bounds");
    bytes
}
