//! The schema of spans: the six agent spans, any other span, and what all of them have.

macro_rules! span_schema {
    ($then:ident) => { $crate::trace::event_schema! { $then

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
        input any request: "The request body as sent, redacted; its messages, prompt and tools by digest: `{$part, role, meaning, bytes}`.";
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

    } };
}
pub(crate) use span_schema;
