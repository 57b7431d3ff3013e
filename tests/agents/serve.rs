//! An agent that does what it is told over a socket, one line for each order and each answer.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::process::Resource;
use serde_json::json;
use spanledger::{Guard, Handle, Outcome, SpanExt, SyncPolicy, events, spans};
use tracing::Span;

use crate::many::{Many, burst};
use crate::system::{fill_files, limit, limit_files};

struct Agent {
    guard: Option<Guard>,
    handle: Handle,
    spans: HashMap<String, Span>,
    many: Many,
    taken: Vec<File>,
}

pub fn run(socket: &str, root: &str, settings: &[&str]) {
    let mut builder = spanledger::builder().root(root);
    for setting in settings {
        let (name, value) = setting.split_once('=').unwrap();
        match name {
            "segment" => builder = builder.segment_size(value.parse().unwrap()),
            "nofile" => limit(Resource::Nofile, value.parse().unwrap()),
            "sync" if value == "always" => builder = builder.sync(SyncPolicy::Always),
            "sync" => {
                let every = Duration::from_millis(value.parse().unwrap());
                builder = builder.sync(SyncPolicy::Interval(every));
            }
            "trace" => {
                let bytes = value.parse().unwrap();
                builder = builder.trace_limits(bytes, Duration::from_secs(3600));
            }
            "name" => {}
            "service" => builder = builder.resource("service.name", value),
            #[cfg(feature = "mirror")]
            "otlp" => {
                let otlp = spanledger::mirror::Otlp::new().endpoint(value);
                builder = builder.otlp(otlp.linger(Duration::ZERO));
            }
            #[cfg(feature = "metrics")]
            "metrics" => {
                let otlp = spanledger::mirror::Otlp::new().endpoint(value);
                builder = builder.metrics(true).metrics_otlp(otlp);
                builder = builder.shutdown_timeout(Duration::from_secs(60));
            }
            _ => panic!("no setting {name}"),
        }
    }
    let guard = builder.try_init().unwrap();
    let agent = Agent {
        handle: guard.handle(),
        guard: Some(guard),
        spans: HashMap::new(),
        many: Many::default(),
        taken: Vec::new(),
    };
    agent.serve(connect(socket));
}

fn connect(socket: &str) -> BufReader<UnixStream> {
    BufReader::new(UnixStream::connect(socket).unwrap())
}

impl Agent {
    fn serve(mut self, mut stream: BufReader<UnixStream>) {
        loop {
            let mut order = String::new();
            if stream.read_line(&mut order).unwrap() == 0 {
                return;
            }
            let words: Vec<&str> = order.split_whitespace().collect();
            if words == ["exit"] {
                return;
            }
            let answer = match words.as_slice() {
                ["fork", socket] => {
                    // SAFETY: nothing else runs in this process at this moment.
                    let pid = unsafe { libc::fork() };
                    assert!(pid >= 0);
                    if pid == 0 {
                        stream = connect(socket);
                        continue;
                    }
                    pid.to_string()
                }
                // SAFETY: ends this process, as a forked child that is done does.
                ["_exit"] => unsafe { libc::_exit(0) },
                words => self.obey(words),
            };
            let line = format!("{answer}\n");
            stream.get_mut().write_all(line.as_bytes()).unwrap();
        }
    }

    fn obey(&mut self, words: &[&str]) -> String {
        match *words {
            ["run", name, session] => {
                let run = spans::session_run(session, "agent").run_name(name).start();
                self.spans.insert(name.into(), run);
            }
            ["turn", name, parent] => {
                let turn = spans::session_turn()
                    .trigger(name)
                    .child_of(&self.spans[parent]);
                self.spans.insert(name.into(), turn.start());
            }
            ["tool", name, parent, size] => {
                let args = "a".repeat(size.parse().unwrap());
                let tool = spans::tool_call("t", name)
                    .args(args)
                    .child_of(&self.spans[parent]);
                self.spans.insert(name.into(), tool.start());
            }
            // Declared empty: its open line waits for what fills it.
            ["waiting-tool", name, parent] => {
                let id = tracing::field::Empty;
                let tool =
                    tracing::info_span!(parent: &self.spans[parent], "tool.call", tool_id = id);
                self.spans.insert(name.into(), tool);
            }
            ["enter", name] => self.spans[name].in_scope(|| ()),
            ["finish", name] => self.spans[name].finish(Outcome::Ok),
            ["drop", name] => drop(self.spans.remove(name)),
            ["event", name, n, size] => {
                let text = "e".repeat(size.parse().unwrap());
                let n: u64 = n.parse().unwrap();
                events::custom("probe", json!({"n": n, "text": text}))
                    .on(&self.spans[name])
                    .emit();
            }
            ["events", name, from, to] => {
                for n in from.parse::<u64>().unwrap()..to.parse().unwrap() {
                    events::custom("probe", json!({"n": n}))
                        .on(&self.spans[name])
                        .emit();
                }
            }
            ["work", session, n] => return work(session, n.parse().unwrap()).to_string(),
            ["burst", session, threads, count, tag] => {
                burst(
                    session,
                    threads.parse().unwrap(),
                    count.parse().unwrap(),
                    tag,
                );
            }
            ["many", count] => self.many.open(count.parse().unwrap()),
            ["round", round] => self.many.round(round.parse().unwrap()),
            ["close-many"] => self.many.close(),
            ["recover-many", count] => {
                let count: usize = count.parse().unwrap();
                let recover = |n| self.handle.session(&format!("many_{n}")).recover();
                return (0..count).map(recover).sum::<usize>().to_string();
            }
            ["recover", session] => return self.handle.session(session).recover().to_string(),
            ["health"] => {
                let health = self.handle.health();
                let (written, failed) = (health.written, health.failed);
                return json!({"written": written, "failed": failed, "last_error": health.last_error})
                    .to_string();
            }
            ["flush"] => return self.handle.flush().to_string(),
            ["shutdown"] => {
                return match self.guard.take().unwrap().shutdown() {
                    Ok(health) => format!("ok {}", health.failed),
                    Err(spanledger::Error::Lost { events, .. }) => format!("lost {events}"),
                    Err(error) => format!("error {error}"),
                };
            }
            ["drop-guard"] => self.guard = None,
            ["fsize", bytes] => limit_files(bytes.parse().unwrap()),
            ["fill-files"] => self.taken = fill_files(),
            ["free-files"] => self.taken.clear(),
            ["open-files"] => {
                let open = std::fs::read_dir("/proc/self/fd").unwrap();
                return open.count().to_string();
            }
            // SAFETY: no other code in this process owns the descriptor.
            ["close-stderr"] => unsafe {
                assert_eq!(libc::close(2), 0);
            },
            // SAFETY: asks only.
            ["stderr-is-open"] => {
                return (unsafe { libc::fcntl(2, libc::F_GETFD) } >= 0).to_string();
            }
            _ => panic!("no order {words:?}"),
        }
        "ok".into()
    }
}

/// A run with turns and tools that computes something: the same with or without a trace.
fn work(session: &str, n: u64) -> u64 {
    let run = spans::session_run(session, "worker").start();
    let mut sum = 0;
    for index in 0..n {
        let turn = spans::session_turn().child_of(&run).start();
        let tool = spans::tool_call("square", format!("c{index}"))
            .child_of(&turn)
            .start();
        sum += tool.in_scope(|| index * index);
        tool.record_result(&sum);
        tool.finish(Outcome::Ok);
    }
    run.finish(Outcome::Ok);
    sum
}
