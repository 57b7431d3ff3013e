//! Several processes in one root: every segment has one sender, whichever process dies.

use std::fs::File;
use std::path::Path;

use opentelemetry_proto::tonic::common::v1::any_value::Value;
use spanledger::mirror::{CatchUp, Otlp, Protocol};
use spanledger::spans;

use crate::live::setup::{
    Sending, assert_mirrored, by_id, closed, markers, spans_in, to, until, until_all_gone,
    wait_for_spans,
};
use crate::support::Trace;
use crate::support::agent::Agent;
use crate::support::otlp_server::{OtlpServer, Received, Reply};

fn agent(root: &Path, server: &OtlpServer) -> Agent {
    // The default protocol depends on the port.
    let otlp = format!("otlp={}", server.url());
    Agent::with(root, &[&otlp, "service=the-dead"])
}

/// As those agents send.
fn over_http(server: &OtlpServer) -> Otlp {
    to(&server.url()).protocol(Protocol::HttpProtobuf)
}

/// A run that a dead agent left open, and the lock of another process that is about to send it.
fn left_to_another(root: &Path, server: &OtlpServer) -> File {
    let mut victim = agent(root, server);
    victim.send(&["run r ses_1"]);
    victim.kill();
    let other = File::create(root.join("mirror.lock")).unwrap();
    other.lock().unwrap();
    other
}

/// The next start, over the same protocol and so for the same endpoint.
fn next(root: &Path, server: &OtlpServer) {
    let otlp = over_http(server);
    let next = Sending::with(root, |b| b.otlp(otlp).resource("service.name", "the-next"));
    next.end();
}

fn services(received: &[Received]) -> Vec<String> {
    let requests = received.iter().filter_map(|one| one.request.as_ref());
    let resources = requests.flat_map(|request| &request.resource_spans);
    let mut names: Vec<_> = resources
        .flat_map(|spans| spans.resource.as_ref().unwrap().attributes.clone())
        .filter(|attribute| attribute.key == "service.name")
        .map(|attribute| match attribute.value.unwrap().value.unwrap() {
            Value::StringValue(name) => name,
            other => panic!("{other:?}"),
        })
        .collect();
    names.dedup();
    names
}

#[test]
fn next_start_sends_a_killed_agents_spans() {
    let root = tempfile::tempdir().unwrap();
    let server = OtlpServer::start();
    let mut victim = agent(root.path(), &server);
    victim.send(&[
        "run r ses_1",
        "turn t r",
        "tool x t 10",
        "finish x",
        "tool y t 10",
    ]);
    wait_for_spans(&server, 1);
    victim.kill();
    assert_eq!(markers(root.path()), ["ses_1.0001"]);

    next(root.path(), &server);
    let received = server.received();
    assert_eq!(by_id(&received).len(), 4);
    assert_mirrored(root.path(), &received);
    let interrupted = spans_in(&received).into_iter().filter(|span| {
        let status = span.status.as_ref().unwrap();
        status.message.contains("interrupted")
    });
    assert_eq!(interrupted.count(), 3);
    assert_eq!(services(&received), ["the-dead"]);
    assert_eq!(markers(root.path()), [""; 0]);
}

#[test]
fn other_sender_keeps_a_dead_agents_segments() {
    let root = tempfile::tempdir().unwrap();
    let server = OtlpServer::start();
    let other = left_to_another(root.path(), &server);
    let otlp = over_http(&server);
    let second = Sending::with(root.path(), |b| b.otlp(otlp));
    second.session("ses_2", 0);
    second.end();
    // Its own was sent, and nothing else.
    assert_eq!(by_id(&server.received()).len(), 1);
    assert_eq!(markers(root.path()), ["ses_1.0001"]);
    assert_eq!(Trace::read(root.path()).all("interrupted").len(), 0);
    other.unlock().unwrap();
    next(root.path(), &server);
    assert_mirrored(root.path(), &server.received());
    assert_eq!(markers(root.path()), [""; 0]);
}

#[test]
fn dead_agents_spans_are_pending_in_health() {
    let root = tempfile::tempdir().unwrap();
    let server = OtlpServer::scripted(std::iter::repeat_n(Reply::http(503), 1000));
    let mut victim = agent(root.path(), &server);
    victim.ask("work ses_1 5");
    victim.kill();
    let otlp = over_http(&server);
    let next = Sending::with(root.path(), |b| b.otlp(otlp));
    until(|| next.guard.health().mirror.unwrap().owed_bytes > 0);
    let mirror = next.end().mirror.unwrap();
    assert_eq!(mirror.sent, 0);
    assert!(mirror.owed_bytes > 0);
}

