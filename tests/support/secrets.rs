//! Synthetic secrets, texts that only look like them, and the places secrets turn up in.
//!
//! Every secret is put together from pieces, so that no scanner takes this file for a leak.

/// Letters and digits that look random, `length` of them, the same for the same `seed`.
fn noise(alphabet: &str, length: usize, seed: u64) -> String {
    let letters = alphabet.as_bytes();
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..length)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            char::from(letters[(state >> 33) as usize % letters.len()])
        })
        .collect()
}

fn alnum(length: usize) -> String {
    noise(
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789",
        length,
        11,
    )
}

fn hex(length: usize) -> String {
    noise("0123456789abcdef", length, 23)
}

fn upper(length: usize) -> String {
    noise("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", length, 37)
}

fn lower(length: usize) -> String {
    noise("abcdefghijklmnopqrstuvwxyz0123456789", length, 41)
}

fn digits(length: usize) -> String {
    noise("123456789", length, 53)
}

fn url64(length: usize) -> String {
    noise(
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-",
        length,
        61,
    )
}

fn pem(kind: &str, line_end: &str) -> String {
    let dashes = "-".repeat(5);
    let body: Vec<String> = (0..4).map(|_| alnum(64)).collect();
    let body = body.join(line_end);
    format!(
        "{dashes}BEGIN {kind}{dashes}{line_end}{body}{line_end}{dashes}END {kind}{dashes}{line_end}"
    )
}

/// A PuTTY key file. Only its private lines are unlike those of any other secret here.
fn putty(version: u8, mac: usize, line_end: &str) -> String {
    let base64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let lines = |seed: u64| [noise(base64, 64, seed), noise(base64, 42, seed + 1) + "=="];
    let (public, private) = (lines(71), lines(83));
    [
        &format!("{}-User-Key-File-{version}: ssh-rsa", "PuTTY"),
        "Encryption: none",
        "Comment: ann@example.com",
        "Public-Lines: 2",
        &public.join(line_end),
        "Private-Lines: 2",
        &private.join(line_end),
        &format!("Private-MAC: {}", hex(mac)),
    ]
    .join(line_end)
}

