//! Data ports that the far end tries before it gets the job: a port of another far end, or of this host.

use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use howdah_wire::limits::MAX_TEXT_BYTES;
use howdah_wire::{DataPort, Message, printable_within};
use serde::Serialize;

use crate::connect::near_port::NearPort;
use crate::end::abort::lock;
use crate::error::TransferError;
use crate::session::near::Session;
use crate::session::report;

impl Session {
    /// Asks the far end to try the data port of another far end, at these addresses. The result is in
    /// [`Self::port_tried`].
    ///
    /// # Errors
    /// When there is no address, or the session is over.
    pub fn try_port(&self, addresses: Vec<IpAddr>, port: u16) -> Result<(), TransferError> {
        let setup = lock(&self.setup);
        let channel = setup.channel.as_ref().ok_or(TransferError::Cancelled)?;
        let port = DataPort { addresses, port };
        channel.control().say(Message::TryPort(port));
        Ok(())
    }

    /// Asks the far end to try a port of this host, from a range if one is given. The address is the one that this
    /// host uses towards `far`. The result is in [`Self::port_tried`].
    ///
    /// # Errors
    /// When no port can be opened, or the session is over.
    pub fn try_near(
        &self,
        far: SocketAddr,
        ports: Option<RangeInclusive<u16>>,
    ) -> Result<(), TransferError> {
        let mut setup = lock(&self.setup);
        let channel = setup.channel.as_ref().ok_or(TransferError::Cancelled)?;
        let port = NearPort::towards(far, ports, None, channel.control());
        let opened = port.filter(|port| port.ask());
        if opened.is_none() {
            return Err(TransferError::Here(format!(
                "no port of this host can be opened towards {far}"
            )));
        }
        setup.near_port = opened;
        Ok(())
    }

    /// The result as JSON (PortTried), or `None` if it has not come after `timeout`.
    ///
    /// # Errors
    /// When the far end has gone.
    pub fn port_tried(&self, timeout: Duration) -> Result<Option<Vec<u8>>, TransferError> {
        #[derive(Serialize)]
        struct Json {
            rtt_s: Option<f64>,
            why_not: Option<String>,
        }
        let setup = lock(&self.setup);
        let tried = setup.heard(Instant::now() + timeout, |message| match message {
            Message::PortTried(tried) => Some(tried),
            _ => None,
        })?;
        let json = tried.map(|tried| match tried {
            Ok(ns) => Json {
                rtt_s: Some(Duration::from_nanos(ns).as_secs_f64()),
                why_not: None,
            },
            Err(why) => Json {
                rtt_s: None,
                why_not: Some(printable_within(why.as_bytes(), MAX_TEXT_BYTES)),
            },
        });
        Ok(json.map(|json| report::to_json(&json)))
    }
}
