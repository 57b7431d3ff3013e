//! Checks of a root and the environment: why nothing may be recorded, and what to do.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use tracing::Level;
use tracing_subscriber::filter::Targets;

use super::store::Store;
use crate::trace::{exposed, named_enum};

named_enum! {
    /// How a check ended.
    pub enum CheckHealth {
        /// Nothing is wrong.
        Ok = "ok",
        /// It may be wrong: that depends on what can't be seen from here.
        Warning = "warning",
        /// Something is wrong.
        Wrong = "wrong",
    }
}

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnosis {
    /// What was checked.
    pub check: &'static str,
    /// How it ended.
    pub health: CheckHealth,
    /// What was found.
    pub found: String,
    /// What to do, if something may be wrong.
    pub advice: Option<String>,
}

impl Diagnosis {
    /// Nothing is wrong.
    pub fn ok(check: &'static str, found: impl Into<String>) -> Self {
        Self {
            check,
            health: CheckHealth::Ok,
            found: found.into(),
            advice: None,
        }
    }

    /// Something may be wrong.
    pub fn warning(check: &'static str, found: impl Into<String>, advice: &str) -> Self {
        Self {
            health: CheckHealth::Warning,
            advice: Some(advice.to_owned()),
            ..Self::ok(check, found)
        }
    }

    /// Something is wrong.
    pub fn wrong(check: &'static str, found: impl Into<String>, advice: &str) -> Self {
        Self {
            health: CheckHealth::Wrong,
            ..Self::warning(check, found, advice)
        }
    }
}

/// Disk space below which it is a problem.
const LITTLE_SPACE: u64 = 100 << 20;
/// How far in the future the newest line may be: clocks of several machines differ.
const SKEW_NS: u64 = 60_000_000_000;
/// 2024-01-01, in nanoseconds since 1970.
const RECENT_NS: u64 = 1_704_067_200_000_000_000;

/// The advice for a root that can't be read.
const NOT_READABLE: &str = "make the root readable for this user, or run this as the agent's user";

/// The variables that spanledger reads.
const VARIABLES: &[&str] = &[
    "SPANLEDGER_DIR",
    "SPANLEDGER_DISABLED",
    "SPANLEDGER_SYNC",
    "SPANLEDGER_INLINE_LIMIT",
    "SPANLEDGER_EXPORT",
    "SPANLEDGER_OTLP_ERROR_TEXT",
    "SPANLEDGER_OTLP_LOG_MESSAGES",
    "SPANLEDGER_OTLP_PATHS",
    "SPANLEDGER_OTLP_CUSTOM_FIELDS",
    "SPANLEDGER_CONFIG",
    "SPANLEDGER_MAX_TOOL_CALLS",
    "SPANLEDGER_MAX_MODEL_CALLS",
    "SPANLEDGER_MAX_TURNS",
    "SPANLEDGER_MAX_DURATION",
    "SPANLEDGER_MAX_TOKENS",
    "SPANLEDGER_MAX_COST_USD",
    "SPANLEDGER_ON_LOOP",
    "SPANLEDGER_VOLATILE",
];

/// Checks a root: whether it is writable and private, its writers, disk space, and the clock. `now` is
/// in nanoseconds since 1970.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// use spanledger::session::{CheckHealth, Store, diagnose_root};
/// let checks = diagnose_root(&Store::new(dir.path()), 1_800_000_000_000_000_000);
/// assert!(checks.iter().all(|check| check.health != CheckHealth::Wrong));
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn diagnose_root(store: &Store, now: u64) -> Vec<Diagnosis> {
    vec![
        writable(store.root()),
        permissions(store.root()),
        users(store),
        space(store.root()),
        clock(store, now),
    ]
}

fn writable(root: &Path) -> Diagnosis {
    let shown = root.display();
    let advice = "set SPANLEDGER_DIR to a directory that the agent's user can write";
    // An agent creates the root and its parents.
    let existing = root.ancestors().find(|dir| dir.exists());
    let existing = existing.filter(|dir| !dir.as_os_str().is_empty());
    let dir = existing.unwrap_or(Path::new("."));
    let probe = dir.join(format!(".spanledger-doctor-{}", std::process::id()));
    let tried = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&probe)
        .and_then(|_| fs::remove_file(&probe));
    match tried {
        Ok(()) if dir == root => Diagnosis::ok("root", format!("{shown} is writable")),
        Ok(()) => Diagnosis::ok(
            "root",
            format!("{shown} does not exist; an agent creates it"),
        ),
        Err(error) => {
            let found = format!("{} is not writable: {error}", dir.display());
            Diagnosis::wrong("root", found, advice)
        }
    }
}

fn permissions(root: &Path) -> Diagnosis {
    let key = root.join("redaction.key");
    if key.symlink_metadata().is_ok_and(|meta| !meta.is_file()) {
        let found = format!("{} is not a regular file", key.display());
        return Diagnosis::wrong(
            "permissions",
            found,
            "remove it: an agent creates a new key",
        );
    }
    let exposed = [root, &key].map(|path| exposed(path).ok().flatten());
    if let Some((found, advice)) = exposed.into_iter().flatten().next() {
        return Diagnosis::wrong("permissions", found, &advice);
    }
    // The key first: an agent refuses one that others can read.
    for path in [&key, root] {
        match path.metadata() {
            Ok(meta) if meta.mode() & 0o077 != 0 => {
                let found = format!(
                    "{} is open to others: {:03o}",
                    path.display(),
                    meta.mode() & 0o777
                );
                let advice = format!("chmod go-rwx {}", path.display());
                return match path == key {
                    true => Diagnosis::wrong("permissions", found, &advice),
                    false => Diagnosis::warning("permissions", found, &advice),
                };
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                let found = format!("{}: {error}", path.display());
                return Diagnosis::wrong("permissions", found, NOT_READABLE);
            }
            _ => {}
        }
    }
    Diagnosis::ok("permissions", "only the owner can read the root")
}

