//! Whether this kernel can load our programs.

use std::{fs, path::Path};

use rustix::system;

use crate::Error;

const BTF: &str = "/sys/kernel/btf/vmlinux";
/// The first kernel with links to struct_ops, which can be swapped.
const LEAST: (u32, u32) = (6, 4);
/// Bits of CapEff: CAP_NET_ADMIN, CAP_SYS_ADMIN, CAP_BPF.
const CAPABILITIES: [u32; 3] = [12, 21, 39];

/// Refuses with the reason when programs cannot be loaded here.
pub fn check() -> Result<(), Error> {
    let release = release();
    if version(&release).is_some_and(|version| version < LEAST) {
        return Err(Error::OldKernel { release });
    }
    if !Path::new(BTF).exists() {
        return Err(Error::NoBtf { path: BTF });
    }
    if !privileged() {
        return Err(refusal());
    }
    Ok(())
}

/// The error for a missing privilege here.
pub(crate) fn refusal() -> Error {
    if rustix::process::geteuid().is_root() {
        Error::Confined
    } else {
        Error::Privilege
    }
}

/// The kernel's release, as `uname -r` prints it.
pub(crate) fn release() -> String {
    system::uname().release().to_string_lossy().into_owned()
}

fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// Whether the capabilities are there. Where they cannot be read, the kernel itself refuses later.
fn privileged() -> bool {
    capable()
        && fs::read_to_string("/proc/self/uid_map").map_or(true, |map| of_first_namespace(&map))
}

/// The first user namespace maps every id to itself; capabilities of others load no programs.
fn of_first_namespace(uid_map: &str) -> bool {
    uid_map.split_whitespace().eq(["0", "0", "4294967295"])
}

fn capable() -> bool {
    let Ok(status) = fs::read_to_string("/proc/self/status") else {
        return true;
    };
    let effective = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
    effective.is_none_or(|bits| {
        let has = |capability: u32| bits >> capability & 1 == 1;
        let [net_admin, sys_admin, bpf] = CAPABILITIES.map(has);
        net_admin && (sys_admin || bpf)
    })
}

#[cfg(test)]
mod tests {
    use super::{LEAST, of_first_namespace, version};

    #[test]
    fn releases_are_compared_as_numbers() {
        assert_eq!(version("6.18.44-fc-v669"), Some((6, 18)));
        assert_eq!(version("6.1.0-13-amd64"), Some((6, 1)));
        assert!(version("6.10.3").is_some_and(|version| version > LEAST));
        assert!(version("5.15.0-91-generic").is_some_and(|version| version < LEAST));
        assert_eq!(version("unknown"), None);
    }

    #[test]
    fn root_of_another_user_namespace_is_told_by_its_map() {
        assert!(of_first_namespace("         0          0 4294967295\n"));
        assert!(!of_first_namespace("         0       1000          1\n"));
        assert!(!of_first_namespace("0 0 1\n1 100000 65536\n"));
    }
}
