//! Which names are sensitive and which only sound so.

use super::*;

#[test]
#[rustfmt::skip]
fn a_name_of_many_styles_is_sensitive() {
    for key in [
        "password", "Passwd", "DB_PASSWORD", "dbPassword", "PGPASSWORD", "user.password", "pwd",
        "passphrase", "api_key", "apiKey", "APIKEY", "X-Api-Key", "apikey", "HTTPAuthorization",
        "Authorization", "proxy-authorization", "cookie", "Set-Cookie", "credentials", "secret",
        "client_secret", "clientSecret", "AWS_SECRET_ACCESS_KEY", "aws access key", "private_key",
        "signingKey", "encryption-key", "AccountKey", "refresh_token", "access_token", "idToken",
        "session_token", "auth_token", "authToken", "x-auth-token", "bearer", "jwt", "otp",
        "connection_string", "ConnectionString", "webhook_url", "GITHUB_TOKEN", "token",
        "slack_bot_token", "api_key_openai", "password1", "secret_key", "GITHUB_PAT", "SMTP_PASS",
        "dsn", "sas_token", "passcode", "password_hash", "x-amz-security-token", "api keys",
    ] {
        let output = clean_json(&format!(r#"{{"{key}":"some value"}}"#));
        assert!(output.contains("[masked rule=key:"), "{key}: {output}");
    }
}

#[test]
#[rustfmt::skip]
fn a_name_that_only_sounds_sensitive_is_not() {
    for key in [
        "input_tokens", "max_tokens", "maxTokens", "token_count", "tokens", "token_type",
        "token_limit", "token_usage", "tokenizer", "prompt_tokens", "reasoning_tokens",
        "next_page_token", "pageToken", "public_key", "secret_name", "secret_id",
        "password_policy", "key", "keyboard", "author", "authority", "cookie_policy", "cache_key",
        "primary_key", "sort_key", "foreign_key", "keys", "session_id", "pinned", "pin_count",
        "passed", "passes", "path", "pattern", "compass", "design", "signature", "bypass",
        "completion_tokens_details", "time_to_first_token", "tokens_per_second", "eos_token",
        "authorized", "access_key_id", "webhook_id", "connection", "monkey", "keywords", "spin",
        "token_budget", "authorization_endpoint", "cookie_consent", "continuation_token",
    ] {
        let input = format!(r#"{{"{key}":"some value"}}"#);
        assert_eq!(clean_json(&input), input, "{key}");
    }
}
