//! What a copy keeps of files beside names and contents: what its user asks for.

use serde::{Deserialize, Serialize};

use crate::limits::MAX_ACCOUNT_BYTES;

/// What is kept. The near end's user asks for it, and the receiver applies nothing else, whatever the sender says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Keep {
    /// Modes are those of the sources; else a file that is there keeps its own, and a new one has what the receiver's
    /// umask, or the access list of its folder, leaves of it.
    pub perms: bool,
    /// Times of modification are those of the sources; else they are those of the copy.
    pub times: bool,
    /// Times of folders are those of the copy.
    pub omit_dir_times: bool,
    /// Names of one file stay names of one file.
    pub hard_links: bool,
    /// Runs of zeros become holes.
    pub sparse: bool,
    /// Files belong to the user to whom they belong at the sender, where the receiver is root.
    pub owner: bool,
    /// Files belong to the group to which they belong at the sender, where the receiver is root or in it.
    pub group: bool,
    /// Users and groups are told by number and not by name.
    pub numeric_ids: bool,
    /// Devices are made, where the receiver is root.
    pub devices: bool,
    /// FIFOs and sockets are made.
    pub specials: bool,
    /// Extended attributes and flags are kept, those that only root can change where the receiver is root.
    pub xattrs: bool,
    /// Access lists are kept.
    pub acls: bool,
    /// A folder of which only the content is copied gives what is kept of it to the folder that takes the content.
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
    /// Whether it is told to whom files belong.
    pub fn tells_owners(&self) -> bool {
        self.owner || self.group
    }
}

/// To whom a file belongs.
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
    /// Its name there, by which the receiver tells it if it knows one of that name. Number 0 has none.
    pub name: Option<String>,
}

impl Owner {
    /// Whether its names can be some.
    pub(crate) fn is_sound(&self) -> bool {
        self.user.is_sound() && self.group.is_sound()
    }
}

impl Account {
    /// Whether it can be one that is told by its name.
    pub(crate) fn is_named(&self) -> bool {
        self.number != 0 && self.name.is_some() && self.is_sound()
    }

    fn is_sound(&self) -> bool {
        // The number that stands for none (chown(2)).
        self.number != u32::MAX
            && self.name.as_ref().is_none_or(|name| {
                (1..=MAX_ACCOUNT_BYTES).contains(&name.len()) && !name.contains('\0')
            })
    }
}

/// A file that is no data.
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
