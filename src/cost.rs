//! What model calls cost, in US dollars.
//!
//! A recorded `cost_usd` counts; else the call is priced by the table inside the crate `genai-prices`, at the time
//! of the call and without a network. An unknown price is `None`, never 0, and a [`Cost`] counts the calls that it
//! could not price. Without the feature `cost` there is no table, and only recorded costs are known.
//!
//! The table has the list prices of ordinary requests. Discounts of a contract, batch requests and other service
//! tiers are not in it; record `cost_usd` where they apply.

use serde_json::{Value, json};

use crate::trace::Usage;
use crate::trace::typed::ModelCall;

/// The price of one model call in US dollars by the table, also if a cost was recorded. `at` is the time of the call in
/// nanoseconds since 1970.
///
/// It is `None` if the table does not have the provider, the model or a price for it; if input or output is unknown
/// and the model has a price for that; or if the counts contradict each other, such as more cached than all
/// input. Without a provider, the model's name decides.
///
/// ```
/// use spanledger::{Usage, cost};
/// let usage = Usage { input_tokens: Some(1_000), output_tokens: Some(100), ..Usage::default() };
/// let at = 1_790_000_000_000_000_000;
/// # #[cfg(feature = "cost")]
/// assert!(cost::price(Some("openai"), "gpt-5", &usage, at).is_some_and(|usd| usd > 0.0));
/// assert_eq!(cost::price(None, "a-model-of-my-own", &usage, at), None);
/// ```
pub fn price(provider: Option<&str>, model: &str, usage: &Usage, at: u64) -> Option<f64> {
    table::price(provider, model, usage, at)
}

/// The cost of several model calls. What is not known is counted, so a sum with unpriced calls is a lower bound.
///
/// ```
/// use spanledger::{Usage, cost::Cost};
/// let mut cost = Cost::default();
/// cost.add(None, "m", &Usage { cost_usd: Some(0.25), ..Usage::default() }, 0);
/// cost.add(None, "a-model-of-my-own", &Usage::default(), 0);
/// assert_eq!((cost.usd(), cost.is_partial()), (Some(0.25), true));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    sum: f64,
    /// Calls whose cost was recorded.
    pub recorded: u64,
    /// Calls that the table priced.
    pub priced: u64,
    /// Calls whose cost is unknown.
    pub unknown: u64,
}

impl Cost {
    /// The cost that was recorded, if one was.
    pub(crate) fn recorded(usage: &Usage) -> Self {
        let known = usage.cost_usd.filter(|usd| usd.is_finite());
        Self {
            sum: known.unwrap_or_default(),
            recorded: known.is_some().into(),
            ..Self::default()
        }
    }

    /// Adds one model call: its recorded cost, else its price. Returns what was added.
    pub fn add(
        &mut self,
        provider: Option<&str>,
        model: &str,
        usage: &Usage,
        at: u64,
    ) -> Option<f64> {
        let recorded = usage.cost_usd.filter(|usd| usd.is_finite());
        if let Some(usd) = recorded {
            self.recorded += 1;
            self.sum += usd;
            return recorded;
        }
        let priced = price(provider, model, usage, at);
        match priced {
            Some(usd) => {
                self.priced += 1;
                self.sum += usd;
            }
            None => self.unknown += 1,
        }
        priced
    }

    /// Adds a model call by its line: its recorded cost, else the price of the model that answered, else of the one
    /// asked for. `provider` and `model` are those of the run, for a call that names none; `at` is when it began.
    pub(crate) fn add_call(
        &mut self,
        call: &ModelCall<'_>,
        provider: Option<&str>,
        model: &str,
        at: u64,
    ) {
        let usage = call.usage().unwrap_or_default();
        self.add_usage_of(call, &usage, provider, model, at);
    }