#[test]
#[cfg(target_os = "linux")]
fn without_endpoint_there_is_no_thread() {
    let root = tempfile::tempdir().unwrap();
    let server = OtlpServer::start();
    let orders = ["run r ses_1", "finish r"];
    let mut silent = Agent::start(root.path());
    silent.send(&orders);
    assert_eq!(silent.threads(), ["test-agent"]);
    let mut sends = agent(root.path(), &server);
    sends.send(&orders);
    // A thread takes its name when it runs, and the kernel keeps fifteen bytes of it.
    until(|| sends.threads() == ["spanledger-mirr", "test-agent"]);
}

#[test]
fn unreadable_session_does_not_block_others() {
    let root = tempfile::tempdir().unwrap();
    let server = OtlpServer::start();
    let mut victim = agent(root.path(), &server);
    victim.send(&["run r ses_1"]);
    victim.kill();
    // A pending session that sorts first, and whose segment is not a file.
    let odd = root.path().join("sessions/a");
    std::fs::create_dir_all(odd.join("trace.0001.jsonl")).unwrap();
    std::fs::write(root.path().join("outbox/a.0001"), "").unwrap();

    next(root.path(), &server);
    assert_eq!(markers(root.path()), ["a.0001"]);
    std::fs::remove_dir_all(odd).unwrap();
    assert_eq!(by_id(&server.received()).len(), 1);
    assert_mirrored(root.path(), &server.received());
}

#[test]
fn open_spans_of_the_dead_stay_pending() {
    let root = tempfile::tempdir().unwrap();
    let server = OtlpServer::start();
    let mut victim = agent(root.path(), &server);
    victim.send(&["run r ses_1", "tool x r 10", "finish x"]);
    victim.kill();
    let otlp = over_http(&server);
    let resolved = Otlp::resolve(Some(otlp), |_| None).unwrap().unwrap();
    CatchUp::new(root.path(), resolved)
        .run(&mut |_, _| {})
        .unwrap();
    assert_eq!(by_id(&server.received()).len(), 1);
    assert_eq!(markers(root.path()), ["ses_1.0001"]);
    next(root.path(), &server);
    assert_eq!(by_id(&server.received()).len(), 2);
    assert_mirrored(root.path(), &server.received());
    assert_eq!(markers(root.path()), [""; 0]);
}

#[test]
fn recovered_by_a_process_without_mirror_is_sent() {
    let root = tempfile::tempdir().unwrap();
    let server = OtlpServer::start();
    let mut victim = agent(root.path(), &server);
    victim.send(&["run r ses_1"]);
    victim.kill();
    // The session resumes without a mirror, which recovers the dead writer's spans.
    let mut other = Agent::start(root.path());
    other.send(&["run again ses_1", "finish again"]);
    other.exit("exit");
    assert_eq!(markers(root.path()), ["ses_1.0001", "ses_1.0002"]);

    next(root.path(), &server);
    let received = server.received();
    let names: Vec<_> = spans_in(&received)
        .into_iter()
        .map(|s| s.status.unwrap().message)
        .collect();
    // The other process's own run has no endpoint.
    assert_eq!(names, ["interrupted: writer gone"]);
    assert_eq!(services(&received), ["the-dead"]);
    assert_eq!(markers(root.path()), [""; 0]);
}

#[test]
fn recorded_without_endpoint_is_not_sent() {
    let root = tempfile::tempdir().unwrap();
    let server = OtlpServer::start();
    let mut victim = Agent::start(root.path());
    victim.send(&["run r ses_1"]);
    victim.kill();
    let next = Sending::to(root.path(), &server.url());
    next.run(|| drop(spans::session_run("ses_1", "planner").start()));
    next.end();
    assert_eq!(Trace::read(root.path()).all("interrupted").len(), 1);
    assert_eq!(by_id(&server.received()).len(), 1);
}

