//! Numbers for names that must differ from all others.

/// A number that nobody else has.
pub(crate) fn random() -> u64 {
    let mut random = [0_u8; 8];
    // Without random numbers from the system those of hash maps must do.
    if rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty()) != Ok(random.len()) {
        return std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), std::process::id());
    }
    u64::from_le_bytes(random)
}
