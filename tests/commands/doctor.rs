//! `spanledger doctor`.

use std::os::unix::fs::PermissionsExt;

use serde_json::Value;

use crate::mirror::endpoints::record_for;
use crate::support::Recording;
use crate::support::agent::Agent;
use crate::support::cli::{self, Done};
use crate::support::is_root;
use crate::support::otlp_server::{OtlpServer, Reply};
use crate::support::skipped::skipped;

fn doctor(root: &std::path::Path, variables: &[(&str, &str)]) -> Done {
    doctor_with(root, &["--json"], variables)
}

fn doctor_with(root: &std::path::Path, options: &[&str], variables: &[(&str, &str)]) -> Done {
    let mut command = cli::spanledger(root);
    command.arg("doctor").args(options);
    for name in ["RUST_LOG", "OTEL_SDK_DISABLED"] {
        command.env_remove(name);
    }
    // The variables that name the programs of other tests are not settings of spanledger.
    for (name, _) in std::env::vars_os() {
        let is_ours = name.to_string_lossy().starts_with("SPANLEDGER_");
        if is_ours && name != "SPANLEDGER_DIR" {
            command.env_remove(name);
        }
    }
    command.envs(variables.iter().copied());
    command.output().unwrap().into()
}

fn health(done: &Done, check: &str) -> (String, Value) {
    let objects = done.objects();
    let found = objects.iter().find(|object| object["check"] == check);
    let found = found.unwrap_or_else(|| panic!("no {check}: {done:?}"));
    let health = found["health"].as_str().unwrap().to_owned();
    (health, found.clone())
}

#[test]
fn sane_root_exits_0() {
    let recording = Recording::new();
    recording.handle().session("ses_1").title("one");
    let root = recording.dir.path();
    std::fs::set_permissions(root, std::fs::Permissions::from_mode(0o700)).unwrap();
    let done = doctor(root, &[]);
    assert_eq!(done.code, 0, "{done:?}");
    for check in [
        "root",
        "permissions",
        "processes",
        "disk space",
        "clock",
        "environment",
    ] {
        assert_eq!(health(&done, check).0, "ok", "{done:?}");
    }
    assert_eq!(health(&done, "endpoint").0, "ok");
    let (_, processes) = health(&done, "processes");
    assert!(
        processes["found"]
            .as_str()
            .unwrap()
            .starts_with("1 process records"),
        "{processes}"
    );
    let text = doctor_with(root, &[], &[]);
    assert_eq!(text.lines().len(), 7, "{text:?}");
}

#[test]
fn file_as_root_exits_1_with_advice() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("file");
    std::fs::write(&root, "").unwrap();
    let done = doctor(&root, &[]);
    assert_eq!(done.code, 1, "{done:?}");
    let (found, object) = health(&done, "root");
    assert_eq!(found, "wrong");
    assert!(
        object["advice"]
            .as_str()
            .unwrap()
            .contains("SPANLEDGER_DIR"),
        "{object}"
    );
}

#[test]
fn root_that_others_can_read_is_a_warning() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let done = doctor(dir.path(), &[]);
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(health(&done, "permissions").0, "warning");
}

#[test]
fn root_that_others_can_write_is_reported() {
    let recording = Recording::new();
    let root = recording.dir.path();
    assert_eq!(recording.guard.health().last_error, None);
    for path in [root.to_owned(), root.join("redaction.key")] {
        let before = path.metadata().unwrap().permissions();
        let mode = before.mode() | 0o020;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        let done = doctor(root, &[]);
        assert_eq!(done.code, 1, "{done:?}");
        let (found, object) = health(&done, "permissions");
        assert_eq!(found, "wrong");
        let advice = format!("chmod go-w {}", path.display());
        assert_eq!(object["advice"], advice, "{object}");
        let mut agent = Agent::start(root);
        let error = agent.health().last_error.unwrap();
        assert!(error.contains(path.to_str().unwrap()), "{error}");
        let stderr = agent.stderr();
        assert!(stderr.contains(&advice), "{stderr}");
        std::fs::set_permissions(&path, before).unwrap();
    }
}