#[test]
fn other_endpoint_is_left_alone() {
    let root = tempfile::tempdir().unwrap();
    let (here, there) = (OtlpServer::start(), OtlpServer::start());
    let mut victim = agent(root.path(), &here);
    victim.send(&["run r ses_1"]);
    victim.kill();
    Sending::to(root.path(), &there.url()).end();
    assert_eq!(there.received().len(), 0);
    assert_eq!(markers(root.path()), ["ses_1.0001"]);
    next(root.path(), &here);
    assert_mirrored(root.path(), &here.received());
    assert_eq!(here.received().len(), 1);
}

#[test]
fn corrected_protocol_sends_what_was_recorded_before() {
    let root = tempfile::tempdir().unwrap();
    let server = OtlpServer::scripted([Reply::Hang]);
    // Over HTTP and below a path, with no answer.
    let otlp = format!("otlp={}/wrong", server.url());
    let mut victim = Agent::with(root.path(), &[&otlp]);
    victim.send(&["run r ses_1", "tool x r 10", "finish x"]);
    server.wait_for(1);
    victim.kill();
    // The next start speaks gRPC to the same host and port.
    Sending::to(root.path(), &server.url()).end();
    let received = server.received();
    assert_eq!(by_id(&received).len(), 2);
    assert_mirrored(root.path(), &received);
    let grpc = received.last().unwrap();
    assert!(grpc.path.ends_with("TraceService/Export"), "{}", grpc.path);
    assert_eq!(markers(root.path()), [""; 0]);
    // Nothing is left for a third spelling, so nothing is sent twice.
    let before = server.received().len();
    next(root.path(), &server);
    assert_eq!(server.received().len(), before);
}

#[test]
fn resumed_session_of_a_corrected_endpoint_is_sent() {
    let root = tempfile::tempdir().unwrap();
    let server = OtlpServer::start();
    // The mirror thread doesn't recover, so that the resumed session does.
    let other = left_to_another(root.path(), &server);
    let agent = Sending::to(root.path(), &server.url());
    agent.session("ses_1", 0);
    let mirror = agent.end().mirror.unwrap();
    assert_eq!((mirror.sent, mirror.owed_bytes), (2, 0));
    assert_mirrored(root.path(), &server.received());
    assert_eq!(markers(root.path()), ["ses_1.0001"]);
    drop(other);
}

#[test]
fn two_agents_in_one_session_send_once() {
    let root = tempfile::tempdir().unwrap();
    let server = OtlpServer::start();
    let mut one = agent(root.path(), &server);
    let mut two = agent(root.path(), &server);
    for round in 0..10 {
        one.order(&format!("work ses_{} 5", round % 3));
        two.order(&format!("work ses_{} 5", round % 3));
        one.answer("work");
        two.answer("work");
    }
    two.send(&["run open ses_1"]);
    one.exit("exit");
    two.kill();
    next(root.path(), &server);
    let received = server.received();
    assert_mirrored(root.path(), &received);
    assert_eq!(markers(root.path()), [""; 0]);
}

#[test]
fn forked_child_does_not_disturb_its_parent() {
    let root = tempfile::tempdir().unwrap();
    let server = OtlpServer::start();
    let mut parent = agent(root.path(), &server);
    parent.send(&["run r ses_parent", "tool a r 10", "finish a"]);
    wait_for_spans(&server, 1);
    let mut child = parent.fork();
    child.send(&["run c ses_child", "finish c", "drop-guard"]);
    parent.send(&["tool b r 10", "finish b", "finish r", "drop-guard"]);
    wait_for_spans(&server, 3);
    assert_mirrored(root.path(), &server.received());
    assert_eq!(markers(root.path()), [""; 0]);
    child.exit("_exit");
    parent.exit("exit");
}

