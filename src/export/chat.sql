CREATE TABLE IF NOT EXISTS chat_sessions (
    id TEXT PRIMARY KEY,
    title TEXT NOT NULL DEFAULT 'New Chat',
    agent TEXT NOT NULL,
    workspace_id TEXT,
    workspace_root TEXT,
    model_json TEXT,
    mode TEXT,
    parent_id TEXT,
    parent_message_id TEXT,
    permissions_json TEXT NOT NULL DEFAULT '[]',
    metadata_json TEXT NOT NULL DEFAULT '{}',
    prompt_tokens INTEGER NOT NULL DEFAULT 0,
    completion_tokens INTEGER NOT NULL DEFAULT 0,
    reasoning_tokens INTEGER NOT NULL DEFAULT 0,
    cache_read INTEGER NOT NULL DEFAULT 0,
    cache_write INTEGER NOT NULL DEFAULT 0,
    total_tokens INTEGER NOT NULL DEFAULT 0,
    cost_usd REAL NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    archived_at INTEGER
);
CREATE TABLE IF NOT EXISTS chat_messages (
    id TEXT PRIMARY KEY,
    session_id TEXT NOT NULL REFERENCES chat_sessions(id) ON DELETE CASCADE,
    role TEXT NOT NULL,
    metadata_json TEXT NOT NULL DEFAULT '{}',
    hidden_at INTEGER,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS chat_parts (
    id TEXT PRIMARY KEY,
    message_id TEXT NOT NULL REFERENCES chat_messages(id) ON DELETE CASCADE,
    session_id TEXT NOT NULL,
    "index" INTEGER NOT NULL,
    type TEXT NOT NULL,
    data_json TEXT NOT NULL,
    tool_call_id TEXT,
    tool_state TEXT,
    continuation_run_id TEXT,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS system_prompts (
    digest TEXT PRIMARY KEY, body TEXT NOT NULL, created_at INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS tool_catalogs (
    digest TEXT PRIMARY KEY, tools_json TEXT NOT NULL, created_at INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS permission_rules (
    digest TEXT PRIMARY KEY, rules_json TEXT NOT NULL, created_at INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS chat_sessions_agent ON chat_sessions (agent, updated_at);
CREATE INDEX IF NOT EXISTS chat_sessions_workspace_root ON chat_sessions (workspace_root, updated_at);
CREATE INDEX IF NOT EXISTS chat_sessions_parent ON chat_sessions (parent_id);
CREATE INDEX IF NOT EXISTS chat_sessions_archived ON chat_sessions (archived_at);
CREATE INDEX IF NOT EXISTS chat_messages_session ON chat_messages (session_id, created_at);
CREATE UNIQUE INDEX IF NOT EXISTS chat_parts_message ON chat_parts (message_id, "index");
CREATE INDEX IF NOT EXISTS chat_parts_session ON chat_parts (session_id);
CREATE INDEX IF NOT EXISTS chat_parts_tool_call ON chat_parts (tool_call_id);
CREATE INDEX IF NOT EXISTS chat_parts_subagent ON chat_parts (session_id) WHERE type = 'data-subagent';
