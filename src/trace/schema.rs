//! The schema: every kind of line and its fields, in one table.
//!
//! [`schema!`] hands the table to a macro. [`Kind`](super::Kind), the typed readers, the constructors
//! of [`events`](crate::events) and the page `docs/events.md` are made from it. To add a kind or a
//! field, add it here. None is ever removed.
//!
//! A field is `role form name;`:
//!
//! | role | meaning |
//! |---|---|
//! | `need` | an argument of the constructor |
//! | `input` | known before the work begins; on a span it is written when it is recorded |
//! | `outcome` | known at the end; on a short span it is written with the close line |
//! | `stamped` | set by the recorder |
//! | `own` | set by the recorder; a user's field of this name is written as `custom.…` |
//!
//! | form | value |
//! |---|---|
//! | `text`, `u64`, `f64`, `bool` | a string, a number, `true` or `false` |
//! | `long` | a string that is often cut or moved to a blob |
//! | `object`, `list`, `json` | JSON; a text that holds an object or an array is parsed |
//! | `any` | JSON; a text stays a text |
//! | `time` | a string, RFC 3339 in UTC |
//! | `outcome` | one of the words of [`Outcome`](crate::Outcome) |
//! | `usage`, `error` | an object with known members: [`Usage`](crate::Usage), [`Failure`](crate::Failure) |
//!
//! A span is `Variant Builder Reader "name" opens [kinds] closes [kind] { fields }`, a group of
//! events `Reader [kinds with the constructor's arguments] { fields }`.

