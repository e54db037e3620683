//! Looks up users and groups, either by name or by number.
//!
//! Only `/etc/passwd` and `/etc/group` are considered here, whereas the C library might load a plugin and
//! open a connection. This means that accounts in a directory service have to be given by number.

use super::SandboxError;

const USERS: &str = "/etc/passwd";
const GROUPS: &str = "/etc/group";

/// A user ID and a group ID.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
// Exhaustive: a process has these two, and programs may know them as numbers.
pub struct Account {
    /// The user ID.
    pub user: u32,
    /// The group ID.
    pub group: u32,
}

impl Account {
    /// Looks up `USER` or `USER:GROUP`, where each of them can be a name or a number. The default is the
    /// user's primary group.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such user or group, or if the files cannot be read.
    pub fn find(text: &str) -> Result<Account, SandboxError> {
        let read = |file: &str| {
            let failed = |source| SandboxError::Accounts { file: file.into(), source };
            std::fs::read_to_string(file).map_err(failed)
        };
        Account::find_in(text, || read(USERS), || read(GROUPS))
    }

    fn find_in(
        text: &str,
        users: impl Fn() -> Result<String, SandboxError>,
        groups: impl Fn() -> Result<String, SandboxError>,
    ) -> Result<Account, SandboxError> {
        let (user, group) = text.split_once(':').map_or((text, None), |(user, group)| (user, Some(group)));
        let unknown = |kind, name: &str, file: &str| SandboxError::Unknown {
            kind,
            name: name.into(),
            file: file.into(),
        };

        let (user, own_group) = match number(user) {
            // Given a group, we do not need to look up the user.
            Some(user) if group.is_some() => (user, None),
            Some(user) => {
                let group = users().ok().and_then(|users| entry_by_number(&users, user)?.group);
                (user, Some(group.ok_or(SandboxError::NoGroup { user })?))
            }
            None => {
                let found = entry(&users()?, user).ok_or_else(|| unknown("user", user, USERS))?;
                (found.number, found.group)
            }
        };

        let group = match (group, own_group) {
            (None, Some(own_group)) => own_group,
            (None, None) => return Err(SandboxError::NoGroup { user }),
            (Some(group), _) => match number(group) {
                Some(group) => group,
                None => entry(&groups()?, group).ok_or_else(|| unknown("group", group, GROUPS))?.number,
            },
        };
        Ok(Account { user, group })
    }
}

/// A line of the form `name:password:number:group:…`. Lines of the group file do not have a group.
struct Entry {
    number: u32,
    group: Option<u32>,
}

fn entry(text: &str, name: &str) -> Option<Entry> {
    text.lines().find(|line| line.split(':').next() == Some(name)).and_then(parse)
}

fn entry_by_number(text: &str, number: u32) -> Option<Entry> {
    text.lines().filter_map(parse).find(|entry| entry.number == number)
}

fn parse(line: &str) -> Option<Entry> {
    let mut parts = line.split(':').skip(2);
    Some(Entry { number: number(parts.next()?)?, group: parts.next().and_then(number) })
}

/// Parses a user or group ID. The largest number is not a valid ID since it means "unchanged" in system
/// calls.
fn number(text: &str) -> Option<u32> {
    text.parse().ok().filter(|number| *number != u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(text: &str) -> Result<(u32, u32), String> {
        let users = || Ok("root:x:0:0:root:/root:/bin/sh\nwww:x:33:34::/:\nodd\n".to_owned());
        let groups = || Ok("root:x:0:\nlogs:x:7:www\n".to_owned());
        let found = Account::find_in(text, users, groups).map_err(|error| error.to_string())?;
        Ok((found.user, found.group))
    }

    #[test]
    fn names_and_numbers_are_found() {
        assert_eq!(find("www"), Ok((33, 34)));
        assert_eq!(find("33"), Ok((33, 34)));
        assert_eq!(find("www:logs"), Ok((33, 7)));
        assert_eq!(find("5:6"), Ok((5, 6)));
        assert_eq!(find("www:6"), Ok((33, 6)));
    }

    #[test]
    fn unknown_names_are_reported() {
        assert!(find("nosuch").unwrap_err().contains("no user `nosuch`"));
        assert!(find("www:nosuch").unwrap_err().contains("no group `nosuch`"));
        assert!(find("12").unwrap_err().contains("`12:GROUP`"));
        assert!(find("4294967295").is_err() && find("").is_err() && find("www:").is_err());
    }
}