    /// The same with the usage that counts for the call.
    pub(crate) fn add_usage_of(
        &mut self,
        call: &ModelCall<'_>,
        usage: &Usage,
        provider: Option<&str>,
        model: &str,
        at: u64,
    ) {
        let own = call.provider_id();
        let provider = own.as_deref().or(provider);
        let asked = call.model_id();
        let answered = call.response_model().or_else(|| asked.clone());
        let mut cost = Self::default();
        let known = cost.add(provider, answered.as_deref().unwrap_or(model), usage, at);
        // The provider answers with a name of its own, which the table may not have.
        if let (None, Some(asked)) = (known, &asked) {
            cost = Self::default();
            cost.add(provider, asked, usage, at);
        }
        self.merge(&cost);
    }

    /// Adds another sum.
    pub fn merge(&mut self, other: &Self) {
        self.sum += other.sum;
        self.recorded += other.recorded;
        self.priced += other.priced;
        self.unknown += other.unknown;
    }

    /// The sum of what is known; `None` if no call's cost is.
    pub fn usd(&self) -> Option<f64> {
        (self.recorded + self.priced > 0).then_some(self.sum)
    }

    /// Whether calls of unknown cost are missing from the sum.
    pub fn is_partial(&self) -> bool {
        self.unknown > 0
    }

    /// As JSON, with stable names.
    pub fn to_json(&self) -> Value {
        json!({
            "usd": self.usd(),
            "partial": self.is_partial(),
            "recorded_calls": self.recorded,
            "priced_calls": self.priced,
            "unknown_calls": self.unknown,
        })
    }
}

#[cfg(feature = "cost")]
mod table {
    use std::time::{Duration, UNIX_EPOCH};

    use genai_prices::{PriceCalculation, PriceRequest, UsageKey, calculate};
    use serde_json::Value;

    use crate::trace::Usage;

    /// Output tokens to learn by whether a model has a price for output.
    const PROBE: u64 = 1_000_000;

    pub fn price(provider: Option<&str>, model: &str, usage: &Usage, at: u64) -> Option<f64> {
        let input = usage.input_tokens.or_else(|| all_input(usage))?;
        let calculate = |output: u64| -> Option<PriceCalculation> {
            let counts = counts(usage, input, output);
            let request = PriceRequest::new(model, &counts)
                .with_timestamp(UNIX_EPOCH + Duration::from_nanos(at));
            let request = match provider.filter(|provider| !provider.is_empty()) {
                Some(provider) => request.with_provider_id(provider),
                None => request,
            };
            calculate(&request).ok()
        };
        if usage.output_tokens.is_none() && calculate(PROBE)?.output_price > 0.0 {
            return None;
        }
        let output = usage.output_tokens.unwrap_or(0);
        let price = calculate(output)?.total_price;
        // The table lists models without any price: subscriptions, and models that are gone.
        let free = price == 0.0 && (input > 0 || output > 0);
        (price.is_finite() && !free).then_some(price)
    }

    /// All input, where only its parts were recorded.
    fn all_input(usage: &Usage) -> Option<u64> {
        let cached = [usage.cache_read_tokens, usage.cache_write_tokens];
        let cached = cached.into_iter().flatten().fold(0, u64::saturating_add);
        Some(usage.input_uncached_tokens?.saturating_add(cached))
    }

    fn counts(usage: &Usage, input: u64, output: u64) -> genai_prices::Usage {
        let counts = [
            (UsageKey::INPUT_TOKENS, Some(input)),
            (UsageKey::OUTPUT_TOKENS, Some(output)),
            (UsageKey::CACHE_READ_TOKENS, usage.cache_read_tokens),
            (UsageKey::CACHE_WRITE_TOKENS, usage.cache_write_tokens),
            (UsageKey::CACHE_WRITE_1H_TOKENS, cached_for_an_hour(usage)),
            (UsageKey::OUTPUT_REASONING_TOKENS, usage.reasoning_tokens),
        ];
        let known = counts.into_iter();
        known
            .filter_map(|(key, count)| Some((key, count? as f64)))
            .collect()
    }

