//! What one end accepts from the other, so that no message can cost it more than this.

/// Longest control frame, in bytes: an offer of as many files as one message takes, with the longest
/// paths.
pub const MAX_FRAME_BYTES: usize = 3 << 20;
/// Longest path below a source, in bytes (Linux `PATH_MAX`).
pub const MAX_PATH_BYTES: usize = 4096;
/// Longest name of one folder or file, in bytes (Linux `NAME_MAX`).
pub const MAX_NAME_BYTES: usize = 255;
/// Longest name of a user or a group, in bytes (Linux `LOGIN_NAME_MAX` without its NUL).
pub const MAX_ACCOUNT_BYTES: usize = 255;
/// Most that the extended attributes of a file take together, in bytes.
pub const MAX_XATTRS_BYTES: usize = 48 << 10;
/// Longest header of a piece: a symbolic link's path and target, two names, extended attributes, a few numbers,
/// and its check.
pub const MAX_HEADER_BYTES: usize =
    2 * (MAX_PATH_BYTES + MAX_ACCOUNT_BYTES) + MAX_XATTRS_BYTES + 128;
/// Most data streams of one transfer.
pub const MAX_STREAMS: usize = 128;
/// Longest name of a congestion control, in bytes (Linux `TCP_CA_NAME_MAX` without its NUL).
pub const MAX_CONTROL_BYTES: usize = 15;
/// Most files in one [`crate::Offer`].
pub const MAX_OFFERED_FILES: usize = 512;
/// About the most that the first names of hard links take in one offer, in bytes: less than a frame has beyond its files.
pub const MAX_FIRST_NAMES_BYTES: usize = 256 << 10;
/// Most offers without an answer, once the receiver has accepted the job. Before that the sender makes only one,
/// because offers to a new destination are useless.
pub const MAX_OFFERS_OPEN: usize = 32;
/// The same for a job that compares files by their content. The receiver answers such an offer only when its files
/// are compared.
pub const MAX_COMPARED_OFFERS_OPEN: usize = 8;
/// Most steerings without an answer.
pub const MAX_STEERINGS_OPEN: u64 = 64;
/// Least rate that a user may limit a copy to, in bits per second. At a lower rate a TLS record takes so long that
/// the waiting end cannot tell a slow copy from one that hangs.
pub const MIN_LIMIT_BPS: u64 = 8000;
/// Longest pause of a copy by its user, in nanoseconds: a week.
pub const MAX_PAUSE_NS: u64 = 7 * 86_400_000_000_000;
/// Most payload in one piece, in bytes.
pub const MAX_PIECE_BYTES: u64 = 64 << 20;
/// Most payload in one piece of a pipe, in bytes. Both ends have such pieces in memory.
pub const MAX_PIPED_BYTES: u64 = 1 << 20;
/// Most bytes from a pipe that a sender keeps in memory until the receiver confirms them.
pub const MAX_PIPED_KEPT_BYTES: u64 = 256 << 20;
/// Smallest block a big file is cut into, in bytes; a power of two.
pub const MIN_BLOCK_BYTES: u64 = 64 << 10;
/// Most parts of one file in an [`crate::Answer`] that the receiver may already have.
pub const MAX_SPANS_OF_FILE: usize = 1024;
/// Most parts of files in one [`crate::Answer`].
pub const MAX_SPANS: usize = 8192;
/// Most names in one [`crate::Names`].
pub const MAX_NAMES: usize = 512;
/// Most messages of names that the sender has not confirmed.
pub const MAX_NAMES_OPEN: usize = 8;
/// Most addresses of one data port.
pub const MAX_ADDRESSES: usize = 8;
/// Most digests in one [`crate::Message::Digests`].
pub const MAX_DIGESTS: usize = 512;
/// Most names in the folders of one [`crate::Message::Content`].
pub const MAX_CONTENT_NAMES: usize = 2048;
/// Most folders in one [`crate::Message::Content`].
pub const MAX_CONTENT_FOLDERS: usize = 128;
/// Most things in one [`crate::Message::Extraneous`].
pub const MAX_EXTRANEOUS: usize = 512;
/// Most sources in one job.
pub const MAX_SOURCES: usize = 4096;
/// Most files that are incomplete at the receiver at one time.
pub const MAX_OPEN_FILES: usize = 2 * MAX_STREAMS;
/// Longest transfer from memory to memory that is limited by time, in nanoseconds: a day.
pub const MAX_MEMORY_NS: u64 = 86_400_000_000_000;
/// Shortest interval between two samples of a stream, in nanoseconds.
pub const MIN_SAMPLE_NS: u64 = 10_000_000;
/// Longest interval between two samples of a stream, in nanoseconds.
pub const MAX_SAMPLE_NS: u64 = 10_000_000_000;
/// Longest time for which a copy waits while the path is down, in nanoseconds: a day.
pub const MAX_PATIENCE_NS: u64 = 86_400_000_000_000;
/// Longest time that a thread or a socket may say to have spent, in nanoseconds or microseconds: ten years, over all
/// streams.
pub const MAX_SPENT_NS: u64 = 10 * 366 * 86_400_000_000_000;
/// Longest text in one message, in bytes: a reason that names a few of the longest paths, escaped.
pub const MAX_MESSAGE_TEXT_BYTES: usize = 64 << 10;
/// Longest text from the other end that an end shows its user, in bytes.
pub const MAX_TEXT_BYTES: usize = 8192;
