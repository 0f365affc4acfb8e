//! The TLS 1.3 handshake by rustls, and the hand-over of its keys.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::client::{
    AlwaysResolvesClientRawPublicKeys, ClientConnectionData, UnbufferedClientConnection,
};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::kernel::KernelConnection;
use rustls::pki_types::ServerName;
use rustls::server::{
    AlwaysResolvesServerRawPublicKeys, ServerConnectionData, UnbufferedServerConnection,
};
use rustls::unbuffered::{ConnectionState, EncodeError, EncodeTlsData, UnbufferedStatus};
use rustls::{CertificateError, ClientConfig, ServerConfig, version};

use crate::streams::stream::StreamError;

use super::error::unusable;
use super::identity::{Identity, Pinned};
use super::record::{HEADER_BYTES, MAX_BODY_BYTES, TRAILER_BYTES, TrafficKey};
use super::stream::{Rekey, TlsStream};

/// What both ends say they speak (RFC 7301).
const ALPN: &[u8] = b"howdah/1";
/// Raw public keys carry no name; rustls wants one for the SNI, which is switched off.
pub(super) const NAME: &str = "howdah.invalid";
/// Handshake messages kept until they are whole: more than ours need, as much as a stranger gets.
const MOST_BYTES: usize = 64 * 1024;

/// Opens data streams to the peer whose key is pinned.
pub struct Connector(pub(super) Arc<ClientConfig>);

/// Takes data streams from the peer whose key is pinned.
pub struct Acceptor(pub(super) Arc<ServerConfig>);

/// AES-128-GCM and X25519MLKEM768 alone: both ends are howdah, so there is nothing to negotiate.
/// The hybrid costs 1.2 KB each way and no round trip, and keeps the data streams as safe against
/// recorded traffic and a later quantum computer as the default key exchange of OpenSSH.
pub(super) fn provider() -> Arc<CryptoProvider> {
    Arc::new(CryptoProvider {
        cipher_suites: vec![aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256],
        kx_groups: vec![aws_lc_rs::kx_group::X25519MLKEM768],
        ..aws_lc_rs::default_provider()
    })
}

impl Connector {
    /// A connector that proves to be `own` and accepts the peer with `peer_public_key` alone.
    ///
    /// # Errors
    /// When the cryptography cannot be set up.
    pub fn new(own: &Identity, peer_public_key: &[u8]) -> Result<Self, StreamError> {
        let provider = provider();
        let pinned = Pinned::new(peer_public_key, provider.signature_verification_algorithms);
        let own = AlwaysResolvesClientRawPublicKeys::new(own.certified.clone());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&version::TLS13])
            .map_err(unusable)?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(pinned))
            .with_client_cert_resolver(Arc::new(own));
        config.alpn_protocols = vec![ALPN.to_vec()];
        config.resumption = rustls::client::Resumption::disabled();
        config.enable_sni = false;
        config.enable_secret_extraction = true;
        Ok(Self(Arc::new(config)))
    }

    /// Shakes hands over a connected blocking socket, as its client. Takes one round trip; what
    /// is sent next follows right behind the last message of the handshake.
    ///
    /// # Errors
    /// [`StreamError::Handshake`] when the peer is not the pinned one or is too slow,
    /// [`StreamError::Truncated`] when it closes the connection, [`StreamError::Io`] when the socket fails.
    pub fn connect(&self, socket: TcpStream, timeout: Duration) -> Result<TlsStream, StreamError> {
        let name = ServerName::try_from(NAME).map_err(|_| StreamError::Broken("bad name"))?;
        let connection = UnbufferedClientConnection::new(self.0.clone(), name).map_err(unusable)?;
        shake(connection, socket, timeout)
    }
}

