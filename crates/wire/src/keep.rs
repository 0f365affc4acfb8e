//! What a copy keeps of files beside names and contents, as its user asks for it.

use serde::{Deserialize, Serialize};

use crate::limits::MAX_ACCOUNT_BYTES;

/// What is kept. The near end's user asks for it. The receiver applies nothing else, even if the sender sends more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Keep {
    /// Whether files get the modes of their sources. Otherwise an existing file keeps its mode. A new one gets its
    /// source's mode, less the bits that the receiver's umask or the folder's default access list takes away.
    pub perms: bool,
    /// Whether files get the modification times of their sources. Otherwise they get the time of the copy.
    pub times: bool,
    /// Whether folders get the time of the copy all the same.
    pub omit_dir_times: bool,
    /// Whether several names of one file (hard links) stay names of one file.
    pub hard_links: bool,
    /// Runs of zeros become holes.
    pub sparse: bool,
    /// Whether files get the user who owns them at the sender. Only root can do that.
    pub owner: bool,
    /// Whether files get their group at the sender. Only root can do that, or a user who is in the group.
    pub group: bool,
    /// Whether users and groups are matched by number in place of their name.
    pub numeric_ids: bool,
    /// Whether devices are made. Only root can do that.
    pub devices: bool,
    /// FIFOs and sockets are made.
    pub specials: bool,
    /// Whether extended attributes and flags are kept. If the receiver is root, they include those that only root can
    /// change.
    pub xattrs: bool,
    /// Access lists are kept.
    pub acls: bool,
    /// Whether the target folder gets the attributes of the source folder when only the content of that folder is
    /// copied.
    pub top: bool,
}

/// What is kept unless a user asks for something else.
impl Default for Keep {
    fn default() -> Self {
        Self {
            perms: true,
            times: true,
            omit_dir_times: false,
            hard_links: false,
            sparse: false,
            owner: false,
            group: false,
            numeric_ids: false,
            devices: false,
            specials: false,
            xattrs: false,
            acls: false,
            top: false,
        }
    }
}

impl Keep {
    /// Whether the sender has to send users and groups.
    pub fn tells_owners(&self) -> bool {
        self.owner || self.group
    }
}

/// The user and the group of a file.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Owner {
    /// The user.
    pub user: Account,
    /// The group.
    pub group: Account,
}

/// A user or a group.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Account {
    /// Its number at the sender.
    pub number: u32,
    /// Its name at the sender. If the receiver has an account with that name, it uses that one. Number 0 has no name.
    pub name: Option<String>,
}

impl Owner {
    /// Whether its names can be names of accounts.
    pub(crate) fn is_sound(&self) -> bool {
        self.user.is_sound() && self.group.is_sound()
    }
}

impl Account {
    /// Whether it has a number and a name with which the receiver can look it up.
    pub(crate) fn is_named(&self) -> bool {
        self.number != 0 && self.name.is_some() && self.is_sound()
    }

    fn is_sound(&self) -> bool {
        // The number that means no account (chown(2)).
        self.number != u32::MAX
            && self.name.as_ref().is_none_or(|name| {
                (1..=MAX_ACCOUNT_BYTES).contains(&name.len()) && !name.contains('\0')
            })
    }
}

/// A special file: a device, a FIFO or a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Special {
    /// A pipe with a name.
    Fifo,
    /// A socket with a name.
    Socket,
    /// A device of characters.
    CharacterDevice,
    /// A device of blocks.
    BlockDevice,
}

impl Special {
    /// Whether it leads to a device.
    pub fn is_device(self) -> bool {
        matches!(self, Self::CharacterDevice | Self::BlockDevice)
    }
}
