//! The schema of the lines that the recorder writes itself, and of objects inside lines.

macro_rules! line_schema {
    ($then:ident $($before:tt)*) => { $then! { $($before)*

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
        own time last_seen: "When the writer wrote its last line of the session: the end of the span.";
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
pub(crate) use line_schema;