impl Acceptor {
    /// An acceptor that proves to be `own` and accepts the peer with `peer_public_key` alone.
    ///
    /// # Errors
    /// When the cryptography cannot be set up.
    pub fn new(own: &Identity, peer_public_key: &[u8]) -> Result<Self, StreamError> {
        let provider = provider();
        let pinned = Pinned::new(peer_public_key, provider.signature_verification_algorithms);
        let own = AlwaysResolvesServerRawPublicKeys::new(own.certified.clone());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&version::TLS13])
            .map_err(unusable)?
            .with_client_cert_verifier(Arc::new(pinned))
            .with_cert_resolver(Arc::new(own));
        config.alpn_protocols = vec![ALPN.to_vec()];
        config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        config.enable_secret_extraction = true;
        Ok(Self(Arc::new(config)))
    }

    /// Shakes hands over an accepted blocking socket, as its server. What is sent next waits for
    /// the client's proof of its key: nobody else gets a byte.
    ///
    /// # Errors
    /// As [`Connector::connect`].
    pub fn accept(&self, socket: TcpStream, timeout: Duration) -> Result<TlsStream, StreamError> {
        let connection = UnbufferedServerConnection::new(self.0.clone()).map_err(unusable)?;
        shake(connection, socket, timeout)
    }
}

/// The two kinds of rustls connection, which share no trait.
trait Connection: Sized {
    type Data;
    fn process<'c, 'i>(
        &'c mut self,
        incoming: &'i mut [u8],
    ) -> UnbufferedStatus<'c, 'i, Self::Data>;
    fn alpn(&self) -> Option<&[u8]>;
    fn into_keys(self) -> Result<Keys, rustls::Error>;
}

/// The keys of both directions, and where the next ones come from.
struct Keys {
    secrets: rustls::ExtractedSecrets,
    rekey: Box<dyn Rekey>,
}

macro_rules! connection {
    ($kind:ty, $data:ty) => {
        impl Connection for $kind {
            type Data = $data;
            fn process<'c, 'i>(
                &'c mut self,
                incoming: &'i mut [u8],
            ) -> UnbufferedStatus<'c, 'i, $data> {
                self.process_tls_records(incoming)
            }
            fn alpn(&self) -> Option<&[u8]> {
                self.alpn_protocol()
            }
            fn into_keys(self) -> Result<Keys, rustls::Error> {
                let (secrets, rekey) = self.dangerous_into_kernel_connection()?;
                Ok(Keys {
                    secrets,
                    rekey: Box::new(rekey),
                })
            }
        }
    };
}
connection!(UnbufferedClientConnection, ClientConnectionData);
connection!(UnbufferedServerConnection, ServerConnectionData);

impl<Data: Send> Rekey for KernelConnection<Data> {
    fn next_sending(&mut self) -> Result<TrafficKey, StreamError> {
        TrafficKey::from_rustls(self.update_tx_secret().map_err(unusable)?)
    }
    fn next_receiving(&mut self) -> Result<TrafficKey, StreamError> {
        TrafficKey::from_rustls(self.update_rx_secret().map_err(unusable)?)
    }
}

/// Drives a handshake to its end and takes the keys out of it.
fn shake<C: Connection>(
    mut connection: C,
    socket: TcpStream,
    timeout: Duration,
) -> Result<TlsStream, StreamError> {
    let mut link = Link {
        socket,
        deadline: Instant::now() + timeout,
        incoming: Vec::new(),
    };
    let mut outgoing = Vec::new();
    loop {
        let UnbufferedStatus { mut discard, state } = connection.process(&mut link.incoming);
        let mut done = false;
        match state {
            Ok(ConnectionState::EncodeTlsData(mut data)) => encode(&mut data, &mut outgoing)?,
            Ok(ConnectionState::TransmitTlsData(data)) => {
                link.send(&outgoing)?;
                outgoing.clear();
                data.done();
            }
            Ok(ConnectionState::BlockedHandshake) => {
                link.incoming.drain(..std::mem::take(&mut discard));
                link.receive_record()?;
            }
            Ok(ConnectionState::WriteTraffic(_)) => done = true,
            Ok(_) => return Err(StreamError::Handshake("the other end closed it".to_owned())),
            Err(error) => {
                link.incoming.drain(..discard);
                say_why(&mut connection, &mut link);
                return Err(StreamError::Handshake(explained(&error)));
            }
        }
        link.incoming.drain(..discard);
        if done {
            break;
        }
    }
    if connection.alpn() != Some(ALPN) {
        return Err(StreamError::Handshake(
            "the other end speaks another protocol".to_owned(),
        ));
    }
    let keys = connection.into_keys().map_err(unusable)?;
    let Link {
        socket, incoming, ..
    } = link;
    if !incoming.is_empty() {
        return Err(StreamError::Broken("data before the end of the handshake"));
    }
    socket.set_read_timeout(None)?;
    socket.set_write_timeout(None)?;
    let sending = TrafficKey::from_rustls(keys.secrets.tx)?;
    let receiving = TrafficKey::from_rustls(keys.secrets.rx)?;
    Ok(TlsStream::new(socket, sending, receiving, keys.rekey))
}

