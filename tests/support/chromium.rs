//! Opens pages in Chromium: in its headless shell, since the browser itself asks servers of its maker for updates.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::skipped::skipped;

const ARGS: [&str; 4] = [
    "--no-sandbox",
    "--disable-gpu",
    "--enable-logging=stderr",
    "--hide-scrollbars",
];

/// Chromium, and a profile of its own.
pub struct Chromium {
    program: OsString,
    profile: tempfile::TempDir,
}

/// A page that was opened.
#[derive(Debug)]
pub struct Opened {
    /// The document after it was loaded.
    pub dom: String,
    /// What was written to the console: errors of scripts, and what a policy refused.
    pub console: Vec<String>,
}

impl Chromium {
    /// `SPANLEDGER_CHROMIUM`, else `chromium-headless-shell`. None if it is not installed.
    pub fn find() -> Option<Self> {
        let given = std::env::var_os("SPANLEDGER_CHROMIUM");
        let program = given.unwrap_or_else(|| "chromium-headless-shell".into());
        match Command::new(&program).arg("--version").output() {
            Ok(done) if done.status.success() => Some(Self {
                program,
                profile: tempfile::tempdir().unwrap(),
            }),
            _ => {
                skipped("Chromium is not installed, or not named by SPANLEDGER_CHROMIUM");
                None
            }
        }
    }

    /// Opens a file without a network: in a network namespace of its own, which has no interface.
    pub fn open_offline(&self, page: &Path) -> Opened {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--net"]);
        command.arg(&self.program);
        self.run(command, page, &[])
    }

    /// Opens a file with all requests, also those to this machine, going through a proxy.
    pub fn open_with_proxy(&self, page: &Path, proxy: &str) -> Opened {
        let proxy = format!("--proxy-server={proxy}");
        let args = [proxy.as_str(), "--proxy-bypass-list=<-loopback>"];
        self.run(Command::new(&self.program), page, &args)
    }

    /// A picture of a page, as it looks in a theme.
    pub fn screenshot(&self, page: &Path, dark: bool) -> Vec<u8> {
        let file: PathBuf = self.profile.path().join("page.png");
        let mut command = Command::new(&self.program);
        let theme = if dark { 0 } else { 1 };
        command.args(ARGS);
        command.arg(format!("--user-data-dir={}", self.profile.path().display()));
        command.arg(format!("--blink-settings=preferredColorScheme={theme}"));
        command.arg("--window-size=900,1200");
        command.arg(format!("--screenshot={}", file.display()));
        command.arg(url(page));
        let done = command.output().unwrap();
        assert!(done.status.success(), "{done:?}");
        std::fs::read(file).unwrap()
    }

    fn run(&self, mut command: Command, page: &Path, args: &[&str]) -> Opened {
        command.args(ARGS).args(args);
        command.arg(format!("--user-data-dir={}", self.profile.path().display()));
        // A page that were to load something later has the time for it.
        let budget = Duration::from_secs(3).as_millis();
        command.arg(format!("--virtual-time-budget={budget}"));
        command.arg("--dump-dom").arg(url(page));
        let done = command.output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (dom, errors) = (text(&done.stdout), text(&done.stderr));
        assert!(done.status.success(), "{errors}");
        let console = errors.lines().filter(|line| line.contains("CONSOLE"));
        Opened {
            console: console.map(str::to_owned).collect(),
            dom,
        }
    }
}

fn url(page: &Path) -> String {
    format!("file://{}", page.display())
}
