//! File systems that report no changes by other machines.

use std::path::Path;

/// Returns the name of the file system of a path, if the system may have no events for its changes.
#[cfg(target_os = "linux")]
pub(crate) fn without_events(path: &Path) -> Option<&'static str> {
    /// Magic numbers (`statfs(2)`) and names.
    const FILE_SYSTEMS: [(u64, &str); 8] = [
        (0x6969, "NFS"),
        (0x517b, "SMB"),
        (0xff53_4d42, "SMB"),
        (0xfe53_4d42, "SMB"),
        (0x0102_1997, "9p"),
        (0x6573_5546, "FUSE"),
        (0x00c3_6400, "Ceph"),
        (0x786f_4256, "vboxsf"),
    ];
    // The type of `f_type` depends on the architecture, and the magic numbers have 32 bits.
    #[allow(clippy::cast_sign_loss, clippy::unnecessary_cast, reason = "a bit pattern")]
    let found = rustix::fs::statfs(path).ok()?.f_type as u64 & 0xffff_ffff;
    FILE_SYSTEMS.iter().find(|(magic, _)| *magic == found).map(|(_, name)| *name)
}

/// Returns `None`: other systems report their network file systems by errors.
#[cfg(not(target_os = "linux"))]
pub(crate) fn without_events(_path: &Path) -> Option<&'static str> {
    None
}
