//! The schema of the events that an agent records.

macro_rules! event_schema {
    ($then:ident $($before:tt)*) => { $crate::trace::line_schema! { $then $($before)*

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

    } };
}
pub(crate) use event_schema;