#[test]
fn key_that_is_no_file_is_reported() {
    let recording = Recording::new();
    let root = recording.dir.path();
    let key = root.join("redaction.key");
    std::fs::rename(&key, root.join("elsewhere")).unwrap();
    std::os::unix::fs::symlink(root.join("elsewhere"), &key).unwrap();
    let done = doctor(root, &[]);
    assert_eq!(done.code, 1, "{done:?}");
    let (found, object) = health(&done, "permissions");
    assert_eq!(found, "wrong");
    let path = key.to_str().unwrap();
    assert!(object["found"].as_str().unwrap().contains(path), "{object}");
    let mut agent = Agent::start(root);
    assert!(agent.health().last_error.unwrap().contains(path));
    let stderr = agent.stderr();
    assert!(stderr.contains(path), "{stderr}");
}

#[test]
fn root_of_another_user_is_reported() {
    if !is_root() {
        return skipped("only root can give a directory to another user");
    }
    let dir = tempfile::tempdir().unwrap();
    std::os::unix::fs::chown(dir.path(), Some(12_345), None).unwrap();
    let done = doctor(dir.path(), &[]);
    assert_eq!(
        (done.code, health(&done, "permissions").0.as_str()),
        (1, "wrong")
    );
    let error = Agent::start(dir.path()).health().last_error.unwrap();
    assert!(error.contains("belongs to another user"), "{error}");
}

#[test]
fn variables_that_turn_recording_off_are_found() {
    let dir = tempfile::tempdir().unwrap();
    let done = doctor(dir.path(), &[("SPANLEDGER_DISABLED", "true")]);
    assert_eq!(done.code, 1, "{done:?}");
    assert_eq!(health(&done, "recording").0, "wrong");
    let done = doctor(dir.path(), &[("OTEL_SDK_DISABLED", "true")]);
    assert_eq!(
        (done.code, health(&done, "export").0.as_str()),
        (1, "wrong")
    );
    let done = doctor(dir.path(), &[("RUST_LOG", "warn"), ("SPANLEDGER_DRI", "x")]);
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(health(&done, "filter").0, "warning");
    assert_eq!(health(&done, "environment").0, "warning");
}

#[test]
fn settings_of_exports_are_known_variables() {
    let dir = tempfile::tempdir().unwrap();
    let export = ("SPANLEDGER_EXPORT", "trace-sqlite");
    let done = doctor(dir.path(), &[export, ("SPANLEDGER_OTLP_PATHS", "true")]);
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(health(&done, "environment").0, "ok", "{done:?}");
}

#[test]
fn unsent_spans_are_named_without_an_endpoint() {
    let dir = tempfile::tempdir().unwrap();
    record_for(dir.path(), "http://127.0.0.1:1", &["ses_1"]);
    let done = doctor(dir.path(), &[]);
    assert_eq!(done.code, 0, "{done:?}");
    let (health, check) = health(&done, "endpoint");
    assert_eq!(health, "warning");
    let found = check["found"].as_str().unwrap();
    assert!(found.starts_with("none is set here; "), "{found}");
    let end = " recorded for http://127.0.0.1:1/v1/traces are not sent yet";
    assert!(found.ends_with(end), "{found}");
}

#[test]
fn page_of_a_user_interface_is_recognized() {
    let dir = tempfile::tempdir().unwrap();
    for status in [200, 404] {
        let body = "<!doctype html>\n<html>\n<head>\n<title>Jaeger UI</title>";
        let page = Reply::Http {
            status,
            headers: Vec::new(),
            body: body.into(),
        };
        let server = OtlpServer::scripted([page]);
        let url = server.url();
        let done = doctor(dir.path(), &[("OTEL_EXPORTER_OTLP_ENDPOINT", &url)]);
        assert_eq!(done.code, 1, "{done:?}");
        let (_, check) = health(&done, "endpoint");
        let found = check["found"].as_str().unwrap();
        assert!(
            found.contains("an HTML page; is this the port of a user interface?"),
            "{found}"
        );
        assert!(
            !found.contains("Jaeger UI") && !found.contains('\n'),
            "{found}"
        );
    }
}

#[test]
fn endpoint_is_asked() {
    let dir = tempfile::tempdir().unwrap();
    let server = OtlpServer::start();
    let url = server.url();
    let done = doctor(dir.path(), &[("OTEL_EXPORTER_OTLP_ENDPOINT", &url)]);
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(health(&done, "endpoint").0, "ok");
    drop(server);
    let done = doctor(dir.path(), &[("OTEL_EXPORTER_OTLP_ENDPOINT", &url)]);
    assert_eq!(done.code, 1, "{done:?}");
    assert_eq!(health(&done, "endpoint").0, "wrong");
}
