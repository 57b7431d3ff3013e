//! An agent that is measured, and the metrics that its server received.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point;
use opentelemetry_proto::tonic::metrics::v1::{HistogramDataPoint, Metric, NumberDataPoint};
use spanledger::mirror::{Otlp, Protocol};
use spanledger::{Builder, Failure, Outcome, SpanExt, Usage, spans};

use crate::support::Recording;
use crate::support::otlp_server::{OtlpServer, Received};

pub const TOKENS: &str = "gen_ai.client.token.usage";
pub const OPERATION: &str = "gen_ai.client.operation.duration";
pub const TOOL: &str = "gen_ai.execute_tool.duration";
pub const AGENT: &str = "gen_ai.invoke_agent.duration";

/// Far longer than anything here takes.
pub const LONG: Duration = Duration::from_secs(60);

pub fn to(server: &OtlpServer, protocol: Protocol) -> Otlp {
    Otlp::new().endpoint(server.url()).protocol(protocol)
}

/// An agent that sends metrics, and nothing else, when it shuts down.
pub fn metered(server: &OtlpServer, protocol: Protocol) -> Recording {
    let otlp = to(server, protocol);
    Recording::with(|builder| only_metrics(builder, otlp))
}

pub fn only_metrics(builder: Builder, otlp: Otlp) -> Builder {
    let builder = builder.mirror(false).metrics(true).metrics_otlp(otlp);
    builder.shutdown_timeout(LONG)
}

/// A run with two model calls, and tools that go well, fail, and are denied.
pub fn agent() {
    let run = spans::session_run("ses_1", "planner")
        .model("anthropic", "claude-sonnet-4-5")
        .start();
    let _run = run.enter();
    for (input, output) in [(1200, 80), (1300, 5)] {
        let model = spans::model_call("anthropic", "claude-sonnet-4-5").start();
        model.record_usage(&Usage {
            input_tokens: Some(input),
            output_tokens: Some(output),
            cache_read_tokens: Some(1000),
            ..Usage::default()
        });
        model.finish(Outcome::Ok);
    }
    let ok = spans::tool_call("bash", "call_1").start();
    ok.finish(Outcome::Ok);
    let failed = spans::tool_call("bash", "call_2").start();
    failed.record_failure(&Failure::new("TimedOut", "it took too long"));
    failed.finish(Outcome::Error);
    let denied = spans::tool_call("write", "call_3").start();
    denied.finish(Outcome::Denied);
    run.finish(Outcome::Ok);
}

/// A metric of a request.
pub fn found<'a>(request: &'a Received, name: &str) -> Option<&'a Metric> {
    let metrics = request.metrics.as_ref().expect("metrics");
    let resources = metrics.resource_metrics.iter();
    let scopes = resources.flat_map(|resource| &resource.scope_metrics);
    let mut named = scopes
        .flat_map(|scope| &scope.metrics)
        .filter(|metric| metric.name == name);
    let metric = named.next();
    assert!(named.next().is_none(), "{name} is there twice");
    metric
}

pub fn metric<'a>(request: &'a Received, name: &str) -> &'a Metric {
    found(request, name).unwrap_or_else(|| panic!("no {name}"))
}

pub fn histogram<'a>(request: &'a Received, name: &str) -> &'a [HistogramDataPoint] {
    match &metric(request, name).data {
        Some(Data::Histogram(histogram)) => &histogram.data_points,
        other => panic!("{name} is {other:?}"),
    }
}

pub fn number(request: &Received, name: &str) -> u64 {
    let points: &[NumberDataPoint] = match &metric(request, name).data {
        Some(Data::Sum(sum)) => {
            assert!(sum.is_monotonic, "{name}");
            &sum.data_points
        }
        Some(Data::Gauge(gauge)) => &gauge.data_points,
        other => panic!("{name} is {other:?}"),
    };
    let [point] = points else {
        panic!("{name} has {points:?}")
    };
    match point.value {
        Some(number_data_point::Value::AsInt(value)) => u64::try_from(value).unwrap(),
        other => panic!("{name} is {other:?}"),
    }
}

pub fn text(value: &KeyValue) -> &str {
    match value.value.as_ref().and_then(|value| value.value.as_ref()) {
        Some(Value::StringValue(text)) => text,
        other => panic!("{} is {other:?}", value.key),
    }
}

/// Attributes in one line, sorted.
pub fn attribute_text(attributes: &[KeyValue]) -> String {
    let attribute_text = attributes.iter().map(|a| format!("{}={}", a.key, text(a)));
    let attribute_text: BTreeSet<String> = attribute_text.collect();
    attribute_text.into_iter().collect::<Vec<_>>().join(" ")
}

/// How often something was measured, by its attributes.
pub fn counts(request: &Received, name: &str) -> BTreeMap<String, u64> {
    let points = histogram(request, name).iter();
    points
        .map(|p| (attribute_text(&p.attributes), p.count))
        .collect()
}

pub fn of<const N: usize>(counts: [(&str, u64); N]) -> BTreeMap<String, u64> {
    counts
        .map(|(attribute_text, count)| (attribute_text.to_owned(), count))
        .into()
}

/// Asserts that the request has the measurements of [`agent`], once.
pub fn assert_measures_the_agent(request: &Received) {
    let call = "gen_ai.operation.name=chat gen_ai.provider.name=anthropic \
                gen_ai.request.model=claude-sonnet-4-5";
    assert_eq!(counts(request, OPERATION), of([(call, 2)]));
    let input = format!("{call} gen_ai.token.type=input");
    let output = format!("{call} gen_ai.token.type=output");
    assert_eq!(counts(request, TOKENS), of([(&input, 2), (&output, 2)]));
    let planner = "gen_ai.agent.name=planner";
    let tools = of([
        (&format!("{planner} gen_ai.tool.name=bash"), 1),
        (
            &format!("error.type=TimedOut {planner} gen_ai.tool.name=bash"),
            1,
        ),
        (&format!("{planner} gen_ai.tool.name=write"), 1),
    ]);
    assert_eq!(counts(request, TOOL), tools);
    let run = format!("{planner} gen_ai.request.model=claude-sonnet-4-5");
    assert_eq!(counts(request, AGENT), of([(&run, 1)]));
}

/// The only request that came.
#[track_caller]
pub fn only(server: &OtlpServer) -> Received {
    let [request] = <[_; 1]>::try_from(server.received()).unwrap();
    request
}
