//! The mirror's settings in the first line of a segment.

use serde_json::{Value, json};
use spanledger::Error;
use spanledger::mirror::Otlp;

use crate::live::setup::Sending;
use crate::support::child;
use crate::support::{LineExt, Recording, Trace};

fn first_line(configure: impl FnOnce(spanledger::Builder) -> spanledger::Builder) -> Value {
    let root = tempfile::tempdir().unwrap();
    let agent = Sending::with(root.path(), |builder| {
        configure(builder).shutdown_timeout(std::time::Duration::ZERO)
    });
    agent.session("ses_1", 0);
    agent.end();
    let trace = Trace::read(root.path());
    Value::Object(trace.one("segment").payload.clone())
}

#[test]
fn has_endpoint_and_limits_without_password() {
    let otlp = Otlp::new()
        .endpoint("http://me:hunter2@127.0.0.1:1/here?key=hunter2")
        .header("authorization", "Bearer hunter2")
        .content(true)
        .value_length_limit(100);
    let line = first_line(|builder| builder.otlp(otlp));
    let expected = json!({
        "endpoint": "http://127.0.0.1:1/here/v1/traces",
        "content": true,
        "limits": {"attribute_length": 100},
        "mapping": 1,
    });
    assert_eq!(line["mirror"], expected);
    assert!(!line.to_string().contains("hunter2"));
}

#[test]
fn has_the_settings_of_attribute_names() {
    let otlp = Otlp::new()
        .endpoint("http://127.0.0.1:1")
        .cache_write_name(true)
        .usage_cost(true);
    let line = first_line(|builder| builder.otlp(otlp));
    assert_eq!(line["mirror"]["cache_write_name"], true);
    assert_eq!(line["mirror"]["usage_cost"], true);
}

#[test]
fn endpoint_set_last_keeps_other_settings() {
    let otlp = Otlp::new().content(true);
    let line = first_line(|builder| builder.otlp(otlp).otlp_endpoint("http://127.0.0.1:1"));
    assert_eq!(line["mirror"]["content"], true);
}

#[test]
fn no_endpoint_means_no_mirror_in_health() {
    let recording = Recording::new();
    recording.run(|| drop(spanledger::spans::session_run("ses_1", "planner").start()));
    assert_eq!(recording.guard.health().mirror, None);
    assert_eq!(recording.trace().one("segment").get("mirror"), &Value::Null);
    assert!(!recording.dir.path().join("outbox").exists());
}

#[test]
fn invalid_endpoint_is_an_error_at_build() {
    let root = tempfile::tempdir().unwrap();
    let builder = spanledger::builder().root(root.path());
    let built = builder.otlp_endpoint("ftp://nowhere").try_init();
    assert!(matches!(built, Err(Error::Otlp { .. })), "{built:?}");
}

#[test]
fn disabled_in_code_sends_nothing() {
    let line = first_line(|builder| builder.otlp_endpoint("http://127.0.0.1:1").mirror(false));
    assert_eq!(line.get("mirror"), None);
}

#[test]
fn code_overrides_environment_resource() {
    if let Ok(root) = std::env::var("SPANLEDGER_TEST_ROOT") {
        let agent = Sending::with(root.as_ref(), |builder| {
            builder.resource("deployment.environment.name", "code")
        });
        agent.session("ses_1", 0);
        agent.end();
        return;
    }
    let root = tempfile::tempdir().unwrap();
    let done = child::calling_test()
        .env("SPANLEDGER_TEST_ROOT", root.path())
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
        .env("OTEL_SERVICE_NAME", "planner 100%25")
        .env(
            "OTEL_RESOURCE_ATTRIBUTES",
            "deployment.environment.name=env,team=a%20b%2Cc,service.name=other",
        )
        .output();
    assert!(done.unwrap().status.success());
    let trace = Trace::read(root.path());
    let endpoint = trace.one("segment").text("mirror.endpoint");
    assert_eq!(endpoint, "http://127.0.0.1:1/v1/traces");
    let resource = trace.one("segment").get("resource");
    assert_eq!(resource["service.name"], "planner 100%25");
    assert_eq!(resource["deployment.environment.name"], "code");
    assert_eq!(resource["team"], "a b,c");
    assert_eq!(resource["telemetry.sdk.name"], "spanledger");
    assert_eq!(resource["telemetry.sdk.language"], "rust");
    let keys: Vec<_> = resource.as_object().unwrap().keys().collect();
    assert!(keys.is_sorted(), "{keys:?}");
}