    /// Anthropic's part of the cache writes that has a price of its own.
    fn cached_for_an_hour(usage: &Usage) -> Option<u64> {
        let details = usage.usage_details.as_ref()?;
        let parts = details.get("cache_creation")?;
        let tokens = parts.get("ephemeral_1h_input_tokens")?;
        Value::as_u64(tokens).filter(|_| usage.cache_write_tokens.is_some())
    }
}

#[cfg(not(feature = "cost"))]
mod table {
    use crate::trace::Usage;

    pub fn price(_: Option<&str>, _: &str, _: &Usage, _: u64) -> Option<f64> {
        None
    }
}

#[cfg(all(test, feature = "cost"))]
mod tests {
    use serde_json::json;

    use super::*;

    /// 2026-10-15.
    const AT: u64 = 1_792_022_400_000_000_000;

    fn usage(input: u64, output: u64) -> Usage {
        Usage {
            input_tokens: Some(input),
            output_tokens: Some(output),
            ..Usage::default()
        }
    }

    fn dollars(model: &str, usage: &Usage) -> f64 {
        price(Some("anthropic"), model, usage, AT).unwrap()
    }

    #[test]
    fn cached_input_has_its_own_price() {
        let plain = usage(1_000_000, 0);
        let read = Usage {
            cache_read_tokens: Some(1_000_000),
            ..plain.clone()
        };
        let written = Usage {
            cache_write_tokens: Some(1_000_000),
            ..plain.clone()
        };
        let hour = Usage {
            usage_details: Some(
                json!({"cache_creation": {"ephemeral_1h_input_tokens": 1_000_000}}),
            ),
            ..written.clone()
        };
        let prices = [read, plain, written, hour].map(|one| dollars("claude-sonnet-4-5", &one));
        assert!(prices.is_sorted_by(|a, b| a < b), "{prices:?}");
    }

    #[test]
    fn only_parts_of_the_input_add_up() {
        let parts = Usage {
            input_uncached_tokens: Some(100),
            cache_read_tokens: Some(900),
            output_tokens: Some(10),
            ..Usage::default()
        };
        let whole = Usage {
            cache_read_tokens: Some(900),
            ..usage(1_000, 10)
        };
        let model = "claude-sonnet-4-5";
        assert_eq!(dollars(model, &parts), dollars(model, &whole));
    }

    #[test]
    fn what_is_not_known_has_no_price() {
        let known = usage(1_000, 10);
        let no_output = Usage {
            output_tokens: None,
            ..known.clone()
        };
        let more_cached_than_all = Usage {
            cache_read_tokens: Some(2_000),
            ..known.clone()
        };
        for (provider, model, usage) in [
            ("anthropic", "claude-sonnet-4-5", &Usage::default()),
            ("anthropic", "claude-sonnet-4-5", &no_output),
            ("anthropic", "claude-sonnet-4-5", &more_cached_than_all),
            ("anthropic", "no-such-model", &known),
            ("a provider of my own", "claude-sonnet-4-5", &known),
            // It has no price per token.
            ("github-copilot", "gpt-4.1", &known),
        ] {
            assert_eq!(price(Some(provider), model, usage, AT), None, "{model}");
        }
        // An embedding has no output.
        let embedding = price(Some("openai"), "text-embedding-3-small", &no_output, AT);
        assert!(embedding.is_some_and(|usd| usd > 0.0));
    }

    #[test]
    fn a_recorded_cost_wins() {
        let mut cost = Cost::default();
        let recorded = Usage {
            cost_usd: Some(7.0),
            ..usage(1_000, 10)
        };
        cost.add(Some("anthropic"), "claude-sonnet-4-5", &recorded, AT);
        cost.add(
            Some("anthropic"),
            "claude-sonnet-4-5",
            &usage(1_000, 10),
            AT,
        );
        assert_eq!((cost.recorded, cost.priced, cost.unknown), (1, 1, 0));
        assert!(cost.usd().unwrap() > 7.0 && !cost.is_partial());
    }
}