macro_rules! schema {
    ($then:ident) => { $then! {

spans {
    Run SessionRun Run "session.run": "One run of an agent in a session."
    opens [
        session_start SessionStart: "The first run of a session starts.",
        session_resume SessionResume: "A later run continues the session.",
    ]
    closes session_end SessionEnd: "A run ended." {
        need text session_id: "The session's id.";
        need text agent: "The agent's name.";
        input text provider_id: "The provider of the model.";
        input text model_id: "The model it runs on.";
        input text variant: "The model's variant, such as a reasoning effort.";
        input f64 temperature: "The sampling temperature.";
        input text title: "The session's title.";
        input text workspace_root: "The directory that the agent works in.";
        input text output_dir: "The directory that it writes its results to.";
        input text run_name: "A label of this run.";
        stamped text parent_session_id: "The session that started this one, for a subagent.";
        input object branched_from: "`{session_id, message_id}` of the message that this session was branched from.";
        input object external_ids: "The session's ids in other systems, by system.";
        input object metadata: "Other data about the session.";
        input object tags: "Labels to find the session by.";
        stamped object process: "The process.";
        stamped u64 timeout_ms: "Its time limit, in milliseconds.";
        outcome text stop_reason: "Why the run ended.";
        outcome usage usage: "Tokens and cost, where no model call inside it has them.";
        own usage used: "Tokens and cost of everything inside it, or of `usage`.";
        own object totals: "What its writer counted in the session so far: `{turns, model_calls, tool_calls, errors, usage, marks}`.";
        outcome error error: "The error that ended it.";
    }

    Turn SessionTurn Turn "session.turn": "One turn: from a trigger, such as a user's message, to the agent's answer."
    opens [turn_start TurnStart: "A turn starts."]
    closes turn_end TurnEnd: "A turn ended." {
        input u64 turn_index: "Its index in the session, from 1. By default the recorder counts.";
        input text trigger: "What started it: a user, a timer, another agent.";
        input text message_id: "The message that started it.";
        stamped u64 timeout_ms: "Its time limit, in milliseconds.";
        outcome text stop_reason: "Why the turn ended.";
        outcome usage usage: "Tokens and cost, where no model call inside it has them.";
        own usage used: "Tokens and cost of everything inside it, or of `usage`.";
        own object totals: "What its writer counted in the session so far: `{turns, model_calls, tool_calls, errors, usage, marks}`.";
        own bool synthetic: "The recorder created this turn for a library that reports none.";
        outcome error error: "The error that ended it.";
    }

    Model ModelCall ModelCall "model.call": "One request to a model."
    opens [model_call ModelCall: "A request to a model starts."]
    closes model_result ModelResult: "A request to a model ended." {
        need text provider_id: "The provider of the model.";
        need text model_id: "The model that was asked for.";
        input text variant: "The model's variant, such as a reasoning effort.";
        input f64 temperature: "The sampling temperature.";
        input u64 max_tokens: "The limit on output tokens that was asked for.";
        input object params: "Other parameters: `top_p`, `stop`, ….";
        input text purpose: "What the call is for: main, advisor, warmup, title, compaction, subagent.";
        input u64 attempt: "The number of this attempt, from 1.";
        input text retry_of: "The span id of the call that this one retries.";
        input list input_message_ids: "The ids of the messages that were sent.";
        input list input_messages: "The messages that were sent, as the GenAI conventions have them: `[{role, parts: [{type, content}]}]`.";
        input text request_digest: "SHA-256 of the request body, redacted and in canonical form: sorted members, no blanks.";
        input any request: "The request body as sent, redacted; its messages, prompt and tools by digest: `{$part, role, meaning}`.";
        input text system_prompt_digest: "The digest of the `system_prompt` in force.";
        input text tool_catalog_digest: "The digest of the `tool_catalog` in force.";
        input text permission_rules_digest: "The digest of the `permission_rules` in force.";
        input bool stream: "Whether the answer is streamed.";
        input u64 context_window: "The size of the model's context window, in tokens.";
        stamped text agent: "The agent of the run around it.";
        stamped bool compacted: "The context was compacted after the call before this one.";
        stamped u64 timeout_ms: "Its time limit, in milliseconds.";
        outcome usage usage: "Tokens and cost.";
        outcome text finish_reason: "Why the model stopped.";
        outcome text stop_reason: "The same, under the name that a turn has for it.";
        outcome text response_id: "The provider's id of the answer.";
        outcome text response_model: "The model that answered.";
        outcome text message_id: "The message that holds the answer.";
        outcome list output_messages: "The answer, as the GenAI conventions have it: `[{role, parts: [{type, content}], finish_reason}]`.";
        outcome u64 ttft_ms: "Milliseconds until the first token; by default until the first piece of a stream.";
        outcome u64 http_status: "The HTTP status of the answer.";
        own object conversation: "What is sent of the conversation, where content is: `{system_instructions, tool_definitions, input_messages, output_messages}`.";
        outcome any retry_after: "How long the provider asked to wait before a retry, in seconds.";
        outcome error error: "The error that ended it.";
    }

    Tool ToolCall ToolCall "tool.call": "One call of a tool. The span is its key: a `tool_call_id` may repeat."
    opens [tool_call ToolCall: "A tool call starts."]
    closes tool_result ToolResult: "A tool call ended." {
        need text tool_id: "The tool's name.";
        need text tool_call_id: "The model's id of the call.";
        input text tool_type: "function, mcp, builtin, ….";
        input text tool_kind: "read, edit, delete, move, search, execute, think, fetch, other.";
        input text title: "A title of this call, for people.";
        input list locations: "The files it touches.";
        input json args: "Its arguments, JSON or text.";
        input long command: "The command line, for a tool that runs one.";
        input text message_id: "The message that asked for the call.";
        input u64 part_index: "The index of the part of that message.";
        input text model_span_id: "The span id of the model call that asked for it.";
        input text loop_key: "What makes it the same call as another one, in place of its arguments, where loops are looked for.";
        stamped text agent: "The agent of the run around it.";
        stamped u64 timeout_ms: "Its time limit, in milliseconds.";
        outcome json result: "Its result, JSON or text.";
        outcome any stdout: "What it wrote to standard output.";
        outcome any stderr: "What it wrote to standard error.";
        outcome any exit_code: "The exit code of its process.";
        outcome bool truncated: "The tool itself truncated its result.";
        outcome list media: "Images, audio and files in its result.";
        outcome text tool_state: "input-streaming, input-available, approval-requested, approval-responded, output-available, output-error, output-denied.";
        outcome u64 blocked_ms: "Milliseconds that it waited for a person.";
        outcome error error: "The error that ended it.";
    }

    Permission PermissionEvaluate Permission "permission.evaluate": "One permission decision. It lies inside the tool call that it guards."
    opens [permission_request PermissionRequest: "A permission is requested."]
    closes permission_evaluate PermissionEvaluate: "A permission was decided." {
        need text tool_id: "The tool's name.";
        input text tool_call_id: "The model's id of the call.";
        input text permission: "The permission that was requested.";
        input text pattern: "The pattern that matched.";
        input text permission_rules_digest: "The digest of the `permission_rules` in force.";
        outcome text action: "allow, deny or ask.";
        outcome text source: "Where the rule came from: manifest, session, project, hook, user.";
        outcome object rule: "The rule that decided: `{permission, pattern, action, source, added_at}`.";
        outcome json decision: "The answer of a person.";
        outcome text decided_by: "The person or program that decided.";
        outcome list options: "The answers that were offered.";
        outcome text interrupt_id: "The id of the question, as in `hitl_request`.";
        outcome error error: "The error that ended it.";
    }

    Compaction CompactionRun Compaction "compaction.run": "One compaction of the context."
    opens [compaction_start CompactionStart: "A compaction starts."]
    closes context_compaction ContextCompaction: "A compaction ended." {
        input text session_id: "The session it belongs to, if not the current one.";
        input bool auto: "It started because the context was full.";
        input bool manual: "A person asked for it.";
        input text trigger: "What started it.";
        input text tail_start_id: "The first message that is kept.";
        outcome u64 summarized_message_count: "How many messages the summary replaces.";
        outcome u64 messages_before: "How many messages there were.";
        outcome u64 messages_after: "How many messages are left.";
        outcome any kept: "The messages that were kept.";
        outcome any offloaded: "The messages that were moved out of the context.";
        outcome long summary: "The summary.";
        outcome u64 summary_tokens: "The summary's size in tokens.";
        outcome u64 input_tokens: "Input tokens of the compaction itself.";
        outcome u64 output_tokens: "Output tokens of the compaction itself.";
        outcome error error: "The error that ended it.";
    }
}

other_span {
    OtherSpan: "Any other span, recorded because the user asked for it."
    opens [span_start SpanStart: "A span starts."]
    closes span_end SpanEnd: "A span ended." {
        own text name: "The span's name.";
        own text target: "The module or library it comes from.";
        own text level: "Its level.";
        own object fields: "Its fields.";
        own error error: "The error that ended it.";
    }
}

every_span {
    own time start: "When it started, in nanoseconds.";
    own u64 duration_ns: "How long it took, on a clock that counts sleep and never steps.";
    own outcome outcome: "How it ended: ok, error, denied, timed_out, cancelled, interrupted, unset.";
    own u64 opened_seg: "The segment with its open line, where that is another one.";
    own list events: "Short events inside it, at most 128.";
    own u64 events_dropped: "How many events were dropped.";
    own list links: "Links to other spans.";
    own bool late: "The line was written after its time: an open line after a fault, or a line about a span that had been closed.";
    own object attributes: "Attributes that were set through the OpenTelemetry API, by the names given there.";
    own bool sampled: "`false`: the trace is not sent.";
    own text tracestate: "The W3C trace state.";
    own bool parent_remote: "The parent is a span of another process.";
    own text span_kind: "The OpenTelemetry span kind, for a span that is not an agent span.";
}

events {
    SessionTitle [session_title SessionTitle(text title): "The session got a title."] {
        need text title: "The title.";
    }

    SessionUpdate [session_update SessionUpdate(): "The session's settings changed."] {
        input text model_id: "The new model.";
        input text provider_id: "The new model's provider.";
        input text variant: "The new model's variant.";
        input f64 temperature: "The new sampling temperature.";
        input text archived_at: "When the session was archived.";
        input object metadata: "Other changed data.";
    }

    SessionStatus [session_status SessionStatus(text status): "The session's status changed: busy, idle, waiting, retrying, error."] {
        need text status: "The new status.";
        input text waiting_for: "What a waiting session needs: approval, user_input.";
        input u64 attempt: "The number of the attempt.";
        input text message: "The reason.";
        input text next_at: "When it continues.";
    }

    Message [
        message_user MessageUser(long content): "A message from the user.",
        message_assistant MessageAssistant(long content): "A message from the model.",
        message_reasoning MessageReasoning(long content): "Reasoning of the model.",
        message_system MessageSystem(long content): "A message from the system.",
        message_tool MessageTool(long content): "Results of tools, as the model was sent them.",
    ] {
        need long content: "The message's text.";
        input text message_id: "The message's id.";
        input list parts: "Its parts as the AI SDK has them, verbatim.";
        input u64 part_index: "The index of this part, where each part has its own line.";
        input list attachments: "Attached files: `[{name, media_type, sha256, bytes, blob or url}]`.";
        input bool complete: "`false`: the message was aborted.";
        input text abort_reason: "Why it was aborted.";
        input text queued_at: "When it was queued, if it had to wait.";
        input text trigger: "What sent it.";
        input text snapshot_id: "A snapshot of the workspace at that moment.";
        input text replaces: "The message that it replaces.";
        input object metadata: "Other data about the message.";
        stamped text history: "A digest of the conversation up to this message, where it was taken from a request.";
    }

    Delta [
        message_delta MessageDelta(text message_id, long text): "A piece of a streamed message. [`SpanExt::stream`](crate::SpanExt::stream) records these and redacts secrets that are split over two pieces.",
        tool_input_delta ToolInputDelta(text tool_call_id, long text): "A piece of a tool call's streamed input.",
    ] {
        need text message_id: "The message's id.";
        need text tool_call_id: "The tool call's id.";
        input u64 part_index: "The index of the part.";
        input u64 offset: "Where in the part the piece begins, in bytes.";
        need long text: "The piece.";
    }

    ContextAsset [
        system_prompt SystemPrompt(long body): "The system prompt in force from now on. The session stores it once; later lines have its digest only, and so has each model call.",
        tool_catalog ToolCatalog(list tools): "The tools that the model may call from now on, stored once: `[{name, description, schema}]`.",
        permission_rules PermissionRules(list rules): "The permission rules in force from now on, stored once: `[{permission, pattern, action, source}]`.",
    ] {
        stamped text digest: "SHA-256 of the redacted text.";
        need long body: "The prompt.";
        need list tools: "The tools: `[{name, description, schema}]`.";
        need list rules: "The rules: `[{permission, pattern, action, source, added_at}]`, as `rule` in `permission.evaluate`. `permission` is the name of the tool or of a group of tools; `tool` is read as the same.";
        input any sources: "What the prompt was assembled from.";
    }

    Hitl [
        hitl_request HitlRequest(text interrupt_id): "A call waits for a person.",
        hitl_response HitlResponse(text interrupt_id): "A person answered.",
    ] {
        need text interrupt_id: "The id of the question.";
        input json pending: "The pending call.";
        input text tool_id: "The tool's name.";
        input text tool_call_id: "The model's id of the call.";
        input list options: "The answers that are offered.";
        input json decision: "The answer.";
        input text decided_by: "The person who decided.";
        input json payload: "Data that came with the answer.";
    }

    Artifact [artifact Artifact(text path): "The agent made a file."] {
        need text path: "The file's path.";
        input text mime: "Its media type.";
        input text caption: "What it shows.";
        input text tool_call_id: "The call that made it.";
        input text format: "png, svg, ….";
        input list size_px: "`[width, height]`.";
        input u64 dpi: "Its resolution.";
        input text slot: "Where it belongs.";
        input long source_code: "The code that made it.";
        input text sha256: "Its digest.";
        input u64 bytes: "Its size.";
        input text blob: "The blob that holds it.";
    }

    Attempt [attempt Attempt(text id): "One step of an investigation. `parent_id` makes the attempts a tree."] {
        need text id: "The attempt's id.";
        input text parent_id: "The attempt that it continues.";
        input text rationale: "Why it was made.";
        input object parameters_changed: "What was changed.";
        input object metrics: "The measured results.";
        input text candidate_path: "The candidate's file.";
        input text plot_artifact_path: "The figure's file.";
        input text notes: "Notes.";
    }

    Verdict [verdict Verdict(u64 iteration, text verdict_kind): "A validator judged one iteration."] {
        need u64 iteration: "The number of the iteration.";
        need text verdict_kind: "The verdict.";
        input text error: "Why it was rejected.";
        input text span_id: "The span that was judged.";
    }

    IterateResult [iterate_result IterateResult(text final_verdict): "An iterate loop ended."] {
        need text final_verdict: "The last verdict.";
        input text kind: "fill, email, playbook, ….";
        input long prompt: "The prompt.";
        input u64 iterations: "How many iterations ran.";
        input u64 max_iterations: "The limit.";
        input json artifact: "The accepted result.";
        input bool grounded: "Whether it is grounded; absent where that does not apply.";
        input text daemon: "The daemon that ran the loop.";
    }

    StateUpdate [state_update StateUpdate(): "The agent's state changed."] {
        input json state: "The whole state.";
        input json diff: "The difference.";
    }

    LoopWarning [loop_warning LoopWarning(text pattern, u64 repetitions): "A pattern repeats."] {
        need text pattern: "The pattern.";
        need u64 repetitions: "How often it occurred.";
        input text verdict: "The sort of the loop: no_progress, cycle, polling, drifting.";
        input u64 window_size: "How many events were examined.";
        input list evidence: "The addresses of the repetitions.";
    }

    Rewind [rewind Rewind(text to_message_id): "The conversation went back to a message. Later messages are hidden, not deleted."] {
        need text to_message_id: "The message it went back to.";
        input list hidden_ids: "The messages that are hidden.";
        input text snapshot_id: "The snapshot that the workspace was restored to.";
    }

    Branch [branch Branch(text child_session_id): "Another session started from this one."] {
        need text child_session_id: "The other session.";
        input text message_id: "The message it started from.";
    }

    Hook [hook Hook(text point, text name): "A hook ran."] {
        need text point: "The point it is attached to: tool.before, ….";
        need text name: "The hook's name.";
        input text decision: "Its decision.";
        input text reason: "The reason for the decision.";
    }

    Client [
        client_attach ClientAttach(text client): "A client attached to the session.",
        client_detach ClientDetach(text client): "A client detached. The session continues.",
    ] {
        need text client: "The client's name.";
    }

    Rpc [rpc Rpc(text direction, text method): "A message between agent and client."] {
        need text direction: "in or out.";
        need text method: "The method.";
        input any id: "The call's id.";
        input json params: "The parameters.";
        input json result: "The result.";
        input json error: "The error.";
    }

    Trial [trial Trial(text trial_id): "The trial that this session belongs to."] {
        need text trial_id: "The trial's id.";
        input text experiment_id: "The experiment.";
        input text dataset_id: "The data set.";
        input text task_id: "The task.";
        input text task_revision: "The task's revision.";
        input text harness: "The harness.";
        input text adapter_revision: "The revision of the harness's adapter.";
        input object config: "The effective configuration.";
        input any adaptation: "The source of the adaptation.";
    }

    Environment [environment Environment(): "The environment that the session ran in."] {
        input text image: "The runtime image.";
        input text backend: "The compute backend.";
        input object tool_versions: "The versions of the tools.";
    }

    InputFile [input_file InputFile(text path): "A file that the session was given."] {
        need text path: "The file's path.";
        input text sha256: "Its digest.";
        input u64 bytes: "Its size.";
    }

    Output [output Output(): "The result of the session."] {
        input any r#final: "The final answer.";
        input any raw: "The text that it was extracted from.";
    }

    Evaluation [evaluation Evaluation(): "The session was graded. It may come after the session's end."] {
        input json scores: "The scores.";
        input text author: "The grader.";
    }

    Annotation [annotation Annotation(text target, any value): "A note about something in the session. It may come after the session's end."] {
        need text target: "What it is about.";
        need any value: "The note.";
        input text author: "The author.";
    }

    Phase [phase Phase(text name): "A phase of the work."] {
        need text name: "The phase's name.";
        input text start: "When it started.";
        input text end: "When it ended.";
    }

    Import [import Import(text format): "The source of an imported session."] {
        need text format: "The source's format.";
        input text source_id: "The session's id there.";
        input text raw_blob: "The blob with the source's bytes.";
    }
}

other_events {
    ModelUsage [model_usage ModelUsage(): "Tokens and cost of a model call that has no `model.call` span. The counts are fields of their own."] {
        input object usage_details: "What the provider reported, verbatim.";
    }

    RequestPart [request_part RequestPart(): "A part of a request that no other line has as it was sent: a message, a prompt or tools. `request` of a model call names it by its digest."] {
        stamped text digest: "Half of the SHA-256 of its canonical form: sorted members, no blanks.";
        stamped any body: "The part as sent, redacted.";
    }

    Subagent [subagent Subagent(): "A session.run of another session started inside this one."] {
        stamped text agent: "The other session's agent.";
        stamped text child_session_id: "The other session.";
    }

    ErrorEvent [error Error(): "An error that is not a span's outcome."] {
        need error error: "The error.";
    }

    Log [log Log(): "A `tracing` event inside an agent span."] {
        stamped text level: "The level.";
        stamped text target: "The module it comes from.";
        stamped text message: "The message.";
        stamped object fields: "The other fields.";
    }
}

pieces {
    ErrorInfo error: "An error." {
        input text error_type: "The error's type.";
        input long message: "The message.";
        input long stack: "A backtrace or a stack of another language.";
        input json details: "Other data about it.";
        input any source: "The messages of the errors that caused it, the nearest first.";
        input text guardrail: "The limit that stopped the work on purpose.";
        input any threshold: "The limit's value.";
        input any actual: "The value that exceeded it.";
    }

    Process process: "A process." {
        own u64 pid: "Its id.";
        own text host: "The machine's name.";
        own text exe: "The program's path.";
        own text version: "The program's version.";
        own list argv: "The arguments, redacted.";
        own text cwd: "The working directory.";
        own text platform: "The operating system.";
        own object runtime: "The language runtime: `{name, arch}`.";
        own object git: "The repository of the working directory: `{commit, branch, dirty}`.";
    }

    MirrorPolicy mirror: "Where a segment is sent, and how much of it." {
        own text endpoint: "The endpoint, without credentials.";
        own bool content: "Whether messages, arguments and results are sent.";
        own bool error_text: "Whether the texts of errors are sent, if not as `content` says.";
        own bool log_messages: "Whether log messages are sent, if not as `content` says.";
        own bool paths: "Whether paths and command lines are sent, if not as `content` says.";
        own bool custom_fields: "Whether fields of the user's own are sent, if not as `content` says.";
        own object limits: "Limits on a span: `{attribute_length, attribute_count, event_count, link_count}`.";
        own bool cache_write_name: "Whether cache-write tokens have the newest convention's name.";
        own bool usage_cost: "Whether model calls have `gen_ai.usage.cost`.";
        own u64 mapping: "The version of the mapping from lines to spans.";
    }

    SpanLink links: "A link to another span." {
        own text trace_id: "The other span's trace.";
        own text span_id: "The other span.";
        own object attributes: "Attributes of the link.";
    }

    SpanEvent events: "A short event inside a span." {
        own time ts: "When it happened.";
        own text name: "Its kind, or its name in the OpenTelemetry API.";
        own text level: "Its level, for a log event.";
        own text target: "The module it comes from, for a log event.";
        own any message: "Its message, for a log event.";
        own object fields: "Its short fields.";
        own object attributes: "Its attributes.";
    }
}

own_lines {
    SegmentHeader [segment Segment(): "The first line of every segment."] {
        own text writer: "The writer's id.";
        own u64 format: "The version of the format.";
        own text spanledger: "The version of spanledger.";
        own object process: "The process.";
        own object resource: "The OpenTelemetry resource.";
        own object scope: "The instrumentation scope: `{name, version}`.";
        own object mirror: "Where the segment is sent.";
        own text digest_salt: "The key of the digests that are sent in place of content: derived from the root's key, and never sent.";
        own text implicit: "Why the recorder created the session itself.";
        own u64 counts_from: "The segment from which the writer's `totals` count, where it is not the writer's first.";
    }

    Checkpoint [checkpoint Checkpoint(): "The state of the session, at most once per MiB, so that no reader needs the whole segment."] {
        own object totals: "What its writer counted in the session so far: `{turns, model_calls, tool_calls, errors, usage, marks}`.";
        own bool started: "Whether the session has had a run.";
        own u64 next_turn: "The index of the next turn.";
        own list open: "The open spans: `[{kind, span_id}]`.";
        own object last_run: "The last run that no other run contains: `{trace_id, span_id}`.";
        own object digests: "The digests of the prompt, the catalog and the rules in force.";
        own list known_digests: "The digests that the session has stored.";
        own bool compacted: "The context was compacted, and no model call has followed.";
        own list history: "Where conversations ended last, as the `history` of messages: `[{tip, answered}]`.";
    }

    SpanUpdate [span_update SpanUpdate(): "Fields that were recorded on an open span."] {}

    Interrupted [interrupted Interrupted(): "The close line of a span whose writer died. It has the fields of the close line that it replaces."] {
        own text closes: "The kind of the close line that it replaces.";
        own text reason: "writer_gone or shutdown.";
        own time last_seen: "When the writer last wrote a line.";
        own time detected_at: "When the death was detected.";
    }

    Gap [gap Gap(): "Events were lost because they could not be written."] {
        own u64 count: "How many events.";
        own object by_kind: "How many by kind.";
        own time first_ts: "When the first was lost.";
        own time last_ts: "When the last was lost.";
        own text cause: "The error.";
    }
}

    } };
}
pub(crate) use schema;

#[cfg(test)]
mod tests;
