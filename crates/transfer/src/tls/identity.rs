//! The key of one end, and the verifier that accepts exactly one key.

use std::{fmt, sync::Arc};

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::Ed25519KeyPair;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{
    WebPkiSupportedAlgorithms, aws_lc_rs::sign::any_eddsa_type, verify_tls13_signature_with_raw_key,
};
use rustls::pki_types::{
    CertificateDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime,
};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::sign::CertifiedKey;
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, PeerIncompatible,
    SignatureScheme,
};

use super::error::unusable;
use crate::streams::stream::StreamError;

/// An Ed25519 key made for one session and never written anywhere.
pub struct Identity {
    pub(super) certified: Arc<CertifiedKey>,
}

impl Identity {
    /// Makes a key.
    ///
    /// # Errors
    /// When the system has no randomness.
    pub fn generate() -> Result<Self, StreamError> {
        let failed = |_| StreamError::Handshake("no key could be made".to_owned());
        let pkcs8 = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).map_err(failed)?;
        let private = PrivatePkcs8KeyDer::from(pkcs8.as_ref());
        let signer = any_eddsa_type(&private).map_err(unusable)?;
        let public = signer
            .public_key()
            .ok_or_else(|| StreamError::Handshake("the key has no public half".to_owned()))?;
        let chain = vec![CertificateDer::from(public.to_vec())];
        Ok(Self {
            certified: Arc::new(CertifiedKey::new(chain, signer)),
        })
    }

    /// The public key as SubjectPublicKeyInfo, DER (RFC 5280 §4.1), for the other end.
    #[must_use]
    pub fn public_key(&self) -> &[u8] {
        &self.certified.cert[0]
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").finish_non_exhaustive()
    }
}

/// Accepts a peer that proves to hold the private half of one public key.
#[derive(Debug)]
pub(super) struct Pinned {
    public_key: Vec<u8>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Pinned {
    pub(super) fn new(public_key: &[u8], algorithms: WebPkiSupportedAlgorithms) -> Self {
        Self {
            public_key: public_key.to_vec(),
            algorithms,
        }
    }

    fn check(&self, shown: &CertificateDer<'_>, more: &[CertificateDer<'_>]) -> Result<(), Error> {
        if shown.as_ref() == self.public_key && more.is_empty() {
            return Ok(());
        }
        Err(CertificateError::ApplicationVerificationFailure.into())
    }
}

/// What rustls asks of the verifiers of either side in the same words, but in two traits.
macro_rules! proof_of_the_key {
    () => {
        fn verify_tls12_signature(
            &self,
            _message: &[u8],
            _cert: &CertificateDer<'_>,
            _dss: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Err(PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig.into())
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            cert: &CertificateDer<'_>,
            dss: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            let key = SubjectPublicKeyInfoDer::from(cert.as_ref());
            verify_tls13_signature_with_raw_key(message, &key, dss, &self.algorithms)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            vec![SignatureScheme::ED25519]
        }

        fn requires_raw_public_keys(&self) -> bool {
            true
        }
    };
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.check(end_entity, intermediates)?;
        Ok(ServerCertVerified::assertion())
    }

    proof_of_the_key!();
}

impl ClientCertVerifier for Pinned {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.check(end_entity, intermediates)?;
        Ok(ClientCertVerified::assertion())
    }

    proof_of_the_key!();
}
