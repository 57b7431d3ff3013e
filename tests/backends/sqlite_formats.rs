//! The programs that read the databases and chat formats judge an export of a session that has everything.

use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest, Sha256};

use crate::support::cli::run;
use crate::support::rich_session::{self, SESSION};
use crate::support::skipped::skipped;

/// A program or package that `.ci/install` has installed.
fn installed(variable: &str) -> Option<PathBuf> {
    let path = std::env::var_os(variable);
    if path.is_none() {
        skipped(&format!("{variable} is not set; see .ci/install"));
    }
    path.map(PathBuf::from)
}

#[track_caller]
fn output(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[track_caller]
fn export(root: &Path, args: &[&str]) {
    let done = run(root, &[&["export"], args].concat());
    assert_eq!(done.code, 0, "{done:?}");
}

#[test]
fn jutul_agent_reads_trace_sqlite() {
    let Some(python) = installed("SPANLEDGER_JUTUL_PYTHON") else {
        return;
    };
    let dir = rich_session::record();
    let (workspace, state) = (dir.path().join("workspace"), dir.path().join("state"));
    std::fs::create_dir(&workspace).unwrap();
    let digest = Sha256::digest(workspace.to_str().unwrap().as_bytes());
    let hash: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    let home = state.join("workspaces").join(&hash[..12]).join("sessions");
    let database = home.join(SESSION).join("trace.sqlite");
    export(
        dir.path(),
        &["trace-sqlite", SESSION, "-o", database.to_str().unwrap()],
    );
    let script = "import sys
from pathlib import Path
from jutul_agent.trace import TraceLog
log = TraceLog(Path(sys.argv[1]))
for event in log.iter_events():
    assert isinstance(event.payload, dict)
    print(event.kind)
log.close()";
    let kinds = output(Command::new(&python).args(["-c", script]).arg(&database));
    for kind in [
        "session_start",
        "tool_call",
        "weather_report",
        "context_compaction",
    ] {
        assert!(kinds.lines().any(|line| line == kind), "{kinds}");
    }
    let transcript = |format: &str| {
        let program = python.with_file_name("jutul-agent");
        let mut command = Command::new(program);
        command.args(["transcript", SESSION, "--format", format, "-o", "-"]);
        command.arg("--workspace").arg(&workspace);
        output(command.arg("--state-home").arg(&state))
    };
    for text in [transcript("html"), transcript("markdown")] {
        for part in [
            "Fix the build",
            "List the files first.",
            "exit status: 101",
            "flow.png",
        ] {
            assert!(text.contains(part), "no {part} in {text}");
        }
    }
    let markdown = transcript("markdown");
    assert!(markdown.contains("6 messages summarized"), "{markdown}");
}

#[test]
fn ai_sdk_validates_all_messages() {
    let Some(package) = installed("SPANLEDGER_AI_SDK") else {
        return;
    };
    let dir = rich_session::record();
    let file = dir.path().join("chat.json");
    export(
        dir.path(),
        &["chat-json", SESSION, "-o", file.to_str().unwrap()],
    );
    let script = "const { safeValidateUIMessages } = require(process.argv[1] + '/node_modules/ai');
const chat = JSON.parse(require('fs').readFileSync(process.argv[2]));
(async () => {
  const messages = chat.messages.map(({ message, parts }) => ({
    id: message.id, role: message.role, metadata: JSON.parse(message.metadata_json),
    parts: parts.map((part) => JSON.parse(part.data_json)),
  }));
  for (const message of messages) {
    const judged = await safeValidateUIMessages({ messages: [message] });
    if (!judged.success) throw new Error(JSON.stringify(message) + judged.error);
  }
  const judged = await safeValidateUIMessages({ messages });
  if (!judged.success) throw judged.error;
  console.log(messages.length);
})();";
    let count = output(
        Command::new("node")
            .args(["-e", script])
            .arg(&package)
            .arg(&file),
    );
    assert!(count.trim().parse::<usize>().unwrap() > 8, "{count}");
}

#[test]
fn jq_lines_of_the_document_read_chat_jsonl() {
    if Command::new("jq").arg("--version").output().is_err() {
        return skipped("jq is not installed");
    }
    let dir = rich_session::record();
    let file = dir.path().join("session.jsonl");
    export(
        dir.path(),
        &["chat-jsonl", SESSION, "-o", file.to_str().unwrap()],
    );
    let jq = |filter: &str| output(Command::new("jq").args(["-c", filter]).arg(&file));
    let states = jq("select(.type==\"part\") | .data.tool_state");
    assert!(states.contains("\"output-denied\""), "{states}");
    let filter =
        "select(.type==\"message\" and .data.role==\"assistant\") | .data.metadata_json | fromjson";
    let metadata = jq(filter);
    assert!(metadata.contains("\"system_prompt_digest\""), "{metadata}");
    assert!(metadata.contains("\"cache_read\":5"), "{metadata}");
}

#[test]
fn python_reads_chat_sqlite() {
    let dir = rich_session::record();
    let file = dir.path().join("sessions.db");
    export(
        dir.path(),
        &["chat-sqlite", "--all", "-o", file.to_str().unwrap()],
    );
    let script = "import sqlite3, sys
db = sqlite3.connect('file:' + sys.argv[1] + '?mode=ro', uri=True)
session = 'ses_rich'
print(len(db.execute('SELECT * FROM chat_parts WHERE session_id = ? ORDER BY \"index\"', (session,)).fetchall()))
assert db.execute('PRAGMA integrity_check').fetchone() == ('ok',)";
    if Command::new("python3")
        .args(["-c", "import sqlite3"])
        .output()
        .is_err()
    {
        return skipped("python3 is not installed");
    }
    let count = output(Command::new("python3").args(["-c", script]).arg(&file));
    assert!(count.trim().parse::<usize>().unwrap() > 20, "{count}");
}