#[test]
fn repeated_crashes_lose_nothing() {
    let root = tempfile::tempdir().unwrap();
    // An address that no other test can take meanwhile.
    let first = OtlpServer::at("127.0.0.2:0".parse().unwrap(), []);
    let address = first.address();
    let mut received = Vec::new();
    let mut server = Some(first);
    for round in 0..6 {
        let broken = [Reply::ResetAfter(1), Reply::ResetAfter(100)];
        let up = server.take();
        let up = up.unwrap_or_else(|| OtlpServer::at(address, broken));
        let mut victim = agent(root.path(), &up);
        victim.ask(&format!("work ses_{round} 20"));
        victim.send(&[&format!("run open{round} ses_open")]);
        // In every other round the server goes first.
        if round % 2 == 0 {
            received.extend(up.stop());
            victim.ask(&format!("work ses_{round} 20"));
            victim.kill();
        } else {
            victim.kill();
            received.extend(up.stop());
        }
    }
    let last = OtlpServer::at(address, []);
    next(root.path(), &last);
    received.extend(last.stop());
    assert_mirrored(root.path(), &received);
    // A kill between the creation of a segment and its first line leaves an empty one. Its marker stays for a
    // minute, because its writer could still be alive.
    let mut unsent = markers(root.path());
    unsent.retain(|marker| {
        let (session, number) = marker.rsplit_once('.').unwrap();
        let segment = format!("sessions/{session}/trace.{number}.jsonl");
        std::fs::metadata(root.path().join(segment)).unwrap().len() > 0
    });
    assert_eq!(unsent, [""; 0]);
}

#[test]
fn unreadable_segment_is_sent_later() {
    let root = tempfile::tempdir().unwrap();
    let server = OtlpServer::start();
    let other = left_to_another(root.path(), &server);
    let otlp = over_http(&server);
    let otlp = otlp.linger(std::time::Duration::from_secs(3600));
    let second = Sending::with(root.path(), |b| b.otlp(otlp));
    // Closes what the dead one left open.
    second.session("ses_1", 0);
    let first = root.path().join("sessions/ses_1/trace.0001.jsonl");
    let aside = root.path().join("aside");
    std::fs::rename(&first, &aside).unwrap();
    std::fs::create_dir(&first).unwrap();
    second.end();
    other.unlock().unwrap();
    until_all_gone(root.path());

    std::fs::remove_dir(&first).unwrap();
    std::fs::rename(&aside, &first).unwrap();
    next(root.path(), &server);
    assert_mirrored(root.path(), &server.received());
}

#[test]
fn reused_session_name_is_sent_separately() {
    let root = tempfile::tempdir().unwrap();
    // An address that no other test can take meanwhile.
    let server = OtlpServer::at("127.0.0.4:0".parse().unwrap(), []);
    let (address, otlp) = (server.address(), format!("otlp={}", server.url()));
    let to = over_http(&server);
    drop(server);
    let mut victim = Agent::with(root.path(), &[&otlp, "service=the-first"]);
    victim.send(&["run a ses_0"]);
    victim.ask("work ses_1 1");
    victim.kill();
    let next = Sending::with(root.path(), |b| b.otlp(to));
    until(|| next.guard.health().mirror.unwrap().waiting_for.is_some());
    // What the first one left is read, and waits for the server.
    std::fs::remove_dir_all(root.path().join("sessions/ses_1")).unwrap();
    let mut victim = Agent::with(root.path(), &[&otlp, "service=the-second"]);
    victim.ask("work ses_1 5");
    victim.kill();
    let server = OtlpServer::at(address, []);
    next.end();
    let received = server.received();
    let sent = by_id(&received);
    for id in closed(root.path()) {
        assert!(sent.contains_key(&id), "{id}");
    }
    assert_eq!(services(&received), ["the-first", "the-second"]);
    assert_eq!(markers(root.path()), [""; 0]);
}

#[test]
fn removed_session_does_not_affect_its_successor() {
    let root = tempfile::tempdir().unwrap();
    // An address that no other test can take meanwhile.
    let server = OtlpServer::at("127.0.0.5:0".parse().unwrap(), []);
    let (address, otlp) = (server.address(), format!("otlp={}", server.url()));
    let to = over_http(&server);
    drop(server);
    let agent = Sending::with(root.path(), |b| b.otlp(to.clone()));
    agent.session("ses_1", 3);
    until(|| agent.guard.health().mirror.unwrap().waiting_for.is_some());
    std::fs::remove_dir_all(root.path().join("sessions/ses_1")).unwrap();
    let mut victim = Agent::with(root.path(), &[&otlp, "service=the-second"]);
    victim.ask("work ses_1 20");
    victim.kill();
    let server = OtlpServer::at(address, []);
    agent.end();
    assert_eq!(markers(root.path()), ["ses_1.0001"]);
    until_all_gone(root.path());

    Sending::with(root.path(), |b| b.otlp(to)).end();
    let sent = by_id(&server.received());
    for id in closed(root.path()) {
        assert!(sent.contains_key(&id), "{id}");
    }
    assert_eq!(markers(root.path()), [""; 0]);
}
