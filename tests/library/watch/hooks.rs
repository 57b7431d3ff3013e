//! The hooks before a tool: in order, under no lock, each decision recorded.

use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex};

use serde_json::json;
use spanledger::{BeforeTool, Decision, Outcome, Refused, SpanExt, events, spans};

use crate::support::{LineExt, Recording};

fn tool(name: &str) -> Result<(), Refused> {
    let tool = spans::tool_call(name, "call_1")
        .args(json!({"path": "a.rs"}))
        .start();
    tool.allowed()?;
    tool.finish(Outcome::Ok);
    Ok(())
}

fn no_removal(call: &BeforeTool) -> Decision {
    match call.tool_id() {
        "rm" => Decision::deny("not here"),
        _ => Decision::Allow,
    }
}

#[test]
fn denied_call_is_closed_and_says_why() {
    let recording = Recording::with(|builder| builder.before_tool(no_removal));
    recording.run(|| {
        let _run = spans::session_run("s", "agent").start().entered();
        assert_eq!(tool("ls"), Ok(()));
        match tool("rm").unwrap_err() {
            Refused::Denied { hook, reason, .. } => {
                assert!(hook.ends_with("::no_removal"), "{hook}");
                assert_eq!(reason, "not here");
            }
            other => panic!("{other}"),
        }
    });
    let trace = recording.trace();
    let hooks = trace.all("hook");
    let decisions: Vec<_> = hooks.iter().map(|line| line.text("decision")).collect();
    assert_eq!(decisions, ["allow", "deny"]);
    assert_eq!(hooks[1].text("point"), "tool.before");
    assert_eq!(hooks[1].text("reason"), "not here");
    let denied = trace.find("tool_result", "tool_id", "rm");
    assert_eq!(denied.text("outcome"), "denied");
    assert_eq!(denied.text("error.error_type"), "Denied");
    assert_eq!(hooks[1].span_id, denied.span_id);
    // Not an error of the session.
    assert!(trace.all("error").is_empty());
}

#[test]
fn hooks_run_in_order_until_one_denies() {
    let ran = Arc::new(Mutex::new(Vec::new()));
    let hook = |number: u32, decision: Decision| {
        let ran = Arc::clone(&ran);
        move |_: &BeforeTool| {
            ran.lock().unwrap().push(number);
            decision.clone()
        }
    };
    let recording = Recording::with(|builder| {
        builder
            .before_tool(hook(1, Decision::Allow))
            .before_tool(hook(2, Decision::ask("is it yours?")))
            .before_tool(hook(3, Decision::deny("no")))
            .before_tool(hook(4, Decision::Allow))
    });
    recording.run(|| {
        let refused = tool("rm").unwrap_err();
        assert!(matches!(refused, Refused::Denied { .. }), "{refused}");
    });
    assert_eq!(*ran.lock().unwrap(), [1, 2, 3]);
}

#[test]
fn question_leaves_the_call_open_for_the_host() {
    let recording = Recording::with(|builder| builder.before_tool(|_| Decision::ask("sure?")));
    recording.run(|| {
        let _run = spans::session_run("s", "agent").start().entered();
        let tool = spans::tool_call("deploy", "call_1").start();
        match tool.allowed().unwrap_err() {
            Refused::Ask { reason, .. } => assert_eq!(reason, "sure?"),
            other => panic!("{other}"),
        }
        tool.in_scope(|| {
            events::hitl_request("int_1").tool_id("deploy").emit();
            events::hitl_response("int_1")
                .decision("allow_once")
                .decided_by("ada")
                .emit();
        });
        tool.finish(Outcome::Ok);
    });
    let trace = recording.trace();
    assert_eq!(trace.one("hook").text("decision"), "ask");
    assert_eq!(trace.one("tool_result").text("outcome"), "ok");
}

