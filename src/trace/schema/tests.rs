//! `docs/events.md`: the reference page of kinds and fields, generated from the schema.

use std::fmt::Write;

const INTRODUCTION: &str = "\
# Kinds and fields

Every line of a trace has a `kind` and a `payload` with that kind's fields. This page lists them. It is generated from \
`src/trace/schema/`; after a change there run `SPANLEDGER_WRITE_DOCS=1 cargo test --lib trace::schema`.

A field that is not known is left out; it is never written as 0 or as an empty text. Readers keep kinds and fields that \
they do not know. `src/trace/line.rs` describes the members of the line itself.

Types: `text`, `long` (a text that is often cut or moved to a blob), `u64`, `f64`, `bool`; `object`, `list` and `json` (a text that holds an object or an array is parsed); `any` \
(JSON, a text stays a text); `time` (RFC 3339 in UTC); `outcome` (one of the words); `usage` and `error` (objects, see [below](#shared-objects)). **Bold** fields are arguments of the \
constructor.

";

const USAGE: &str = "\
### `usage`

Tokens and cost: `input_tokens` (all input, cached tokens included), `input_uncached_tokens`, `output_tokens` (all output, \
reasoning included), `output_text_tokens`, `reasoning_tokens`, `cache_read_tokens`, `cache_write_tokens`, `total_tokens`, \
`cost_usd`, `usage_details` (what the provider reported, verbatim). Totals count each token once: a `model_result` takes \
precedence over a `model_usage`, that over its turn, and that over its run.

";

struct Field {
    role: &'static str,
    form: &'static str,
    name: &'static str,
    doc: &'static str,
}

fn fields(page: &mut String, fields: &[Field], needed: impl Fn(&Field) -> bool) {
    if fields.is_empty() {
        return;
    }
    page.push_str("| field | type | |\n|---|---|---|\n");
    for field in fields {
        let name = format!("`{}`", field.name.trim_start_matches("r#"));
        let name = if needed(field) {
            format!("**{name}**")
        } else {
            name
        };
        let _ = writeln!(page, "| {name} | {} | {} |", field.form, field.doc);
    }
    page.push('\n');
}

/// The fields of a span: those of the open line, and those that the close line adds.
fn span_fields(page: &mut String, list: &[Field]) {
    page.push_str("| field | type | | |\n|---|---|---|---|\n");
    for field in list {
        let name = format!("`{}`", field.name);
        let name = if field.role == "need" {
            format!("**{name}**")
        } else {
            name
        };
        let at_end =
            field.role == "outcome" || matches!(field.name, "conversation" | "totals" | "used");
        let line = if at_end { "close" } else { "open" };
        let _ = writeln!(page, "| {name} | {} | {line} | {} |", field.form, field.doc);
    }
    page.push('\n');
}

/// A group of kinds: the kinds with their constructors' arguments, and the fields.
fn group(page: &mut String, kinds: &[(&str, &str, &str)], list: &[Field]) {
    let names: Vec<_> = kinds.iter().map(|(kind, ..)| format!("`{kind}`")).collect();
    let _ = writeln!(page, "### {}\n", names.join(", "));
    for (kind, _, doc) in kinds {
        let doc = doc.replace(
            "[`SpanExt::stream`](crate::SpanExt::stream)",
            "`SpanExt::stream`",
        );
        match kinds {
            [_] => _ = writeln!(page, "{doc}\n"),
            _ => _ = writeln!(page, "- `{kind}`: {doc}"),
        }
    }
    if kinds.len() > 1 {
        page.push('\n');
    }
    let argument = |field: &Field| {
        kinds
            .iter()
            .any(|(_, args, _)| args.split([' ', ',']).any(|word| word == field.name))
    };
    fields(page, list, argument);
}

macro_rules! list {
    ($( $role:ident $form:ident $field:ident: $doc:literal; )*) => {
        &[$( Field {
            role: stringify!($role),
            form: stringify!($form),
            name: stringify!($field),
            doc: $doc,
        }, )*]
    };
}

macro_rules! groups {
    ($page:ident $(
        $reader:ident [$( $kind:ident $Kind:ident($($args:tt)*): $doc:literal ),+ $(,)?] { $($fields:tt)* }
    )*) => { $(
        group(&mut $page, &[$( (stringify!($kind), stringify!($($args)*), $doc), )+], list!($($fields)*));
    )* };
}

macro_rules! define_page {
    (
        spans { $(
            $span:ident $builder:ident $reader:ident $name:literal: $doc:literal
            opens [$( $open:ident $Open:ident: $open_doc:literal ),+ $(,)?]
            closes $close:ident $Close:ident: $close_doc:literal { $($fields:tt)* }
        )* }
        other_span {
            $other_reader:ident: $other_doc:literal
            opens [$other_open:ident $OtherOpen:ident: $other_open_doc:literal]
            closes $other_close:ident $OtherClose:ident: $other_close_doc:literal { $($other_fields:tt)* }
        }
        every_span { $($every_span:tt)* }
        events { $($events:tt)* }
        other_events { $($other_events:tt)* }
        pieces { $( $piece:ident $piece_name:ident: $piece_doc:literal { $($parts:tt)* } )* }
        own_lines { $($own_lines:tt)* }
    ) => {
        fn page() -> String {
            let mut page = INTRODUCTION.to_owned();
            page.push_str("## Spans\n\nA span is two lines. The close line repeats the fields of the open line and of its \
                updates. Fields marked `close` are known at the end; those of a run or a turn are also written when they are \
                recorded, as a `span_update`.\n\n");
            $(
                let opens: &[(&str, &str)] = &[$( (stringify!($open), $open_doc), )+];
                span_header(&mut page, $name, $doc, opens, (stringify!($close), $close_doc));
                span_fields(&mut page, list!($($fields)*));
            )*
            let opens = &[(stringify!($other_open), $other_open_doc)];
            span_header(&mut page, "Other spans", $other_doc, opens, (stringify!($other_close), $other_close_doc));
            fields(&mut page, list!($($other_fields)*), |_| false);
            page.push_str("### Every span\n\nThe recorder sets these. A user's field of the same name is written as `custom.…`.\n\n");
            fields(&mut page, list!($($every_span)*), |_| false);
            page.push_str("## Events\n\n");
            groups!(page $($events)*);
            groups!(page $($other_events)*);
            page.push_str("## Lines of the ledger\n\nOnly the recorder writes these, as it does the lines of spans. A \
                user's event of such a kind is written as `custom.…`.\n\n");
            groups!(page $($own_lines)*);
            page.push_str("## Shared objects\n\n");
            page.push_str(USAGE);
            $(
                let _ = writeln!(page, "### `{}`\n\n{}\n", stringify!($piece_name), $piece_doc);
                fields(&mut page, list!($($parts)*), |_| false);
            )*
            page.truncate(page.trim_end().len());
            page.push('\n');
            page
        }
    };
}
schema!(define_page);

fn span_header(
    page: &mut String,
    name: &str,
    doc: &str,
    opens: &[(&str, &str)],
    closes: (&str, &str),
) {
    let name = if name.contains('.') {
        format!("`{name}`")
    } else {
        name.to_owned()
    };
    let _ = writeln!(page, "### {name}\n\n{doc}\n");
    for (kind, doc) in opens.iter().chain([&closes]) {
        let _ = writeln!(page, "- `{kind}`: {doc}");
    }
    page.push('\n');
}

/// Rewrites the page if `SPANLEDGER_WRITE_DOCS` is set.
#[test]
fn docs_list_every_kind_and_field() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/events.md");
    let page = page();
    if std::env::var_os("SPANLEDGER_WRITE_DOCS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == page,
        "docs/events.md differs from src/trace/schema/: set SPANLEDGER_WRITE_DOCS=1 to rewrite it"
    );
}
