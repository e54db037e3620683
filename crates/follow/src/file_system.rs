//! Knows which file systems do not report changes made by other machines.

use std::path::Path;

/// If we should not rely on events for this path, returns the name of its file system.
#[cfg(target_os = "linux")]
pub(crate) fn without_events(path: &Path) -> Option<&'static str> {
    // The type of `f_type` depends on the architecture.
    #[allow(clippy::cast_sign_loss, clippy::unnecessary_cast, reason = "a bit pattern")]
    let magic = rustix::fs::statfs(path).ok()?.f_type as u64;
    name_without_events(magic)
}

/// Not needed on other systems, where watching a network file system fails with an error.
#[cfg(not(target_os = "linux"))]
pub(crate) fn without_events(_path: &Path) -> Option<&'static str> {
    None
}

/// Same, but for the file system with this magic number (see `statfs(2)`).
#[cfg(target_os = "linux")]
fn name_without_events(magic: u64) -> Option<&'static str> {
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
    // Magic numbers have 32 bits, but they may be sign-extended.
    let magic = magic & 0xffff_ffff;
    FILE_SYSTEMS.iter().find(|(number, _)| *number == magic).map(|(_, name)| *name)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn network_file_systems_have_no_events() {
        let sign_extended = u64::MAX << 32;
        let cases = [
            (0x6969, Some("NFS")),
            (0x517b, Some("SMB")),
            (0xff53_4d42, Some("SMB")),
            (0xff53_4d42 | sign_extended, Some("SMB")),
            (0xfe53_4d42, Some("SMB")),
            (0xfe53_4d42 | sign_extended, Some("SMB")),
            (0x0102_1997, Some("9p")),
            (0x6573_5546, Some("FUSE")),
            (0x00c3_6400, Some("Ceph")),
            (0x786f_4256, Some("vboxsf")),
            // ext4, XFS, btrfs, tmpfs and overlayfs.
            (0xef53, None),
            (0x5846_5342, None),
            (0x9123_683e, None),
            (0x0102_1994, None),
            (0x794c_7630, None),
            (0, None),
        ];

        for (magic, name) in cases {
            assert_eq!(name_without_events(magic), name, "{magic:#x}");
        }
    }

    #[test]
    fn local_and_missing_paths_have_events() {
        assert_eq!(without_events(Path::new("/proc")), None);
        assert_eq!(without_events(Path::new("/missing")), None);
    }
}