/// A rule family and a secret of it. Secrets known only by their context carry it with them; see
/// [`core`] for the part that must not be seen.
#[rustfmt::skip]
pub fn secrets() -> Vec<(&'static str, String)> {
    let mut all = vec![
        ("openai", format!("{}{}", concat!("s", "k-"), alnum(48))),
        ("openai-project", format!("{}{}", concat!("s", "k-proj-"), url64(120))),
        ("openai-service", format!("{}{}", concat!("s", "k-svcacct-"), url64(80))),
        ("anthropic", format!("{}{}", concat!("s", "k-ant-api03-"), url64(95))),
        ("openrouter", format!("{}{}", concat!("s", "k-or-v1-"), hex(64))),
        ("deepseek", format!("{}{}", concat!("s", "k-"), hex(32))),
        ("huggingface", format!("{}{}", concat!("h", "f_"), alnum(34))),
        ("replicate", format!("{}{}", concat!("r", "8_"), alnum(37))),
        ("groq", format!("{}{}", concat!("g", "sk_"), alnum(52))),
        ("xai", format!("{}{}", concat!("x", "ai-"), alnum(80))),
        ("perplexity", format!("{}{}", concat!("pp", "lx-"), alnum(48))),
        ("langsmith", format!("{}{}_{}", concat!("ls", "v2_pt_"), hex(32), hex(10))),
        ("aws-id", format!("{}{}", concat!("AK", "IA"), upper(16))),
        ("aws-temporary-id", format!("{}{}", concat!("AS", "IA"), upper(16))),
        ("aws-secret", format!("{}{}", concat!("aws_secret_", "access_key="), alnum(40))),
        ("google-api", format!("{}{}", concat!("AI", "za"), url64(35))),
        ("google-oauth", format!("{}{}", concat!("ya", "29."), url64(60))),
        ("google-client", format!("{}{}", concat!("GOC", "SPX-"), url64(28))),
        ("azure-client", format!("{}{}", concat!("abc8", "Q~"), alnum(34))),
        ("azure-account-key", format!("{}{}==", concat!("Account", "Key="), alnum(86))),
        ("azure-sas", format!("{}{}%3D", concat!("?sv=2022-11-02&", "sig="), alnum(42))),
        ("digitalocean", format!("{}{}", concat!("dop", "_v1_"), hex(64))),
        ("github-classic", format!("{}{}", concat!("gh", "p_"), alnum(36))),
        ("github-oauth", format!("{}{}", concat!("gh", "o_"), alnum(36))),
        ("github-user", format!("{}{}", concat!("gh", "u_"), alnum(36))),
        ("github-server", format!("{}{}", concat!("gh", "s_"), alnum(36))),
        ("github-refresh", format!("{}{}", concat!("gh", "r_"), alnum(76))),
        ("github-fine-grained", format!("{}{}_{}", concat!("github", "_pat_"), alnum(22), alnum(59))),
        ("gitlab-personal", format!("{}{}", concat!("gl", "pat-"), url64(20))),
        ("gitlab-deploy", format!("{}{}", concat!("gl", "dt-"), url64(20))),
        ("gitlab-runner", format!("{}{}", concat!("gl", "rt-"), url64(20))),
        ("slack-bot", format!("{}{}-{}-{}", concat!("xo", "xb-"), digits(12), digits(12), alnum(24) )),
        ("slack-user", format!("{}{}-{}-{}", concat!("xo", "xp-"), digits(12), digits(12), hex(32) )),
        ("slack-app", format!("{}{}-{}-{}", concat!("xa", "pp-1-"), upper(11), digits(13), hex(64) )),
        ("slack-webhook", format!("{}T{}/B{}/{}", concat!("https://hooks.", "slack.com/services/"), upper(8), upper(8), alnum(24) )),
        ("stripe-live", format!("{}{}", concat!("sk", "_live_"), alnum(24))),
        ("stripe-restricted", format!("{}{}", concat!("rk", "_live_"), alnum(24))),
        ("stripe-test", format!("{}{}", concat!("sk", "_test_"), alnum(24))),
        ("stripe-webhook", format!("{}{}", concat!("wh", "sec_"), alnum(32))),
        ("twilio", format!("{}{}", "SK", hex(32))),
        ("sendgrid", format!("{}{}.{}", concat!("S", "G."), url64(22), url64(43))),
        ("mailgun", format!("{}{}", concat!("ke", "y-"), hex(32))),
        ("mailchimp", format!("{}{}", hex(32), concat!("-u", "s12"))),
        ("npm", format!("{}{}", concat!("np", "m_"), alnum(36))),
        ("pypi", format!("{}{}", concat!("py", "pi-AgEIcHlwaS5vcmc"), url64(70))),
        ("crates-io", format!("{}{}", concat!("c", "io"), alnum(32))),
        ("rubygems", format!("{}{}", concat!("ruby", "gems_"), hex(48))),
        ("docker", format!("{}{}", concat!("dckr", "_pat_"), url64(27))),
        ("databricks", format!("{}{}", concat!("da", "pi"), hex(32))),
    ];
    all.extend(more_secrets());
    all
}