fn users(store: &Store) -> Diagnosis {
    match store.live_writers() {
        Ok(writers) if writers.is_empty() => {
            Diagnosis::ok("processes", "no process records to this root now")
        }
        Ok(writers) => Diagnosis::ok(
            "processes",
            match writers.len() {
                1 => "1 process records to this root now".to_owned(),
                n => format!("{n} processes record to this root now"),
            },
        ),
        Err(error) => Diagnosis::wrong("processes", error.to_string(), NOT_READABLE),
    }
}

fn space(root: &Path) -> Diagnosis {
    let existing = root.ancestors().find(|dir| dir.exists());
    match existing.map(free_bytes) {
        Some(Ok(free)) if free < LITTLE_SPACE => {
            let found = format!("{} MiB free", free >> 20);
            let advice = "free disk space, or remove old sessions with `spanledger prune`";
            Diagnosis::wrong("disk space", found, advice)
        }
        Some(Ok(free)) => Diagnosis::ok("disk space", format!("{} MiB free", free >> 20)),
        Some(Err(error)) => {
            Diagnosis::warning("disk space", error.to_string(), "check it with `df`")
        }
        None => Diagnosis::warning("disk space", "not known", "check it with `df`"),
    }
}

/// The bytes that an unprivileged user can write.
fn free_bytes(dir: &Path) -> io::Result<u64> {
    let stat = rustix::fs::statvfs(dir)?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

fn clock(store: &Store, now: u64) -> Diagnosis {
    let advice = "set the clock, for example with NTP: times and ages in the trace depend on it";
    if now < RECENT_NS {
        return Diagnosis::wrong("clock", "the clock is before 2024", advice);
    }
    let newest = store.newest().ok().and_then(|mut newest| newest.next());
    match newest.map(|entry| entry.summary.last) {
        Some(last) if last > now.saturating_add(SKEW_NS) => {
            let seconds = (last - now) / 1_000_000_000;
            let found = format!("the newest line is {seconds} s in the future");
            Diagnosis::wrong("clock", found, advice)
        }
        _ => Diagnosis::ok("clock", "sane"),
    }
}

/// Checks variables that turn recording or export off. `variables` are those of the agent's environment.
///
/// ```
/// use spanledger::session::{CheckHealth, diagnose_environment};
/// let checks = diagnose_environment(&[("SPANLEDGER_DISABLED".into(), "true".into())]);
/// assert_eq!(checks[0].health, CheckHealth::Wrong);
/// ```
pub fn diagnose_environment(variables: &[(String, String)]) -> Vec<Diagnosis> {
    let get = |name: &str| {
        let found = variables.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    };
    let is_on = |name: &str| {
        let value = get(name).unwrap_or_default().to_ascii_lowercase();
        matches!(value.as_str(), "1" | "true" | "yes" | "on")
    };
    let mut checks = Vec::new();
    if is_on("SPANLEDGER_DISABLED") {
        let found = "SPANLEDGER_DISABLED turns recording off";
        checks.push(Diagnosis::wrong(
            "recording",
            found,
            "unset SPANLEDGER_DISABLED",
        ));
    }
    for (name, _) in variables {
        if name.starts_with("SPANLEDGER_") && !VARIABLES.contains(&name.as_str()) {
            let found = format!("{name} is not a variable of spanledger");
            let advice = format!("use one of {}", VARIABLES.join(", "));
            checks.push(Diagnosis::warning("environment", found, &advice));
        }
    }
    if let Some(filter) = get("RUST_LOG").filter(|filter| turns_off(filter)) {
        let found = format!("RUST_LOG={filter} turns agent spans off, if it is a global filter");
        let advice =
            "filter your fmt layer only: fmt::layer().with_filter(EnvFilter::from_default_env())";
        checks.push(Diagnosis::warning("filter", found, advice));
    }
    if is_on("OTEL_SDK_DISABLED") {
        let found = "OTEL_SDK_DISABLED turns the export off";
        checks.push(Diagnosis::wrong("export", found, "unset OTEL_SDK_DISABLED"));
    }
    if checks.is_empty() {
        checks.push(Diagnosis::ok(
            "environment",
            "no variable turns recording off",
        ));
    }
    checks
}

/// Whether an `EnvFilter` directive list turns the target `spanledger` off at INFO.
fn turns_off(filter: &str) -> bool {
    // Directives about spans and fields are not about a whole target.
    let is_plain = |directive: &&str| !directive.is_empty() && !directive.contains('[');
    let directives = filter.split(',').map(str::trim).filter(is_plain);
    let directives = directives.collect::<Vec<_>>().join(",");
    let targets: Targets = directives.parse().unwrap_or_default();
    !filter.trim().is_empty() && !targets.would_enable("spanledger", &Level::INFO)
}

#[cfg(test)]
mod tests;
