//! Background traffic over UDP (crates/traffic).

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use howdah_traffic::{Missing, Token};
use pyo3::prelude::*;

use crate::raise;

/// Sends to one sink.
#[pyclass(frozen, module = "howdah._native")]
pub struct UdpSource(howdah_traffic::Source);

#[pymethods]
impl UdpSource {
    #[new]
    fn new(
        address: &str,
        port: u16,
        token: &[u8],
        rate_bps: u64,
        datagram_bytes: Option<u64>,
    ) -> PyResult<Self> {
        let address: IpAddr = address
            .parse()
            .map_err(|_| raise(format!("{address} is no address")))?;
        let to = SocketAddr::new(address, port);
        howdah_traffic::Source::new(to, token_of(token)?, rate_bps, datagram_bytes)
            .map(Self)
            .map_err(raise)
    }

    #[getter]
    fn datagram_bytes(&self) -> usize {
        self.0.datagram_bytes()
    }

    fn knock(&self) -> PyResult<()> {
        self.0.knock().map_err(raise)
    }

    fn send(&self, py: Python<'_>, duration_s: f64) -> PyResult<bool> {
        let time = Duration::try_from_secs_f64(duration_s).map_err(raise)?;
        py.detach(|| self.0.send(time)).map_err(raise)
    }

    fn begin(&self, number: u32, object_bytes: u64) -> PyResult<usize> {
        self.0.begin(number, object_bytes).map_err(raise)
    }

    fn round(&self, py: Python<'_>, missing: Option<&[u8]>) -> PyResult<bool> {
        let missing: Option<Missing> = missing
            .map(serde_json::from_slice)
            .transpose()
            .map_err(raise)?;
        py.detach(|| self.0.round(missing)).map_err(raise)
    }

    fn digest(&self, py: Python<'_>) -> Option<String> {
        py.detach(|| self.0.digest())
            .map(howdah_traffic::Digest::to_hex)
    }

    fn stop(&self) {
        self.0.stop();
    }

    fn counts(&self) -> PyResult<Vec<u8>> {
        serde_json::to_vec(&self.0.counts()).map_err(raise)
    }
}

/// Counts what comes of one source.
#[pyclass(frozen, module = "howdah._native")]
pub struct UdpSink(howdah_traffic::Sink);

#[pymethods]
impl UdpSink {
    #[new]
    fn new(token: &[u8]) -> PyResult<Self> {
        howdah_traffic::Sink::open(token_of(token)?)
            .map(Self)
            .map_err(raise)
    }

    #[getter]
    fn port(&self) -> u16 {
        self.0.port()
    }

    fn counts(&self) -> PyResult<Vec<u8>> {
        serde_json::to_vec(&self.0.counts()).map_err(raise)
    }

    fn expect(&self, number: u32, object_bytes: u64, piece_bytes: usize) -> PyResult<()> {
        self.0
            .expect(number, object_bytes, piece_bytes)
            .map_err(raise)
    }

    fn missing(&self, py: Python<'_>) -> PyResult<Vec<u8>> {
        let missing = py.detach(|| self.0.missing()).map_err(raise)?;
        serde_json::to_vec(&missing).map_err(raise)
    }

    fn digest(&self) -> Option<String> {
        self.0.digest().map(howdah_traffic::Digest::to_hex)
    }
}

fn token_of(bytes: &[u8]) -> PyResult<Token> {
    bytes
        .try_into()
        .map_err(|_| raise(format!("a token has 16 bytes, not {}", bytes.len())))
}
