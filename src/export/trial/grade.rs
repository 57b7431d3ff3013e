//! The grade of a trial, and the reviews of it, as far as the closed models of a record can have them.

use serde_json::{Map, Value, json};

use super::super::values::text_of;
use super::{TrialSchema, UNKNOWN, filled};
use crate::session::Node;
use crate::trace::time_text;
use crate::trace::typed::{Annotation, Evaluation};

/// A grade in the form of a record. Scores that it has no member for are its breakdown.
pub(super) fn of(evaluation: &Evaluation<'_>, schema: TrialSchema) -> Map<String, Value> {
    let given = evaluation.scores().and_then(|scores| scores.value());
    let mut scores = match given.unwrap_or_default() {
        Value::Object(scores) => scores,
        reward => Map::from_iter([("reward".to_owned(), reward)]),
    };
    let mut take = |name: &str| scores.remove(name).unwrap_or_default();
    let reward = take("reward").as_f64();
    let reward = reward.filter(|reward| (0.0..=1.0).contains(reward));
    let validity = validity(&take("validity"), reward.is_some());
    let taxonomy = take("error_taxonomy")
        .as_array()
        .map(|tags| tags.iter().filter_map(tag).collect::<Value>());
    let confidence = confidence(&take("confidence"));
    if let Value::Object(breakdown) = take("breakdown") {
        scores.extend(breakdown);
    }
    // Readers refuse a reward for an output that can't be read, and in schema 2 for one that is not valid.
    let is_valid = schema == TrialSchema::V1 || validity["schema_valid"] == true;
    let earned = reward.filter(|_| validity["output_parseable"] == true && is_valid);
    let mut out = Map::from_iter([
        ("reward".to_owned(), earned.unwrap_or(0.0).into()),
        ("validity".to_owned(), validity),
    ]);
    out.extend(taxonomy.map(|tags| ("error_taxonomy".to_owned(), tags)));
    out.extend(confidence.map(|known| ("confidence".to_owned(), known)));
    if !scores.is_empty() {
        out.insert("breakdown".into(), scores.into());
    }
    out
}

/// The checks of an output. Without them, one with a reward has passed.
fn validity(given: &Value, has_reward: bool) -> Value {
    let check = |name: &str| given[name].as_bool().unwrap_or(has_reward);
    let errors = given["errors"].as_array().map(|errors| texts(errors));
    let errors = errors.unwrap_or(match has_reward {
        true => json!([]),
        false => json!(["no reward from 0 to 1 was recorded"]),
    });
    json!({
        "output_parseable": check("output_parseable"),
        "schema_valid": check("schema_valid"),
        "verifier_completed": check("verifier_completed"),
        "errors": errors,
    })
}

/// Those of a list that are texts.
fn texts(list: &[Value]) -> Value {
    list.iter().filter(|one| one.is_string()).cloned().collect()
}

/// A tag of an error, if it has a category and a source.
fn tag(given: &Value) -> Option<Value> {
    let source = given["source"].as_str()?;
    let is_known = ["mechanical", "human", "judge"].contains(&source);
    let mut tag =
        json!({"category": filled(&given["category"])?, "source": is_known.then_some(source)?});
    if let Some(description) = given["description"].as_str() {
        tag["description"] = description.into();
    }
    Some(tag)
}

fn confidence(given: &Value) -> Option<Value> {
    let agreement = given["inter_rater_agreement"].as_f64();
    let agreement = agreement.filter(|agreement| (0.0..=1.0).contains(agreement));
    let interval = given["confidence_interval"]
        .as_array()
        .and_then(|ends| match ends.as_slice() {
            [low, high] if low.as_f64()? <= high.as_f64()? => Some(ends),
            _ => None,
        });
    let mut known = Map::new();
    let mut keep = |name: &str, value: Value| {
        if !value.is_null() {
            known.insert(name.to_owned(), value);
        }
    };
    keep("annotator_count", given["annotator_count"].as_u64().into());
    keep("inter_rater_agreement", agreement.into());
    keep("confidence_interval", json!(interval));
    keep(
        "confidence_method",
        filled(&given["confidence_method"]).into(),
    );
    (!known.is_empty()).then(|| known.into())
}

/// An annotation as a review. One that was made for a record has its members; of any other, all of it is a note.
pub(super) fn review(node: &Node, annotation: &Annotation<'_>) -> Value {
    let value = annotation
        .value()
        .and_then(|value| value.value())
        .unwrap_or_default();
    let is_review = value.get("judgment").is_some();
    let word = value["judgment"].as_str().or(value.as_str());
    let judgment = word.filter(|word| ["pass", "fail", "defer"].contains(word));
    let author = annotation
        .author()
        .filter(|author| !author.trim().is_empty());
    let mut out = json!({
        "reviewer_id": author.unwrap_or(UNKNOWN.into()),
        "timestamp": time_text(node.start, 6),
        "judgment": judgment.unwrap_or("defer"),
    });
    if !is_review {
        if let Some(note) = annotation.value() {
            out["notes"] = text_of(note).into();
        }
        return out;
    }
    if let Some(notes) = value["notes"].as_str() {
        out["notes"] = notes.into();
    }
    if let Some(discipline) = filled(&value["reviewer_discipline"]) {
        out["reviewer_discipline"] = discipline.into();
    }
    if let Some(categories) = value["categories"].as_array() {
        out["categories"] = texts(categories);
    }
    out
}
