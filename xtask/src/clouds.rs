//! Tests buckets in clouds against real servers on this machine: Azurite for Azure's blobs and queues, moto for S3.

use crate::failure::{AboutFile, Failure};
use crate::package;
use crate::run::Run;
use crate::setup;
use crate::step::StepResult;
use crate::suite;
use crate::workspace::Workspace;
use std::fs::File;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The tests that any kind of storage passes.
const TESTS: &str = "test -p qjam-store --features azure,s3 --no-fail-fast --test storage --test rounds --test store_promises";
/// Those of the clouds themselves, and of what goes wrong there.
const OWN_TESTS: &str = "test -p qjam-store --features azure,s3 --no-fail-fast --lib --test refusals";
/// Those of the command that Azurite serves as well as a folder does.
const COMMAND_TESTS: &str = "test -p qjam-cli --features cloud --test store has_the_bits_of_threads";
/// How long a server may take to answer for the first time.
const ANSWERS_WITHIN: Duration = Duration::from_secs(60);
/// The account of the emulator and its key, which are the same everywhere.
const ACCOUNT: &str = "devstoreaccount1";
const KEY: &str = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/// Starts the servers, runs the tests on both, and ends the servers however the tests went.
pub fn test(workspace: &Workspace) -> StepResult {
    setup::cloud_servers(workspace)?;
    let lints = "clippy -p qjam-store --features azure,s3 --all-targets -- -D warnings";
    workspace.cargo(lints).run()?;
    workspace.cargo(&format!("{TESTS} --lib --test refusals --no-run")).limit_min(20).run()?;
    workspace.cargo(&format!("{COMMAND_TESTS} --no-run")).limit_min(20).run()?;
    let folder = workspace.empty_folder("clouds")?;
    let servers = Servers::start(workspace, &folder)?;
    let cargo = |words: &str| servers.known_to(workspace.cargo(words), &folder).limit_min(30);
    let container = "qjam-command";
    let make = workspace.program(workspace.venv_program("python")?).arg("python/tests/containers.py");
    servers.known_to(make.arg(format!("azure://{container}")), &folder).run()?;
    let outcomes = std::thread::scope(|scope| {
        // Both mostly wait, each for its server.
        let azure = scope.spawn(|| {
            let tests = cargo(TESTS).env("QJAM_TEST_STORE", "azure").tee_and_leave_nothing()?;
            let command =
                cargo(COMMAND_TESTS).env("QJAM_TEST_CONTAINER", container).tee_and_leave_nothing()?;
            Ok(tests + &command)
        });
        let s3 = cargo(TESTS).env("QJAM_TEST_STORE", "s3").tee_and_leave_nothing();
        let own = cargo(OWN_TESTS).tee_and_leave_nothing();
        let azure = azure.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        [azure, s3, own]
    });
    Ok(suite::summary(&outcomes.into_iter().collect::<Result<String, _>>()?))
}

/// The tests of the Python package that need clouds.
pub fn python_test(workspace: &Workspace) -> StepResult {
    setup::cloud_servers(workspace)?;
    let folder = workspace.empty_folder("python-clouds")?;
    let servers = Servers::start(workspace, &folder)?;
    package::cloud_tests(workspace, |run| servers.known_to(run, &folder))
}

/// The servers, and where they listen.
struct Servers {
    /// Ended when this is dropped.
    _running: Vec<Server>,
    blobs: u16,
    queues: u16,
    s3: u16,
}

/// A running server.
struct Server(Child);

impl Servers {
    fn start(workspace: &Workspace, folder: &Path) -> Result<Servers, Failure> {
        let [blobs, queues, tables, s3] = free_ports()?;
        let azurite = setup::azurite(workspace);
        let azurite = Server::start(
            &azurite,
            &["--silent", "--inMemoryPersistence", "--disableTelemetry", "--skipApiVersionCheck"]
                .map(String::from)
                .into_iter()
                .chain(
                    [("blob", blobs), ("queue", queues), ("table", tables)]
                        .into_iter()
                        .flat_map(|(kind, port)| [format!("--{kind}Port"), port.to_string()]),
                )
                .collect::<Vec<_>>(),
            &folder.join("azurite.log"),
            &[blobs, queues],
        )?;
        let words = ["-H", "127.0.0.1", "-p"].map(String::from).into_iter().chain([s3.to_string()]);
        let moto = workspace.venv_program("moto_server")?;
        let moto = Server::start(&moto, &words.collect::<Vec<_>>(), &folder.join("moto.log"), &[s3])?;
        Ok(Servers { _running: vec![azurite, moto], blobs, queues, s3 })
    }

    /// A program that finds the servers, and no others that the user may have.
    fn known_to(&self, run: Run, folder: &Path) -> Run {
        let place = |kind: &str, port: u16| format!("{kind}Endpoint=http://127.0.0.1:{port}/{ACCOUNT};");
        let connection = format!(
            "DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={KEY};{}{}",
            place("Blob", self.blobs),
            place("Queue", self.queues)
        );
        run.without(&["AZURE_", "AZURITE_", "AWS_"])
            .env("AZURE_STORAGE_CONNECTION_STRING", connection)
            .env("AWS_ENDPOINT_URL", format!("http://127.0.0.1:{}", self.s3))
            .env("AWS_ACCESS_KEY_ID", "test")
            .env("AWS_SECRET_ACCESS_KEY", "test")
            .env("AWS_REGION", "us-east-1")
            // Chunks from a bucket go to the user's cache.
            .env("XDG_CACHE_HOME", folder.join("cache"))
    }
}

impl Server {
    /// Starts a server, and waits until it answers on these ports.
    fn start(program: &Path, words: &[String], log: &Path, ports: &[u16]) -> Result<Server, Failure> {
        let shown = || format!("{} {}", program.display(), words.join(" "));
        eprintln!("    {}", shown());
        let file = File::create(log).about(log)?;
        let complaints = file.try_clone().about(log)?;
        let mut command = Command::new(program);
        command.args(words).stdin(Stdio::null()).stdout(file).stderr(complaints);
        let child = command.spawn().map_err(|source| Failure::Start { command: shown(), source })?;
        let mut server = Server(child);
        let began = Instant::now();
        while !ports.iter().all(|port| TcpStream::connect(("127.0.0.1", *port)).is_ok()) {
            let has_ended = server.0.try_wait().is_ok_and(|status| status.is_some());
            if has_ended || began.elapsed() > ANSWERS_WITHIN {
                let said = std::fs::read_to_string(log).unwrap_or_default();
                let what = format!("`{}` does not answer: {}", shown(), said.trim());
                return Err(Failure::Unexpected { what, expected: "a server" });
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Ports that nobody has. They are all held until each is known.
fn free_ports<const N: usize>() -> Result<[u16; N], Failure> {
    let mut held = Vec::new();
    let mut ports = [0; N];
    for port in &mut ports {
        let listener = TcpListener::bind(("127.0.0.1", 0)).about("a port of 127.0.0.1")?;
        *port = listener.local_addr().about("a port of 127.0.0.1")?.port();
        held.push(listener);
    }
    Ok(ports)
}