#[test]
fn hook_sees_the_redacted_call_and_records_in_it() {
    let seen = Arc::new(Mutex::new(None));
    let in_hook = Arc::clone(&seen);
    let recording = Recording::with(move |builder| {
        builder.before_tool(move |call| {
            events::custom("policy", json!({"rule": 7})).emit();
            call.session().record(events::custom("audit", json!({})));
            // A call inside a hook is asked about too, and must not wait for this one.
            if call.tool_id() == "outer" {
                spans::tool_call("inner", "call_2")
                    .start()
                    .allowed()
                    .unwrap();
            }
            let args = call.args().unwrap_or_default();
            *in_hook.lock().unwrap() = Some((call.tool_call_id().map(str::to_owned), args));
            Decision::Allow
        })
    });
    recording.run(|| {
        let _run = spans::session_run("s", "agent").start().entered();
        let secret = "ghp_0123456789abcdefghijABCDEFGHIJ012345";
        let args = json!({"path": "a.rs", "token": secret});
        let tool = spans::tool_call("outer", "call_1").args(args).start();
        tool.allowed().unwrap();
        tool.finish(Outcome::Ok);
    });
    let (id, args) = seen.lock().unwrap().take().unwrap();
    assert_eq!(id.as_deref(), Some("call_1"));
    assert_eq!(args["path"], "a.rs");
    assert!(
        args["token"].as_str().unwrap().starts_with("[masked"),
        "{args}"
    );
    let trace = recording.trace();
    assert_eq!(trace.all("hook").len(), 2);
    let outer = trace.find("tool_call", "tool_id", "outer").span_id.clone();
    assert!(trace.all("policy").iter().any(|line| line.span_id == outer));
    assert!(trace.all("audit").iter().any(|line| line.span_id == outer));
    let inner = trace.find("tool_call", "tool_id", "inner");
    assert_eq!(inner.parent_span_id, outer);
}

#[test]
fn panic_is_a_recorded_error_and_counts_as_configured() {
    let panics = |_: &BeforeTool| -> Decision { panic!("out of rules") };
    let recording = Recording::with(|builder| builder.before_tool(panics));
    assert_eq!(recording.run(|| tool("ls")), Ok(()));
    let trace = recording.trace();
    assert_eq!(trace.one("error").text("error.error_type"), "panic");
    assert_eq!(trace.one("error").text("error.message"), "out of rules");
    assert_eq!(trace.one("hook").text("decision"), "allow");
    assert_eq!(trace.one("hook").text("reason"), "panic: out of rules");
    assert_eq!(trace.one("tool_result").text("outcome"), "ok");

    let denies = Decision::deny("no policy, no tools");
    let recording = Recording::with(|builder| builder.before_tool(panics).on_hook_panic(denies));
    let refused = recording.run(|| tool("ls")).unwrap_err();
    assert!(
        refused.to_string().ends_with("no policy, no tools"),
        "{refused}"
    );
}

/// A hook that waits holds up its own call only: other threads record and are asked meanwhile.
#[test]
fn hook_that_waits_blocks_no_other_call() {
    let (reached, at_hook) = sync_channel::<()>(0);
    let (release, wait) = sync_channel::<()>(0);
    let wait: Mutex<Receiver<()>> = Mutex::new(wait);
    let recording = Recording::with(|builder| {
        builder.before_tool(move |call| {
            if call.tool_id() == "slow" {
                reached.send(()).unwrap();
                wait.lock().unwrap().recv().unwrap();
            }
            Decision::Allow
        })
    });
    recording.run(|| {
        let run = spans::session_run("s", "agent").start();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let _default = tracing::dispatcher::set_default(&recording.dispatch);
                let _run = run.enter();
                tool("slow").unwrap();
            });
            at_hook.recv().unwrap();
            let _run = run.enter();
            for _ in 0..100 {
                tool("fast").unwrap();
            }
            assert_eq!(recording.trace().all("tool_result").len(), 100);
            release.send(()).unwrap();
        });
    });
    let trace = recording.trace();
    assert_eq!(trace.all("tool_result").len(), 101);
    assert_eq!(trace.all("hook").len(), 101);
    assert_eq!(recording.guard.health().failed, 0);
}