#[rustfmt::skip]
fn more_secrets() -> Vec<(&'static str, String)> {
    vec![
        ("linear", format!("{}{}", concat!("lin", "_api_"), alnum(40))),
        ("notion", format!("{}{}", concat!("sec", "ret_"), alnum(43))),
        ("notion-new", format!("{}{}", concat!("nt", "n_"), alnum(46))),
        ("shopify", format!("{}{}", concat!("shp", "at_"), hex(32))),
        ("square", format!("{}{}", concat!("sq0", "atp-"), url64(22))),
        ("discord-webhook", format!("{}{}/{}", concat!("https://discord", ".com/api/webhooks/"), digits(18), url64(68) )),
        ("discord-bot", format!("{}{}.{}.{}", concat!("MT", "Ax"), alnum(22), alnum(6), alnum(38) )),
        ("telegram", format!("{}{}{}", digits(10), concat!(":A", "A"), url64(33))),
        ("grafana-service", format!("{}{}_{}", concat!("gl", "sa_"), alnum(32), hex(8))),
        ("grafana-cloud", format!("{}{}", concat!("gl", "c_"), alnum(60))),
        ("new-relic", format!("{}{}", concat!("NR", "AK-"), upper(27))),
        ("sentry", format!("{}{}_{}", concat!("snt", "rys_"), alnum(80), alnum(43))),
        ("vault", format!("{}{}", concat!("hv", "s."), url64(90))),
        ("terraform", format!("{}{}{}", alnum(14), concat!(".atl", "asv1."), url64(67))),
        ("planetscale", format!("{}{}", concat!("psc", "ale_tkn_"), url64(43))),
        ("supabase", format!("{}{}", concat!("sb", "p_"), hex(40))),
        ("fly", format!("{}{}", concat!("fo", "1_"), url64(43))),
        ("postman", format!("{}{}-{}", concat!("PM", "AK-"), hex(24), hex(34))),
        ("doppler", format!("{}{}", concat!("dp.", "pt."), alnum(43))),
        ("pulumi", format!("{}{}", concat!("pu", "l-"), hex(40))),
        ("age", format!("{}{}", concat!("AGE-SECRET-", "KEY-1"), upper(58))),
        ("atlassian", format!("{}{}", concat!("AT", "ATT3"), url64(180))),
        ("figma", format!("{}{}", concat!("fi", "gd_"), url64(40))),
        ("airtable", format!("{}{}.{}", concat!("p", "at"), alnum(14), hex(64))),
        ("prefect", format!("{}{}", concat!("pn", "u_"), lower(36))),
        ("prefect-mixed", format!("{}{}", concat!("pn", "u_"), alnum(36))),
        ("octopus", format!("{}{}", concat!("AP", "I-"), upper(26))),
        ("mapbox", format!("{}{}.{}", concat!("sk", ".eyJ"), alnum(57), alnum(22))),
        ("netlify", format!("{}{}", concat!("nf", "p_"), alnum(36))),
        ("scalingo", format!("{}{}", concat!("tk-", "us-"), url64(48))),
        ("tailscale", format!("{}{}-{}", concat!("tsk", "ey-auth-"), alnum(12), alnum(32))),
        ("web-token", format!("{}{}.{}{}.{}", concat!("ey", "J"), alnum(33), concat!("ey", "J"), alnum(60), url64(43) )),
        ("private-key", pem("RSA PRIVATE KEY", "\n")),
        ("private-key-ssh", pem("OPENSSH PRIVATE KEY", "\n")),
        ("private-key-pkcs8", pem("PRIVATE KEY", "\n")),
        ("private-key-escaped", pem("EC PRIVATE KEY", "\\n")),
        ("putty-key", putty(2, 40, "\r\n")),
        ("putty-key-3", putty(3, 64, "\n")),
        ("putty-key-escaped", putty(3, 64, "\\n")),
        ("bearer-header", format!("{}{}", concat!("Authorization: ", "Bearer "), alnum(40))),
        ("basic-header", format!("{}{}", concat!("Authorization: ", "Basic "), alnum(24))),
        ("lone-bearer", format!("{}{}", concat!("Bea", "rer "), alnum(32))),
        ("api-key-header", format!("{}{}", concat!("X-Api-", "Key: "), alnum(28))),
        ("cookie-header", format!("{}{}", concat!("Cookie", ": sid="), alnum(28))),
        ("url-password", format!("{}{}@db.example.com:5432/app", concat!("postgres://", "app:"), alnum(18) )),
        ("query-parameter", format!("{}{}", concat!("https://api.example.com/v1?", "api_key="), alnum(28) )),
        ("env-assignment", format!("{}{}", concat!("DB_", "PASSWORD="), "hunter2-Correct")),
        ("export", format!("{}{}", concat!("export API_", "TOKEN="), alnum(28))),
        ("yaml", format!("{}{}", concat!("pass", "word: "), "hunter2-Correct")),
        ("quoted-json", format!("{}\"{}\"", concat!("\"api", "_key\": "), alnum(20))),
        ("escaped-json", format!("{}\\\"{}\\\"", concat!("\\\"api", "_key\\\": "), alnum(20))),
        ("single-quotes", format!("{}'{}'", concat!("'client", "_secret': "), alnum(20))),
        ("flag", format!("{}{}", concat!("--pass", "word "), "hunter2-Correct")),
        ("flag-equals", format!("{}{}", concat!("--api", "-key="), alnum(20))),
        ("mysql", format!("{}{} app", concat!("mysql -u root ", "-p"), "hunter2-Correct" )),
        ("curl-user", format!("{}{} https://example.com", concat!("curl -u ", "admin:"), "hunter2-Correct" )),
    ]
}

