//! An sshd of a test's own: keys, configuration and cache in a folder that goes when the test does.

use super::{HostAddress, TcpListener, wait_until};
use std::fs;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

pub(super) struct Server {
    pub(super) dir: PathBuf,
    pub(super) address: HostAddress,
    child: Child,
}

pub(super) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

impl Server {
    /// An sshd with more lines in its configuration; `{dir}` is its folder.
    pub(super) fn start(config: &str) -> Server {
        Self::start_among("", config)
    }

    /// The same among file systems of its own, made by a shell command. Only root may do that.
    pub(super) fn start_among(mounts: &str, config: &str) -> Server {
        Self::start_with("", mounts, config)
    }

    /// The same with lines before those that are usual; the first of its kind counts.
    pub(super) fn start_among_first(mounts: &str, config: &str) -> Server {
        Self::start_with(config, mounts, "")
    }

    fn start_with(first: &str, mounts: &str, config: &str) -> Server {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let sshd = ["/usr/sbin/sshd", "/usr/local/sbin/sshd", "/sbin/sshd", "/usr/bin/sshd"]
            .into_iter()
            .find(|path| fs::exists(path).unwrap_or(false))
            .expect("these tests need OpenSSH's sshd: apt-get install openssh-server");
        // Not in the temporary folder if that can be helped: some tests mount something over it.
        let base = if is_root() { "/run".into() } else { std::env::temp_dir() };
        let dir = base.join(format!("qjam-sshd-{}-{}", std::process::id(), COUNT.fetch_add(1, Relaxed)));
        fs::create_dir_all(dir.join("cache")).unwrap();
        if is_root() {
            fs::create_dir_all("/run/sshd").unwrap();
        }
        for name in ["host", "key"] {
            let key = dir.join(name);
            run(Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(key));
        }
        fs::copy(dir.join("key.pub"), dir.join("authorized")).unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let host_key = fs::read_to_string(dir.join("host.pub")).unwrap();
        fs::write(dir.join("known"), format!("[127.0.0.1]:{port} {host_key}")).unwrap();
        let here = |text: &str| text.replace("{dir}", &dir.display().to_string());
        let lines = "ListenAddress 127.0.0.1\nHostKey {dir}/host\nAuthorizedKeysFile {dir}/authorized\n\
                     StrictModes no\nUsePAM no\nPidFile none\nSetEnv XDG_CACHE_HOME={dir}/cache\n";
        fs::write(dir.join("sshd_config"), here(&format!("Port {port}\n{first}\n{lines}{config}\n")))
            .unwrap();
        let lines = "IdentityFile {dir}/key\nIdentitiesOnly yes\nUserKnownHostsFile {dir}/known\n\
                     GlobalKnownHostsFile none\n";
        fs::write(dir.join("ssh_config"), here(lines)).unwrap();
        let server = here(&format!("{sshd} -D -e -f {{dir}}/sshd_config"));
        let mut command = Command::new("sh");
        if mounts.is_empty() {
            command.args(["-c", &format!("exec {server}")]);
        } else {
            let script = here(&format!("set -e; {mounts}; exec {server}"));
            command = Command::new("unshare");
            command.args(["--mount", "--propagation", "private", "sh", "-c", &script]);
        }
        let log = fs::File::create(dir.join("log")).unwrap();
        let child = command
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .process_group(0)
            .spawn()
            .unwrap();
        let address = HostAddress { user: None, host: "127.0.0.1".into(), port: Some(port) };
        let mut server = Server { dir, address, child };
        wait_until("sshd listens", || {
            let ended = server.child.try_wait().unwrap();
            assert!(ended.is_none(), "sshd does not start: {}", server.log());
            TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        server
    }

    fn log(&self) -> String {
        fs::read_to_string(self.dir.join("log")).unwrap_or_default()
    }

    /// What our workers are copied to first.
    pub(super) fn cache(&self) -> PathBuf {
        self.dir.join("cache")
    }

    /// The `ssh` that knows this server.
    pub(super) fn ssh(&self) -> Vec<String> {
        vec!["ssh".into(), "-F".into(), self.dir.join("ssh_config").display().to_string()]
    }

    /// Writes a shell script into its folder.
    pub(super) fn script(&self, name: &str, text: &str) {
        let path = self.dir.join(name);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if std::thread::panicking() {
            use std::io::Write;
            let _ = writeln!(std::io::stderr(), "log of sshd:\n{}", self.log());
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.dir);
    }
}

fn run(command: &mut Command) {
    assert!(command.status().unwrap().success(), "{command:?}");
}
