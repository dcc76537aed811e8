//! The list of test hosts with their names, addresses and properties. Creates nothing.

use std::path::Path;

/// What is special about a host's machine or cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nothing.
    Plain,
    /// The login shell is bash, which reads `.bashrc` under sshd; elsewhere there is no bash at all.
    Bash,
    /// Reached only from `jump`.
    Inner,
    /// Nothing passes but TCP to its port 22.
    Only22,
    /// 100 Mbit/s each way.
    Slow,
    /// 5 ms each way.
    Far,
    /// Says that it is a 32-bit machine.
    I686,
    /// Has Python, and NumPy where `pip install --user` puts it.
    Python,
    /// Has Python alone.
    NoNumpy,
}

impl Kind {
    /// Whether there is an interpreter.
    pub fn has_python(self) -> bool {
        matches!(self, Kind::Python | Kind::NoNumpy)
    }

    /// What `link.sh` calls it.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Plain | Kind::Bash | Kind::Inner | Kind::Python | Kind::NoNumpy => "plain",
            Kind::Only22 => "only22",
            Kind::Slow => "slow",
            Kind::Far => "far",
            Kind::I686 => "i686",
        }
    }
}

/// The hosts, in the order they are made: whoever is reached through another comes after it. A host's place in the
/// list decides its address and its user's number, so new ones go to the end.
pub const HOSTS: &[(&str, Kind)] = &[
    ("a", Kind::Plain),
    ("b", Kind::Plain),
    ("c", Kind::Plain),
    ("d", Kind::Plain),
    ("jump", Kind::Plain),
    ("inner", Kind::Inner),
    ("only22", Kind::Only22),
    ("slow", Kind::Slow),
    ("far", Kind::Far),
    ("i686", Kind::I686),
    ("bash", Kind::Bash),
    ("py", Kind::Python),
    ("py2", Kind::Python),
    ("nonp", Kind::NoNumpy),
];

/// Through which host `inner` is reached.
pub const JUMP: &str = "jump";

/// One host.
#[derive(Clone, Debug)]
pub struct Host {
    /// What ssh calls it.
    pub name: &'static str,
    pub kind: Kind,
    /// Its address.
    pub ip: String,
    /// Hardware address of its end of the cable.
    pub hardware: String,
    /// Who logs in: no two hosts have a user of the same name or number.
    pub user: String,
    pub uid: u32,
    /// Name of its network namespace, and of the other end of its cable: names of different things, so they may be equal.
    pub link: String,
}

/// What all names of this checkout's namespaces and cables begin with. The kernel allows 15 bytes for a cable, of which
/// 6 are left for the host.
pub fn prefix(folder: &Path) -> String {
    // FNV-1a: any stable function would do.
    let hash = folder.as_os_str().as_encoded_bytes().iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("qjam-{:03x}-", (hash ^ (hash >> 32)) & 0xfff)
}

/// The hosts of the network with this number.
pub fn hosts(prefix: &str, network: u8) -> Vec<Host> {
    let one = |(i, (name, kind)): (u32, &(&'static str, Kind))| Host {
        name,
        kind: *kind,
        ip: if *kind == Kind::Inner { inner(network, 2) } else { outer(network, 11 + i) },
        hardware: format!("02:77:00:00:01:{i:02x}"),
        user: format!("at-{name}"),
        // Above what systems give to people and services, below what they give to containers.
        uid: 77_000 + u32::from(network) * 16 + i,
        link: format!("{prefix}{name}"),
    };
    (0..).zip(HOSTS).map(one).collect()
}

/// An address on the bridge.
pub fn outer(network: u8, last: u32) -> String {
    format!("10.77.{network}.{last}")
}

/// An address on the cable between `jump` and `inner`. Our machine takes it for a neighbour, of whom nobody answers.
pub fn inner(network: u8, last: u32) -> String {
    outer(network, 128 + last)
}

/// The number of a network that is not among those of `addresses`, the output of `ip -4 -oneline address`; the one of
/// `bridge` if that exists.
pub fn network(addresses: &str, bridge: &str) -> Option<u8> {
    let number = |line: &str| {
        let (_, rest) = line.split_once(" 10.77.")?;
        rest.split('.').next()?.parse::<u8>().ok()
    };
    let ours = addresses.lines().find(|line| line.split_whitespace().nth(1) == Some(bridge));
    let taken: Vec<u8> = addresses.lines().filter_map(number).collect();
    ours.and_then(number).or_else(|| (0..=255).find(|candidate| !taken.contains(candidate)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_cables_fit_into_the_kernels_fifteen_bytes() {
        for host in hosts(&prefix(Path::new("somewhere/target/hosts")), 0) {
            assert!(host.link.len() <= 15, "{}", host.link);
        }
    }

    #[test]
    fn hosts_and_checkouts_share_neither_address_nor_user() {
        let mut all: Vec<Host> = [0, 1, 255].iter().flat_map(|network| hosts("x-", *network)).collect();
        let count = all.len();
        all.sort_by_key(|host| host.uid);
        all.dedup_by_key(|host| host.uid);
        assert_eq!(all.len(), count);
        all.sort_by_key(|host| host.ip.clone());
        all.dedup_by_key(|host| host.ip.clone());
        assert_eq!(all.len(), count);
        assert!(all.iter().all(|host| host.uid < 100_000));
    }

    #[test]
    fn two_folders_have_two_prefixes() {
        let (one, two) = (prefix(Path::new("one/hosts")), prefix(Path::new("two/hosts")));
        assert_ne!(one, two);
        assert_eq!(one.len(), "qjam-000-".len());
    }

    #[test]
    fn a_network_in_use_is_not_taken_and_our_own_is_found_again() {
        let line =
            |i, name, network| format!("{i}: {name}    inet 10.77.{network}.1/24 scope global {name}\n");
        assert_eq!(network("1: lo    inet 127.0.0.1/8 scope host lo\n", "ours"), Some(0));
        assert_eq!(network(&(line(2, "x", 0) + &line(3, "y", 2)), "ours"), Some(1));
        assert_eq!(network(&(line(2, "x", 0) + &line(3, "ours", 7)), "ours"), Some(7));
        let all: String = (0..=255).map(|network| line(2, "x", network)).collect();
        assert_eq!(network(&all, "ours"), None);
    }
}