/// The part of a secret that must not be seen: of one that carries its context, what follows it.
pub fn core(secret: &str) -> &str {
    let dashes = "-".repeat(5);
    if secret.starts_with(&dashes) {
        return &secret[40..200];
    }
    if let Some((_, private)) = secret.split_once("Private-Lines: 2") {
        let line = private.trim_start_matches(['\r', '\n', '\\', 'n']);
        return &line[..60];
    }
    let marks = [
        "PASSWORD=",
        "TOKEN=",
        "access_key=",
        "AccountKey=",
        "sig=",
        "Bearer ",
        "Basic ",
        "Key: ",
        "Cookie: ",
        "postgres://app:",
        "api_key=",
        "password: ",
        "\": \"",
        "\\\": \\\"",
        "': '",
        "--password ",
        "--api-key=",
        "root -p",
        "admin:",
        "services/",
        "webhooks/",
    ];
    let start = marks
        .iter()
        .filter_map(|m| secret.find(m).map(|at| at + m.len()))
        .max()
        .unwrap_or(0);
    let rest = &secret[start..];
    let end = rest
        .find(['"', '\'', '\\', '@', ' ', '%'])
        .unwrap_or(rest.len());
    &rest[..end]
}

/// A secret in each of six positions, as the position's name and a text. The first three are JSON.
pub fn positions(secret: &str) -> Vec<(&'static str, String)> {
    let quoted = serde_json::Value::from(secret).to_string();
    let note = serde_json::Value::from(format!("use {secret} now")).to_string();
    let nested = format!(r#"{{"a":[{{"b":{{"note":{note}}}}}],"n":1}}"#);
    let in_string = serde_json::Value::from(nested.clone()).to_string();
    vec![
        ("under a key", format!(r#"{{"api_key":{quoted}}}"#)),
        ("nested JSON", nested),
        ("JSON in a string", format!(r#"{{"body":{in_string}}}"#)),
        (
            "command line",
            format!("deploy --region eu --token {secret} --verbose"),
        ),
        (
            "URL",
            format!("GET https://example.com/v1/items?page=2&access_token={secret}"),
        ),
        (
            "log message",
            format!("connecting with {secret} failed after 3 tries"),
        ),
    ]
}

/// Texts that must stay as they are.
pub fn look_alikes() -> Vec<String> {
    [
        "9fceb02d0ae598e95dc970b74767f19372d61af8",
        "commit 9fceb02d0ae598e95dc970b74767f19372d61af8 (HEAD -> main)",
        "550e8400-e29b-41d4-a716-446655440000",
        "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "md5 d41d8cd98f00b204e9800998ecf8427e",
        "ses_0193c2f0a1b2AbCdEfGhIjKlMn",
        "msg_01XFDUDYJgAACzvnptvVoYEL",
        "prt_0193c2f0a1b2AbCdEfGhIjKl",
        "call_abc123DEF456ghi789JKL012",
        "toolu_01A09q90qw90lq917835lq9",
        "resp_67ccd2bed1ec8190b14f964abc0542670bb6a6b452d3795b",
        "chatcmpl-B9MBs8CjcvOU2jLn4n570S5qMJKcT",
        "req_011CQ4xT8mbMzvW3cVq7rLxY",
        "claude-sonnet-4-5-20250929",
        "gpt-4o-mini-2024-07-18",
        "max_tokens=4096",
        "token_count: 12",
        "input_tokens=1024 output_tokens=256 total_tokens: 1280",
        r#"{"usage":{"prompt_tokens":12,"completion_tokens":34,"reasoning_tokens":5}}"#,
        r#"{"next_page_token":"CAEQAA","token_type":"bearer","token_limit":8192}"#,
        r#"{"secret_name":"prod/db","password_policy":"strong","public_key":"ssh-ed25519 AAAAC3Nza"}"#,
        r#"{"key":"value","cache_key":"user:42","primary_key":"id","sort_key":"created"}"#,
        r#"{"author":"Ann","authority":"example.com","keyboard":"qwerty","tokenizer":"o200k"}"#,
        r#"{"cookie_policy":"strict","has_password":true,"password":null,"token":""}"#,
        "password=$DB_PASSWORD",
        "password=${DB_PASSWORD}",
        "export API_TOKEN=$(cat token.txt)",
        "--password <password>",
        "password: ***",
        "API_KEY=your-api-key-here",
        "headers = {\"Authorization\": f\"Bearer {token}\"}",
        "headers: { Authorization: `Bearer ${token}` }",
        "\"required\": [\"username\", \"password\", \"email\"]",
        "const token = await getToken();",
        "logger.info(f\"token={token} user={user}\")",
        "print(\"token: \", token, \"x\")",
        "if (password === confirmPassword) {",
        "- token: ${{ secrets.GITHUB_TOKEN }}",
        "docker run -p 8080:80 nginx",
        "mysql -u root -p mydb",
        "for key in keys: print(key)",
        "password: null",
        "password=None",
        "secret=",
        "api_key=os.environ[\"OPENAI_API_KEY\"]",
        "apiKey: process.env.OPENAI_API_KEY,",
        "token = env(\"TOKEN\")",
        "def login(user: str, password: str) -> bool:",
        "struct Auth { token: String, password: Option<String> }",
        "connect(user=user, password=password)",
        "the password is required",
        "Token: see below",
        "Enter your password:",
        "Unexpected token: '}' in JSON at position 4",
        "Authorization: Bearer $TOKEN",
        "curl -H \"Authorization: Bearer ${API_TOKEN}\" https://example.com",
        "https://example.com/path?page=2&sort=name",
        "ssh://git@github.com/org/repo.git",
        "git@github.com:org/repo.git",
        "http://localhost:8080/@scope/package",
        "postgres://app:${DB_PASS}@db/app",
        "/home/ann/.config/app/settings.toml",
        "SSH_KEY_PATH=/home/ann/.ssh/id_ed25519",
        "PWD=/home/ann/project",
        "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
        "-----BEGIN CERTIFICATE-----\nMIIBszCCAVmgAwIBAgIUQ\n-----END CERTIFICATE-----",
        "-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQYIKoZI\n-----END PUBLIC KEY-----",
        "PuTTY-User-Key-File-3: ssh-ed25519\nEncryption: none\nComment: ann\nPublic-Lines: 2\nAAAAC3NzaC1lZDI1NTE5AAAAIHJCszOHaI9XyGLtjn22f0hO6VPMQDVtctkym6F1JH1\n",
        "Private-Lines: 14 is how many lines follow, and Private-MAC: vouches for them",
        "Private-Lines: 2\n(two lines of base64)\nPrivate-MAC: 40 digits",
        "pip install scikit-learn sk-learn-contrib-tools-and-extras",
        "let tokens = tokenizer.encode(text);",
        "token = parser.next_token()",
        "fetch(url, { credentials: 'include' })",
        "mkdir -p /opt/build && cp -u src/a:b dest",
        "Basic authentication is not supported",
        "the Bearer authentication scheme",
        "password_min_length: 12",
        "secret_key_base is not set",
        "SELECT * FROM users WHERE password = ? AND token = :token",
        "2024-05-01T12:00:00Z INFO tokens per second: 42.5",
        "key: a, value: b",
        "index 83db48f..bf2a1c9 100644",
        "Cargo.lock checksum = \"4b4ce301924b7887e9d637144fdade93f9dfff9b60981d4ac161db09720d39aa\"",
        "",
        "a",
        "[masked rule=github-pat bytes=40 hmac=0123456789abcdef key=01234567]",
        "password=[masked rule=key:password bytes=9 hmac=0123456789abcdef key=01234567]",
        r#"{"password":"[masked rule=key:password bytes=9 hmac=0123456789abcdef key=01234567]"}"#,
    ]
    .map(str::to_owned)
    .into()
}
