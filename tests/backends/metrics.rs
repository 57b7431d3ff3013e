//! The real collector accepts the metrics and serves them to Prometheus.

use spanledger::mirror::{Otlp, Protocol};

use crate::support::Recording;
use crate::support::backends::{Collector, get, until};
use crate::support::metrics::*;

/// The value of the only line that has all of these.
fn value(page: &str, name: &str, has: &[&str]) -> Option<f64> {
    let mut lines = page.lines().filter(|line| {
        line.split(['{', ' ']).next() == Some(name) && has.iter().all(|has| line.contains(has))
    });
    let line = lines.next()?;
    assert!(lines.next().is_none(), "{name} {has:?} twice:\n{page}");
    line.rsplit(' ').next()?.parse().ok()
}

fn arrive_over(protocol: Protocol, service: &str) {
    let Some(collector) = Collector::alone() else {
        return;
    };
    let endpoint = match protocol {
        Protocol::Grpc => &collector.grpc,
        _ => &collector.http,
    };
    let otlp = Otlp::new().endpoint(endpoint).protocol(protocol);
    let recording =
        Recording::with(|builder| only_metrics(builder, otlp).resource("service.name", service));
    recording.run(agent);
    let health = recording.guard.shutdown().unwrap();
    assert_eq!(health.metrics.unwrap().sent, 1);

    let page = until("the metrics", || {
        let page = String::from_utf8(get(&collector.metrics)?).unwrap();
        page.contains("spanledger_events_written").then_some(page)
    });
    let job = format!("job=\"{service}\"");
    let value = |name: &str, has: &[&str]| {
        let has: Vec<&str> = has.iter().copied().chain([&*job]).collect();
        value(&page, name, &has).unwrap_or_else(|| panic!("no {name} {has:?}:\n{page}"))
    };
    let tokens = "gen_ai_client_token_usage";
    let input = r#"gen_ai_token_type="input""#;
    assert_eq!(value(&format!("{tokens}_sum"), &[input]), 2500.0);
    assert_eq!(
        value(&format!("{tokens}_bucket"), &[input, r#"le="1024""#]),
        0.0
    );
    assert_eq!(
        value(&format!("{tokens}_bucket"), &[input, r#"le="4096""#]),
        2.0
    );
    let calls = "gen_ai_client_operation_duration_seconds_count";
    assert_eq!(value(calls, &[r#"gen_ai_operation_name="chat""#]), 2.0);
    let tools = "gen_ai_execute_tool_duration_seconds_count";
    assert_eq!(value(tools, &[r#"error_type="TimedOut""#]), 1.0);
    assert_eq!(value(tools, &[r#"gen_ai_tool_name="write""#]), 1.0);
    let runs = "gen_ai_invoke_agent_duration_seconds_count";
    assert_eq!(value(runs, &[r#"gen_ai_agent_name="planner""#]), 1.0);
    let written = value("spanledger_events_written_total", &[]);
    assert_eq!(written, health.written as f64);
}

#[test]
fn collector_accepts_metrics_over_grpc() {
    arrive_over(Protocol::Grpc, "metered-grpc");
}

#[test]
fn collector_accepts_metrics_over_http() {
    arrive_over(Protocol::HttpProtobuf, "metered-http");
}
