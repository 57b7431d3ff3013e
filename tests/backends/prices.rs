//! Prices are those of the Python package `genai-prices`, which is the reference.

use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use spanledger::{Usage, cost};

use crate::support::skipped::skipped;

/// Prints the providers and models of the package, then the price of each request on stdin; null if it has none.
const PYTHON: &str = r#"
import sys, json, datetime
from genai_prices import Usage, calc_price
from genai_prices.data import providers
if len(sys.argv) > 1:
    print(json.dumps([[p.id, m.id] for p in providers for m in p.models]))
    sys.exit()
for request in json.load(sys.stdin):
    at = datetime.datetime.fromtimestamp(request["at"], datetime.timezone.utc)
    try:
        price = calc_price(Usage(**request["usage"]), request["model"], provider_id=request["provider"], genai_request_timestamp=at)
        print(json.dumps(float(price.total_price)))
    except (LookupError, ValueError):
        print("null")
"#;

fn run(python: &std::ffi::OsStr, args: &[&str], input: &str) -> String {
    let mut child = Command::new(python)
        .args(["-c", PYTHON])
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(input.as_bytes()).unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn sampled_prices_equal_those_of_the_python_package() {
    let Some(python) = std::env::var_os("SPANLEDGER_GENAI_PRICES_PYTHON") else {
        return skipped("SPANLEDGER_GENAI_PRICES_PYTHON is not set; see .ci/install");
    };
    let models: Vec<(String, String)> =
        serde_json::from_str(&run(&python, &["models"], "")).unwrap();
    let mut random = fastrand::Rng::with_seed(17);
    let mut requests: Vec<Value> = Vec::new();
    while requests.len() < 200 {
        let (provider, model) = &models[random.usize(..models.len())];
        // From 2025-01-01 to 2026-11-01. Tiers begin at some 100,000 tokens.
        let at = random.u64(1_735_689_600..1_793_491_200);
        let most = [1_000, 100_000, 600_000][random.usize(..3)];
        let input = 1 + random.u64(..most);
        let read = random.u64(..=input / 2);
        let write = random.u64(..=input / 4);
        let mut usage = json!({"input_tokens": input, "output_tokens": random.u64(1..20_000)});
        if random.bool() {
            usage["cache_read_tokens"] = read.into();
            usage["cache_write_tokens"] = write.into();
        }
        requests.push(json!({"provider": provider, "model": model, "at": at, "usage": usage}));
    }
    let printed = run(&python, &[], &json!(requests).to_string());
    let expected: Vec<Option<f64>> = printed
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(expected.len(), requests.len());
    let mut priced = 0;
    for (request, expected) in requests.iter().zip(expected) {
        let count = |name: &str| request["usage"][name].as_u64();
        let usage = Usage {
            input_tokens: count("input_tokens"),
            output_tokens: count("output_tokens"),
            cache_read_tokens: count("cache_read_tokens"),
            cache_write_tokens: count("cache_write_tokens"),
            ..Usage::default()
        };
        let (provider, model) = (request["provider"].as_str(), request["model"].as_str());
        let at = request["at"].as_u64().unwrap() * 1_000_000_000;
        let price = cost::price(provider, model.unwrap(), &usage, at);
        // A model without a price is 0 there and unknown here.
        match (price, expected.filter(|usd| *usd > 0.0)) {
            (Some(ours), Some(theirs)) => {
                priced += 1;
                assert!((ours - theirs).abs() <= 5e-9, "{request}: {ours}, {theirs}");
            }
            (ours, theirs) => assert_eq!(ours, theirs, "{request}"),
        }
    }
    assert!(priced > 150, "{priced} of 200 have a price");
}
