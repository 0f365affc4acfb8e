//! Sets up network devices over rtnetlink(7), which a user namespace's own root may use for all of it;
//! of the ioctls of netdevice(7), the one for the queue asks for the whole machine's.

use std::io;

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use rustix::net::{netdevice, recv, send, socket_with};

/// sizeof(struct nlmsghdr).
const HEADER_BYTES: usize = 16;
/// sizeof(struct ifinfomsg).
const LINK_BYTES: usize = 16;
/// sizeof(struct rtattr) and a u32.
const ATTRIBUTE_BYTES: usize = 8;

/// What a device of the calling thread's namespace is to become.
#[derive(Debug, Default)]
pub(crate) struct Link<'a> {
    /// IFF_* that are set; all others are cleared.
    pub flags: i32,
    /// `(IFLA_*, value)`.
    pub attributes: &'a [(u16, u32)],
}

impl Link<'_> {
    /// Makes the device `name` so.
    pub fn apply(&self, name: &str) -> io::Result<()> {
        let socket = socket_with(
            AddressFamily::NETLINK,
            SocketType::RAW,
            SocketFlags::CLOEXEC,
            // Protocol 0 is NETLINK_ROUTE.
            None,
        )?;
        let any = socket_with(
            AddressFamily::INET,
            SocketType::DGRAM,
            SocketFlags::CLOEXEC,
            None,
        )?;
        let index = netdevice::name_to_index(&any, name)?;
        send(&socket, &self.request(index), SendFlags::empty())?;
        let mut answer = [0; 512];
        let (_, length) = recv(&socket, &mut answer[..], RecvFlags::empty())?;
        outcome(&answer[..length])
    }

    fn request(&self, index: u32) -> Vec<u8> {
        let length = HEADER_BYTES + LINK_BYTES + self.attributes.len() * ATTRIBUTE_BYTES;
        let flags = (libc::NLM_F_REQUEST | libc::NLM_F_ACK) as u16;
        let mut request = Vec::with_capacity(length);
        request.extend((length as u32).to_ne_bytes());
        request.extend(libc::RTM_NEWLINK.to_ne_bytes());
        request.extend(flags.to_ne_bytes());
        // Sequence number and port: one request, one answer.
        request.extend([0; 8]);
        // Address family and device type: any.
        request.extend([0; 4]);
        request.extend(index.to_ne_bytes());
        request.extend(self.flags.to_ne_bytes());
        request.extend(u32::MAX.to_ne_bytes());
        for (kind, value) in self.attributes {
            request.extend((ATTRIBUTE_BYTES as u16).to_ne_bytes());
            request.extend(kind.to_ne_bytes());
            request.extend(value.to_ne_bytes());
        }
        request
    }
}

/// What an acknowledgement (struct nlmsgerr after the header) says.
fn outcome(answer: &[u8]) -> io::Result<()> {
    let code = answer
        .get(HEADER_BYTES..HEADER_BYTES + 4)
        .and_then(|code| code.try_into().ok())
        .map(i32::from_ne_bytes);
    match code {
        Some(0) => Ok(()),
        Some(errno) => Err(io::Error::from_raw_os_error(-errno)),
        None => Err(io::Error::other("a short answer over netlink")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_the_length_it_says() {
        let request = Link {
            flags: libc::IFF_UP,
            attributes: &[(libc::IFLA_MTU, 1500), (libc::IFLA_TXQLEN, 7)],
        }
        .request(2);
        assert_eq!(request.len(), 48);
        assert_eq!(request[..4], 48u32.to_ne_bytes());
        assert_eq!(request[20..24], 2u32.to_ne_bytes());
        assert_eq!(request[36..40], 1500u32.to_ne_bytes());
    }

    #[test]
    fn an_answer_is_success_an_error_number_or_too_short() {
        let answer = |errno: i32| [[0; HEADER_BYTES].as_slice(), &(-errno).to_ne_bytes()].concat();
        assert!(outcome(&answer(0)).is_ok());
        assert_eq!(
            outcome(&answer(libc::EPERM)).unwrap_err().raw_os_error(),
            Some(libc::EPERM)
        );
        assert!(outcome(&[0; HEADER_BYTES]).is_err());
    }
}