/// The socket during the handshake. Reads one record at a time, so that nothing that belongs to
/// the record layer afterwards is swallowed.
struct Link {
    socket: TcpStream,
    deadline: Instant,
    incoming: Vec<u8>,
}

impl Link {
    fn receive_record(&mut self) -> Result<(), StreamError> {
        let start = self.incoming.len();
        self.receive(HEADER_BYTES)?;
        let body = match self.incoming[start..] {
            [20..=23, 3, _, high, low] => usize::from(u16::from_be_bytes([high, low])),
            _ => usize::MAX,
        };
        if body > MAX_BODY_BYTES.min(MOST_BYTES - start) {
            let said = "what answers there does not speak TLS 1.3";
            return Err(StreamError::Handshake(said.to_owned()));
        }
        self.receive(body)
    }

    fn receive(&mut self, bytes: usize) -> Result<(), StreamError> {
        let mut at = self.incoming.len();
        self.incoming.resize(at + bytes, 0);
        while at < self.incoming.len() {
            self.socket.set_read_timeout(Some(self.remaining()?))?;
            match self.socket.read(&mut self.incoming[at..]) {
                Ok(0) => return Err(StreamError::Truncated),
                Ok(got) => at += got,
                Err(error) => self.tolerate(error)?,
            }
        }
        Ok(())
    }

    fn send(&mut self, mut bytes: &[u8]) -> Result<(), StreamError> {
        while !bytes.is_empty() {
            self.socket.set_write_timeout(Some(self.remaining()?))?;
            match self.socket.write(bytes) {
                Ok(sent) => bytes = &bytes[sent..],
                Err(error) => self.tolerate(error)?,
            }
        }
        Ok(())
    }

    /// Goes on after an interruption, and after a timeout that the deadline will judge.
    fn tolerate(&self, error: io::Error) -> Result<(), StreamError> {
        match error.kind() {
            io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                Ok(())
            }
            _ => Err(error.into()),
        }
    }

    fn remaining(&self) -> Result<Duration, StreamError> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(StreamError::Handshake("no answer in time".to_owned()));
        }
        // A timeout under a microsecond would round to none at all.
        Ok(left.max(Duration::from_micros(1)))
    }
}

fn encode<Data>(
    data: &mut EncodeTlsData<'_, Data>,
    outgoing: &mut Vec<u8>,
) -> Result<(), StreamError> {
    let at = outgoing.len();
    let failed = |error: EncodeError| StreamError::Handshake(error.to_string());
    match data.encode(&mut []) {
        Err(EncodeError::InsufficientSize(needs)) => {
            outgoing.resize(at + needs.required_size, 0);
            data.encode(&mut outgoing[at..]).map(drop).map_err(failed)
        }
        other => other.map(drop).map_err(failed),
    }
}

/// Sends what is left to say, an alert that tells the other end why; it hardly matters if that
/// fails.
fn say_why<C: Connection>(connection: &mut C, link: &mut Link) {
    let mut alert = Vec::new();
    loop {
        let UnbufferedStatus { discard, state } = connection.process(&mut link.incoming);
        let at = alert.len();
        let encoded = match state {
            Ok(ConnectionState::EncodeTlsData(mut data)) => encode(&mut data, &mut alert).is_ok(),
            _ => false,
        };
        link.incoming.drain(..discard);
        // A connection that has said why is not asked again: it would judge the same record again.
        if !encoded || is_alert(&alert[at..]) {
            break;
        }
    }
    let _ = link.send(&alert);
}

/// Whether a record is an alert, in clear or encrypted: no other message is of two bytes (RFC 8446 §5.2, §6).
fn is_alert(record: &[u8]) -> bool {
    const ALERT: u8 = 21;
    const SEALED_BYTES: usize = HEADER_BYTES + 2 + TRAILER_BYTES;
    record.first() == Some(&ALERT) || record.len() == SEALED_BYTES
}

fn explained(error: &rustls::Error) -> String {
    match error {
        rustls::Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure) => {
            "the other end shows another key than it announced over ssh; \
             someone may be in between"
                .to_owned()
        }
        other => other.to_string(),
    }
}
