//! Who started this process, together with how many others; and what is said when that does not fit.

use std::fmt;
use std::path::PathBuf;
use thiserror::Error;

/// What a launcher has told this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Whose variables they are.
    pub by: &'static str,
    /// One of them, as the environment has it.
    pub variable: String,
    /// The number of this process.
    pub rank: u32,
    /// How many there are, where the launcher says it.
    pub size: Option<u32>,
}

/// Variables of launchers: whose, the rank, and where the number of ranks is.
const KNOWN: &[(&str, &str, &[&str])] = &[
    ("Open MPI's mpirun", "OMPI_COMM_WORLD_RANK", &["OMPI_COMM_WORLD_SIZE"]),
    ("MVAPICH's launcher", "MV2_COMM_WORLD_RANK", &["MV2_COMM_WORLD_SIZE"]),
    ("a launcher of the MPICH family (mpiexec.hydra, srun)", "PMI_RANK", &["PMI_SIZE"]),
    ("a PMIx launcher (srun --mpi=pmix, prterun)", "PMIX_RANK", &["SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"]),
];

impl Launch {
    /// What the environment says.
    pub fn here() -> Option<Launch> {
        Launch::from(|name| std::env::var(name).ok())
    }

    fn from(variable: impl Fn(&str) -> Option<String>) -> Option<Launch> {
        KNOWN.iter().find_map(|(by, rank, sizes)| {
            let number = variable(rank)?.parse().ok()?;
            let size = sizes.iter().find_map(|size| Some((*size, variable(size)?)));
            let variable = match &size {
                Some((name, value)) => format!("{name}={value}"),
                None => format!("{rank}={number}"),
            };
            Some(Launch { by, variable, rank: number, size: size.and_then(|(_, n)| n.parse().ok()) })
        })
    }
}

impl fmt::Display for Launch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.by, self.variable)
    }
}

/// Why workers `mpi` cannot be had, or cannot do something.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RanksError {
    /// The program has no message library.
    #[error(
        "workers `mpi` need a program that was built with MPI, and this one was not\n  remedy: {}",
        if *.is_command { "build the command with `cargo build --release -p qjam-cli --features mpi`" }
        else { "add the crate `qjam-mpi` with its feature `mpi` to its dependencies, and `use qjam_mpi as _;` to its main file" }
    )]
    NotBuilt {
        /// Whether it is the command `qjam`.
        is_command: bool,
    },

    /// Nobody has started other processes with this one.
    #[error(
        "workers `mpi` are the ranks that a launcher started with this program, and nobody did\n  remedy: start it with `mpirun -n 4 {program} …` of the library that it was built against, {library}{}",
        match .mpirun {
            Some(path) => format!(" ({} is there)", path.display()),
            None => format!(
                "; there is no `mpirun` on the path: install it (on Debian: {}) or load your cluster's module for MPI",
                if library.starts_with("MPICH") { "mpich" } else { "openmpi-bin" }
            ),
        }
    )]
    NotLaunched {
        /// The program's name.
        program: String,
        /// What it was built against.
        library: String,
        /// The launcher on the path, if there is one.
        mpirun: Option<PathBuf>,
    },

    /// The launcher belongs to another library.
    #[error(
        "this process was started by {launch}, together with others, but its message library sees it alone: it was built against {library}\n  remedy: start it with the mpirun of that library, or build it again with the launcher's (`MPICC=… cargo build`)"
    )]
    OtherLibrary {
        /// Who started it.
        launch: String,
        /// What it was built against.
        library: String,
    },

    /// The library could not be used.
    #[error("{name} could not be started: {why}")]
    Unusable {
        /// Which.
        name: &'static str,
        /// Why.
        why: String,
    },

    /// The program did not ask early enough whether it is a rank.
    #[error(
        "ranks other than 0 serve before `main` begins, and this program would run as a whole on each: put #[qjam::main] on its main function, or qjam::worker_hook!() into a test"
    )]
    NotHooked,

    /// Ranks cannot do this.
    #[error("{what} with workers `mpi`: {instead}")]
    Unsupported {
        /// What was asked for.
        what: &'static str,
        /// What to use instead.
        instead: &'static str,
    },

    /// Another program has the other ranks.
    #[error("rank {rank} on {host} is {theirs}, and rank 0 is {ours}: all ranks must be the same build")]
    OtherBuild {
        /// Which rank.
        rank: u32,
        /// Where it is.
        host: String,
        /// What it is.
        theirs: String,
        /// What this is.
        ours: String,
    },

    /// Rank 0 is already leaving.
    #[error("the ranks have been sent home")]
    Over,
}

/// The launcher on the path.
pub(super) fn find_mpirun() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let places = std::env::split_paths(&path).flat_map(|dir| [dir.join("mpirun"), dir.join("mpiexec")]);
    places.into_iter().find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_nobody_launched_says_what_it_was_built_against() {
        for (library, package) in [("Open MPI v4.1.4", "openmpi-bin"), ("MPICH Version: 4.0.2", "mpich")] {
            let missing =
                RanksError::NotLaunched { program: "qjam".into(), library: library.into(), mpirun: None };
            let said = missing.to_string();
            assert!(said.contains(library) && said.contains(&format!("on Debian: {package})")), "{said}");
        }
    }

    fn launch(variables: &[(&str, &str)]) -> Option<Launch> {
        let find = |name: &str| variables.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned());
        Launch::from(find)
    }

    #[test]
    fn launchers_are_known_by_their_variables() {
        let open =
            launch(&[("OMPI_COMM_WORLD_RANK", "2"), ("OMPI_COMM_WORLD_SIZE", "4"), ("PMIX_RANK", "2")]);
        let open = open.unwrap();
        assert_eq!((open.rank, open.size), (2, Some(4)));
        assert_eq!(open.to_string(), "Open MPI's mpirun (OMPI_COMM_WORLD_SIZE=4)");
        let hydra = launch(&[("PMI_RANK", "0"), ("PMI_SIZE", "3")]).unwrap();
        assert_eq!((hydra.rank, hydra.size), (0, Some(3)));
        let slurm = launch(&[("PMIX_RANK", "1"), ("SLURM_NTASKS", "8")]).unwrap();
        assert_eq!((slurm.rank, slurm.size), (1, Some(8)));
        assert_eq!(launch(&[("PMIX_RANK", "1")]).unwrap().size, None);
        assert_eq!(
            launch(&[("SLURM_PROCID", "0"), ("SLURM_NTASKS", "8")]),
            None,
            "a batch script is no rank"
        );
        assert_eq!(launch(&[("OMPI_COMM_WORLD_RANK", "two")]), None);
    }
}
