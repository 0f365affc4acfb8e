//! A packet as a TUN device with `IFF_VNET_HDR` gives and takes it, and pieces of it.
//!
//! With segmentation offload a host hands over up to 64 KB under one header and leaves the cutting into
//! wire segments to us. Sources: virtio 1.2 §5.1.6 (`virtio_net_hdr`); Linux `tcp_gso_segment` and
//! `__udp_gso_segment` for what differs from segment to segment; RFC 1624 for the checksum's update.

use howdah_link::Burst;

/// Bytes of the `virtio_net_hdr` in front of each packet.
pub const VNET_BYTES: usize = 10;

/// Room for the headers of a piece: virtio, IP with options or extensions, TCP with options.
pub const HEAD_BYTES: usize = 512;

const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;
const GSO_UDP_L4: u8 = 5;
const GSO_ECN: u8 = 0x80;
const NEEDS_CSUM: u8 = 1;

const TCP_FIN: u8 = 0x01;
const TCP_PSH: u8 = 0x08;
const TCP_CWR: u8 = 0x80;

/// One packet, virtio header first.
#[derive(Debug, Clone, Copy)]
pub struct Packet<'a> {
    bytes: &'a [u8],
    offload: Option<Offload>,
}

/// Where the parts of an offloaded packet lie; offsets count from the IP header.
#[derive(Debug, Clone, Copy)]
struct Offload {
    udp: bool,
    transport: usize,
    payload: usize,
    segment_bytes: usize,
}

/// New headers and the payload under them.
#[derive(Debug, Clone, Copy)]
pub struct Piece<'a> {
    /// Virtio, IP and transport headers.
    pub head: &'a [u8],
    /// The payload that follows.
    pub payload: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Looks at `bytes` as read from the device. What is not well-formed offload is one segment.
    pub fn new(bytes: &'a [u8]) -> Self {
        Packet {
            bytes,
            offload: Offload::find(bytes),
        }
    }

    /// The packet's segments on the wire, where each costs `overhead_bytes` beyond its IP packet.
    pub fn burst(&self, overhead_bytes: u32) -> Burst {
        let ip_bytes = self.bytes.len().saturating_sub(VNET_BYTES);
        let Some(Offload {
            payload,
            segment_bytes,
            ..
        }) = self.offload
        else {
            let wire_bytes = ip_bytes as u32 + overhead_bytes;
            return Burst {
                segments: 1,
                wire_bytes,
                last_wire_bytes: wire_bytes,
            };
        };
        let segments = (ip_bytes - payload).div_ceil(segment_bytes);
        let last = ip_bytes - payload - (segments - 1) * segment_bytes;
        let full = if segments == 1 { last } else { segment_bytes };
        Burst {
            segments: segments as u32,
            wire_bytes: (payload + full) as u32 + overhead_bytes,
            last_wire_bytes: (payload + last) as u32 + overhead_bytes,
        }
    }

    /// Segments `first` to `first + count` as a packet of their own; its headers are made in `head`.
    /// A packet that is not offloaded has one segment, and is its own piece.
    pub fn piece<'h>(&self, first: u32, count: u32, head: &'h mut [u8; HEAD_BYTES]) -> Piece<'h>
    where
        'a: 'h,
    {
        let Some(offload) = self.offload else {
            return Piece {
                head: self.bytes,
                payload: &[],
            };
        };
        let ip = &self.bytes[VNET_BYTES..];
        let (first, count) = (first as usize, count as usize);
        let from = offload.payload + first * offload.segment_bytes;
        let to = (from + count * offload.segment_bytes).min(ip.len());
        let place = Place {
            first,
            count,
            last: to == ip.len(),
        };
        let head = &mut head[..VNET_BYTES + offload.payload];
        head.copy_from_slice(&self.bytes[..VNET_BYTES + offload.payload]);
        let (vnet, headers) = head.split_at_mut(VNET_BYTES);
        offload.write_vnet(vnet, place);
        let (network, transport) = headers.split_at_mut(offload.transport);
        let transport_bytes = offload.payload - offload.transport + (to - from);
        write_network(network, place, offload.transport + transport_bytes);
        offload.write_transport(
            transport,
            place,
            ip.len() - offload.transport,
            transport_bytes,
        );
        Piece {
            head,
            payload: &ip[from..to],
        }
    }
}

