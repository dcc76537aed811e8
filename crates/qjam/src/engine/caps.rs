//! What a kind of workers can do.
//!
//! The master and the tests ask capabilities, never which engine a worker belongs to. So a new engine needs no change
//! outside its own folder.

/// Capabilities of a worker, or of all workers of a [`Master`](crate::Master) together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Caps {
    /// Workers are threads of the master's own process: they share its memory and its fate.
    pub in_process: bool,
    /// Workers are on the master's machine: they can map its files and its shared memory.
    pub same_machine: bool,
    /// A worker can be ended without ending the program.
    pub can_kill: bool,
    /// A lost worker costs only its unfinished blocks: these go to others, and it is started again.
    pub can_replace: bool,
    /// A round can be cancelled while its function runs, whether or not the function cooperates.
    pub can_cancel: bool,
    /// Workers keep the states of partitions between rounds.
    pub keeps_state: bool,
    /// Steps on these workers may send each other mail, and a partition that is made again finds the letters that it found
    /// then.
    pub carries_mail: bool,
    /// Workers can be added and removed while the master runs.
    pub can_grow: bool,
    /// A memory limit per worker is enforced.
    pub limits_memory: bool,
    /// Several rounds can be under way at once.
    pub several_rounds: bool,
}

impl Caps {
    /// Threads of this process.
    pub(crate) const THREADS: Caps = Caps {
        in_process: true,
        same_machine: true,
        can_kill: false,
        can_replace: false,
        can_cancel: false,
        keeps_state: true,
        carries_mail: true,
        can_grow: true,
        limits_memory: false,
        several_rounds: true,
    };

    /// Child processes of this one.
    pub(crate) const PROCESSES: Caps = Caps {
        in_process: false,
        can_kill: true,
        can_replace: true,
        can_cancel: true,
        limits_memory: true,
        ..Caps::THREADS
    };

    /// Processes on other machines.
    pub(crate) const HOSTS: Caps = Caps { same_machine: false, ..Caps::PROCESSES };

    /// An engine that runs whole rounds, one at a time, and promises nothing else. A crew of yours begins with this.
    pub const CREW: Caps = Caps {
        in_process: false,
        same_machine: false,
        can_kill: false,
        can_replace: false,
        can_cancel: false,
        keeps_state: false,
        carries_mail: false,
        can_grow: false,
        limits_memory: false,
        several_rounds: false,
    };

    /// Whether workers are processes of their own on the master's machine.
    pub(crate) fn is_child(self) -> bool {
        self.same_machine && !self.in_process
    }

    /// What workers of both kinds together promise.
    pub(crate) fn and(self, other: Caps) -> Caps {
        Caps {
            in_process: self.in_process && other.in_process,
            same_machine: self.same_machine && other.same_machine,
            can_kill: self.can_kill && other.can_kill,
            can_replace: self.can_replace && other.can_replace,
            can_cancel: self.can_cancel && other.can_cancel,
            keeps_state: self.keeps_state && other.keeps_state,
            carries_mail: self.carries_mail && other.carries_mail,
            can_grow: self.can_grow && other.can_grow,
            limits_memory: self.limits_memory && other.limits_memory,
            several_rounds: self.several_rounds && other.several_rounds,
        }
    }
}
