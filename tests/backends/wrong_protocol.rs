//! The protocol doesn't fit the port of a real collector, Jaeger or Tempo, and is corrected.

use std::path::Path;
use std::time::Duration;

use spanledger::mirror::{Otlp, Protocol};
use spanledger::{Outcome, SpanExt, spans};

use crate::support::Recording;
use crate::support::backends::{Collector, Jaeger, Tempo, until};
use crate::support::cli::{self, Done};

fn command(root: &Path, protocol: &str, args: &[&str]) -> Done {
    let done = cli::spanledger(root)
        .env("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
        .args(args)
        .output();
    done.unwrap().into()
}

/// Records for a port with the wrong protocol, then sends with the right one.
fn correct(url: &str, (wrong, name): (Protocol, &str), right: &str) {
    let otlp = Otlp::new().endpoint(url).protocol(wrong);
    let recording = Recording::with(|builder| {
        let builder = builder.otlp(otlp.linger(Duration::ZERO));
        builder.shutdown_timeout(Duration::ZERO)
    });
    recording.run(|| {
        let run = spans::session_run("ses_1", "planner").start();
        run.finish(Outcome::Ok);
    });
    let set = format!("set OTEL_EXPORTER_OTLP_PROTOCOL={right} ");
    let waiting = until("the mirror's failure", || {
        recording.guard.health().mirror.unwrap().waiting_for
    });
    assert!(waiting.contains(&set), "{waiting}");
    let root = recording.end();
    let once = ["mirror", "--once", "--endpoint", url, "--patience"];
    for args in [
        &["doctor", "--endpoint", url][..],
        &[&once[..], &["0s"]].concat(),
    ] {
        let done = command(root.path(), name, args);
        assert_eq!(done.code, 1, "{done:?}");
        assert!((done.out.clone() + &done.err).contains(&set), "{done:?}");
    }
    let done = command(root.path(), right, &[&once[..], &["60s"]].concat());
    assert_eq!(done.code, 0, "{done:?}");
    assert!(done.out.starts_with("1 span sent"), "{done:?}");
}

#[test]
fn other_protocols_port_is_recognized() {
    let (Some(jaeger), Some(tempo)) = (Jaeger::shared(), Tempo::shared()) else {
        return;
    };
    let Some(collector) = Collector::shared() else {
        return;
    };
    let ports = [
        (&collector.grpc, &collector.http),
        (&jaeger.grpc, &jaeger.http),
        (&tempo.grpc, &tempo.http),
    ];
    for (grpc, http) in ports {
        correct(grpc, (Protocol::HttpProtobuf, "http/protobuf"), "grpc");
        correct(http, (Protocol::Grpc, "grpc"), "http/protobuf");
    }
}