/// Which segments of its packet a piece holds.
#[derive(Debug, Clone, Copy)]
struct Place {
    first: usize,
    count: usize,
    last: bool,
}

impl Offload {
    fn find(bytes: &[u8]) -> Option<Self> {
        let (vnet, ip) = bytes.split_at_checked(VNET_BYTES)?;
        let kind = vnet[1] & !GSO_ECN;
        let segment_bytes = usize::from(u16::from_le_bytes([vnet[4], vnet[5]]));
        if kind == 0 || segment_bytes == 0 || vnet[0] & NEEDS_CSUM == 0 {
            return None;
        }
        let transport = usize::from(u16::from_le_bytes([vnet[6], vnet[7]]));
        let (header, least_header) = match kind {
            GSO_TCPV4 | GSO_TCPV6 => (usize::from(ip.get(transport + 12)? >> 4) * 4, 20),
            GSO_UDP_L4 => (8, 8),
            _ => return None,
        };
        let payload = transport + header;
        let least = if ip.first()? >> 4 == 6 { 40 } else { 20 };
        let sound = transport >= least
            && header >= least_header
            && payload < ip.len()
            && VNET_BYTES + payload <= HEAD_BYTES;
        sound.then_some(Offload {
            udp: kind == GSO_UDP_L4,
            transport,
            payload,
            segment_bytes,
        })
    }

    fn write_vnet(&self, vnet: &mut [u8], place: Place) {
        if place.count == 1 {
            vnet[1] = 0;
            vnet[4..6].fill(0);
        } else if place.first > 0 {
            vnet[1] &= !GSO_ECN;
        }
        vnet[2..4].copy_from_slice(&(self.payload as u16).to_le_bytes());
    }

    /// The checksum field holds the sum of the pseudo-header, of which only the length changes.
    fn write_transport(&self, header: &mut [u8], place: Place, whole_bytes: usize, bytes: usize) {
        let checksum = if self.udp {
            header[4..6].copy_from_slice(&(bytes as u16).to_be_bytes());
            6
        } else {
            let sequence = u32::from_be_bytes(header[4..8].try_into().expect("four bytes"));
            let skipped = (place.first * self.segment_bytes) as u32;
            header[4..8].copy_from_slice(&sequence.wrapping_add(skipped).to_be_bytes());
            if !place.last {
                header[13] &= !(TCP_FIN | TCP_PSH);
            }
            if place.first > 0 {
                header[13] &= !TCP_CWR;
            }
            16
        };
        let old = u32::from(u16::from_be_bytes([header[checksum], header[checksum + 1]]));
        let sum = fold(old + u32::from(!(whole_bytes as u16)) + bytes as u32);
        header[checksum..checksum + 2].copy_from_slice(&sum.to_be_bytes());
    }
}

fn write_network(header: &mut [u8], place: Place, ip_bytes: usize) {
    if header[0] >> 4 == 6 {
        let payload_bytes = (ip_bytes - 40) as u16;
        header[4..6].copy_from_slice(&payload_bytes.to_be_bytes());
        return;
    }
    header[2..4].copy_from_slice(&(ip_bytes as u16).to_be_bytes());
    let id = u16::from_be_bytes([header[4], header[5]]).wrapping_add(place.first as u16);
    header[4..6].copy_from_slice(&id.to_be_bytes());
    header[10..12].fill(0);
    let words = header
        .chunks_exact(2)
        .map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])));
    let checksum = !fold(words.sum());
    header[10..12].copy_from_slice(&checksum.to_be_bytes());
}

/// One's-complement sum of the two halves, until it fits.
fn fold(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}
