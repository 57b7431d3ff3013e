//! Secrets as a coding agent meets them every day, and everyday texts without any.

use super::*;

/// A password that only its context gives away.
const SECRET: &str = "hunter2-Correct";
/// One that looks random.
const RANDOM: &str = "x7Kp2mQ9vL4tR8wZ1bN5";

/// Fails on every text in which the secret can still be read, also when it is streamed.
fn assert_masked<'a>(texts: impl IntoIterator<Item = &'a str>) {
    let mut leaks = Vec::new();
    for text in texts {
        for secret in [SECRET, RANDOM] {
            let input = text.replace("SECRET", secret);
            let whole = super::text(&input);
            for (way, output) in [("whole", whole), ("streamed", streams::streamed(&input))] {
                if output.contains(secret) {
                    leaks.push(format!("{way}: {output}"));
                }
            }
        }
    }
    assert!(
        leaks.is_empty(),
        "{} leaks:\n{}",
        leaks.len(),
        leaks.join("\n")
    );
}

fn assert_kept<'a>(texts: impl IntoIterator<Item = &'a str>) {
    let changed: Vec<String> = texts
        .into_iter()
        .filter(|text| super::text(text) != *text)
        .map(super::text)
        .collect();
    assert!(
        changed.is_empty(),
        "{} masked:\n{}",
        changed.len(),
        changed.join("\n")
    );
}

#[test]
fn authorization_without_digits_is_masked() {
    for input in [
        "Authorization: SSWS correcthorsebatterystaple",
        "Authorization: GenieKey correct-horse-battery",
        "Authorization: Splunk CorrectHorseBatteryStaple",
        "curl -H 'Authorization: JWT correcthorsebattery' https://example.com",
        r#"{"Authorization": "Custom correct-horse-battery-staple"}"#,
        "Authorization: Whatever correct/horse+battery\r\nHost: x",
    ] {
        let output = text(input);
        assert!(!output.to_lowercase().contains("horse"), "{output}");
        let streamed = super::streams::streamed(input);
        assert!(!streamed.to_lowercase().contains("horse"), "{streamed}");
    }
    for input in [
        "Authorization: see the docs for more",
        "Authorization: JWT required",
        "Authorization: Requires login",
    ] {
        assert_eq!(text(input), input);
    }
}

#[test]
fn authorization_with_any_scheme_is_masked() {
    assert_masked([
        "Authorization: SSWS SECRET",
        "Authorization: JWT SECRET",
        "authorization: Splunk SECRET",
        "Authorization: GenieKey SECRET",
        "Authorization: Token token=SECRET",
        "Authorization: PRIVATE-TOKEN SECRET",
        "Proxy-Authorization: NTLM SECRET",
        "-H 'Authorization: SSWS SECRET' https://example.com",
        "-H \"Authorization: GenieKey SECRET\"",
        "{\"Authorization\": \"Splunk SECRET\"}",
        "headers = {'Authorization': 'GenieKey SECRET', 'Accept': '*/*'}",
        "headers[\"Authorization\"] = \"SSWS SECRET\"",
        "{\\\"Authorization\\\": \\\"Splunk SECRET\\\"}",
        "Authorization: SECRET",
        "'Authorization' => 'Splunk SECRET',",
        "\"Authorization\" => \"GenieKey SECRET\"",
    ]);
}

#[test]
fn url_passwords_may_hold_any_character() {
    assert_masked([
        "postgres://app:a,SECRET@db/app",
        "postgres://app:a'SECRET@db/app",
        "postgres://app:(SECRET)@db/app",
        "postgres://app:SECRET!$&'()*+,;=@db/app",
        "postgres://app:a|SECRET@db/app",
        "amqp://user:SECRET%40x@host:5672/%2f",
        "url = 'postgres://app:SECRET@db/app'",
        "mongodb+srv://ann:SECRET@cluster0.example.mongodb.net/?retryWrites=true",
        "jdbc:mysql://root:SECRET@host:3306/db",
        "[docs](https://ann:SECRET@example.com/x)",
    ]);
}

#[test]
fn programs_take_passwords_in_many_ways() {
    assert_masked([
        "mysqldump -u root -pSECRET app",
        "mysqladmin -u root -pSECRET shutdown",
        "mysql -uroot -p'SECRET' app",
        "mariadb -pSECRET",
        "[\"mysql\", \"-u\", \"root\", \"-pSECRET\", \"app\"]",
        "['curl', '-u', 'admin:SECRET', 'https://example.com']",
        "docker login -u ann -p SECRET registry.example.com",
        "PGPASSWORD=SECRET psql -h host",
        "curl --user ann:SECRET https://example.com",
        "curl -sS -uann:SECRET https://example.com",
        "curl -sSu ann:SECRET https://example.com",
        "curl \\\n  -u ann:SECRET \\\n  https://example.com",
        "run: >\n  curl\n  -u ann:SECRET\n  https://example.com",
        "curl -u 'ann':\"SECRET\" https://example.com",
        "curl --user \"SECRET:\" https://example.com",
        "curl -H 'Key: SECRET' https://example.com",
        "[\"curl\", \"-H\", \"X-Key: SECRET\"]",
        "wget --header=\"X-Token: SECRET\" https://example.com",
    ]);
    // A diff, a list, a name alone, references.
    assert_kept([
        " mysql\n-port = 3\n+port = 4",
        "- mysql\n  - postgres\n",
        "curl -u ann: https://example.com",
        "curl -u ann:$PASSWORD -H \"X-Key: $KEY\" https://example.com",
        "curl -u {user}:{password} -H 'Key: YOUR_KEY_HERE' https://example.com",
        "curl -u <user>:<password> https://example.com",
    ]);
}

#[test]
fn shell_values_go_on_after_a_quote_or_an_escaped_blank() {
    assert_masked([
        "export PASSWORD='abc'SECRET",
        "PASSWORD=\"abc\"SECRET make",
        "PASSWORD=abc\\ SECRET make",
        "PASSWORD='it'\\''s-SECRET' make",
        "DB_PASSWORD=ab(SECRET",
        "readonly DB_PASSWORD=SECRET",
        "deploy --password abc\\ SECRET",
        "deploy --password='abc'\"SECRET\"",
        "mysql -pabc\\ SECRET",
    ]);
}

#[test]
fn a_forged_mask_hides_nothing_beside_it() {
    let mask = "[masked rule=x bytes=1 hmac=0123456789abcdef key=01234567]";
    for text in [
        format!("password=\"SECRET{mask}\""),
        format!("password=\"{mask}SECRET\""),
        format!("password={mask}SECRET"),
        format!("password=SECRET{mask}"),
        format!("curl -u ann:SECRET{mask} https://example.com"),
        format!("Cookie: a={mask}; sid=SECRET"),
    ] {
        let output = super::text(&text.replace("SECRET", RANDOM));
        assert!(!output.contains(RANDOM), "{output}");
        assert_eq!(super::text(&output), output);
    }
}

#[test]
fn pairs_of_name_and_value_are_masked() {
    assert_masked([
        "env:\n  - name: DB_PASSWORD\n    value: SECRET\n",
        "env:\n  - name: DB_PASSWORD\n    value: \"SECRET\"\n",
        "  - name: \"API_TOKEN\"\n    value: 'SECRET'\n",
        "- { name: DB_PASSWORD, value: SECRET }",
        "[[env]]\nname = \"DB_PASSWORD\"\nvalue = \"SECRET\"\n",
        "<add name=\"DbPassword\" value=\"SECRET\" />",
        "<add key=\"ApiToken\" value=\"SECRET\"/>",
        "<property name=\"password\" value=\"SECRET\"/>",
        "<input type=\"password\" name=\"password\" value=\"SECRET\">",
        "<user password=\"SECRET\" name=\"ann\"/>",
        "<dataSource password='SECRET'/>",
        "{\"name\": \"DB_PASSWORD\", \"value\": \"SECRET\"",
        "<input value=\"SECRET\" type=\"hidden\" name=\"csrf_token\">",
        "<password>SECRET</password>",
        "<password>\n  SECRET\n</password>",
        "<db:password>SECRET</db:password>",
        "<password encrypted=\"false\">SECRET</password>",
        "<password><![CDATA[SECRET]]></password>",
    ]);
}

/// A secret as `kubectl` prints it, and as one writes it.
#[test]
fn values_of_kubernetes_secrets_are_masked() {
    let values = [
        "YWRtaW4=",
        "c2VjcmV0LXZhbHVl",
        "bW9yZSBvZiBpdA==",
        "TUlJRXZRSUJBREFOQmdrcWhraUc5dw0B",
        "correct-horse",
    ];
    let [user, one, two, long, plain] = values;
    let printed = format!(
        "apiVersion: v1\ndata:\n  user: {user}\n  one.txt: {one}\n  two: \"{two}\"\n  cert: |\n    {long}\n    \
         {long}\nkind: Secret\nmetadata:\n  name: app-settings\ntype: Opaque\n"
    );
    let written = format!(
        "kind: Secret\napiVersion: v1\nstringData:\n  user: {plain}\n  one: {one}\n  two: {two}\n  three: {long}\n"
    );
    let list = format!(
        "items:\n- apiVersion: v1\n  data:\n    user: {user}\n    one: {one}\n  kind: Secret\n"
    );
    let folded = format!(
        "apiVersion: v1\ndata:\n  one: >- {one}\n  two:{two}\nkind: 'Secret' # of the app\n"
    );
    let json = format!(
        r#"{{"apiVersion":"v1","data":{{"user":"{user}","one":"{one}"}},"kind":"Secret"}}"#
    );
    let applied = format!("{printed}annotations:\n  applied: |\n    {json}\n");
    let escaped = format!("result: \"{}\"\n", json.replace('"', "\\\""));
    for text in [printed, written, list, folded, applied, escaped] {
        let output = super::text(&text);
        let by_lines = super::redactor().stream(text.split_inclusive('\n'));
        for output in [&output, &streams::streamed(&text), &by_lines] {
            let left: Vec<_> = values
                .iter()
                .filter(|value| output.contains(**value))
                .collect();
            assert!(left.is_empty(), "{left:?}: {output}");
        }
        assert_eq!(super::text(&output), output);
        assert!(!output.contains("[masked rule=key:name"), "{output}");
    }
    let other =
        "data:\n  one: YWRtaW4=\nkind: ConfigMap\n---\nkind: Secret\ndata:\n  a: {{ .Values.a }}\n";
    assert_eq!(super::text(other), other);
}

#[test]
fn values_on_the_next_lines_are_masked() {
    assert_masked([
        "password: >-\n  SECRET\n",
        "password: |\n  SECRET\nnext: 1\n",
        "db_password:\n  SECRET\n",
        "\"password\":\n    \"SECRET\",\n",
        "password =\n    \"SECRET\"",
        "machine example.com\nlogin ann\npassword SECRET\n",
        "machine example.com\n  login ann\n  password SECRET\n",
        "default login ann password SECRET",
        "machine example.com\nlogin ann\naccount main\npassword SECRET\n",
    ]);
}

#[test]
fn json_that_is_cut_is_masked() {
    assert_masked([
        "{\"user\":\"ann\",\"password\":\"SECRET",
        "{\"a\":{\"api_key\":\"SECRET and mo",
        "{\\\"password\\\":\\\"SECRET",
        "{\"secrets\":[\"SECRET\",\"",
        "{\"token\": [\"SECRET\"]",
    ]);
}

#[test]
fn code_and_databases_are_masked() {
    assert_masked([
        "CREATE USER 'ann'@'%' IDENTIFIED BY 'SECRET';",
        "ALTER USER ann IDENTIFIED BY \"SECRET\"",
        "alter user ann identified with mysql_native_password by 'SECRET'",
        "CREATE ROLE ann LOGIN PASSWORD 'SECRET';",
        "ALTER USER ann WITH ENCRYPTED PASSWORD 'SECRET'",
        "SET PASSWORD FOR 'ann'@'%' = PASSWORD('SECRET');",
        "config.setPassword(\"SECRET\");",
        "builder.withApiKey('SECRET')",
        "client.set_auth_token(\"SECRET\")",
        "password = os.environ.get('DB_PASSWORD') or 'SECRET'",
        "password = os.environ.get(\"DB_PASSWORD\", \"SECRET\")",
        "password = os.getenv('DB_PASSWORD', 'SECRET')",
        "const token = process.env.API_TOKEN || 'SECRET';",
        "const token = process.env.API_TOKEN ?? \"SECRET\";",
        "password: ${DB_PASSWORD:-SECRET}",
        "PASSWORD=\"${DB_PASSWORD:-SECRET}\"",
        "password = System.getenv(\"X\") ?: \"SECRET\"",
        "password = env.get(\"X\", \"SECRET\")",
        "password = os.getenv(\"X\", default=\"SECRET\")",
        "std::env::var(\"DB_PASSWORD\").unwrap_or(\"SECRET\".into())",
        "env::var(\"API_TOKEN\").unwrap_or_else(|_| \"SECRET\".to_owned())",
        "Client::builder().user(\"ann\").password(\"SECRET\").build()",
        "client.api_key('SECRET')",
        "'Password' => 'SECRET',",
        "password = \"\"\"SECRET\"\"\"",
        "password = '''SECRET'''\nport = 1",
        "ENV DB_PASSWORD SECRET",
        "aws configure set aws_secret_access_key SECRET",
        "const PASSWORD: &[u8] = b\"SECRET\";",
        "let api_key = \"SECRET\";",
        "const PASSWORD = \"SECRET\"",
        "let secret = r#\"SECRET\"#;",
        "password = (\"SECRET\")",
        "if password == \"SECRET\":",
        "$password = ConvertTo-SecureString \"SECRET\" -AsPlainText -Force",
        "variable \"db_password\" {\n  type = string\n  default = \"SECRET\"\n}",
    ]);
}

#[test]
fn names_and_values_of_other_languages_are_masked() {
    assert_masked([
        "password <- \"SECRET\"",
        "char password[] = \"SECRET\";",
        "api_keys = [\"first-Value-1\", \"SECRET\"]",
        "api-keys = [\n  'first-Value-1',\n  'SECRET',\n]",
        "psk=\"SECRET\"",
        "olcRootPW: SECRET",
        "bind_pw = SECRET",
        "DB_PW=SECRET",
        "requirepass: SECRET",
    ]);
}

#[test]
fn prose_and_markdown_labels_are_masked() {
    assert_masked([
        "**Password:** SECRET",
        "**Password**: SECRET",
        "- **API key:** `SECRET`",
        "| password | SECRET |",
        "Password: `SECRET`",
        "__Token__: SECRET",
        "<b>Password:</b> SECRET",
    ]);
}

#[test]
fn names_of_keys_count_where_the_value_looks_random() {
    for text in [
        "SOME_KEY=SECRET",
        "export DEPLOY_KEY='SECRET'",
        "MAIL_PW=SECRET",
        "DB_PW: SECRET",
        "CI_PAT=SECRET",
        "GITEA_PAT: \"SECRET\"",
        "datadog_key: SECRET",
        "key = \"SECRET\"",
        "'access': 'SECRET'",
        "api: SECRET",
    ] {
        let output = super::text(&text.replace("SECRET", RANDOM));
        assert!(!output.contains(RANDOM), "{output}");
    }
}

#[test]
fn positions_in_code_stay_readable() {
    assert_kept([
        "src/token.rs:12:5",
        "  --> src/token.rs:12:5",
        "error[E0308]: mismatched types\n  --> src/auth/cookie.rs:41:9\n   |\n41 |     parse(text)\n",
        "src/cookie.rs:7: unused variable `jar`",
        "tests/password.rs:120: assertion failed: left == right",
        "at Object.<anonymous> (/app/src/token.js:10:15)",
        "File \"app/secrets.py\", line 12, in load",
        "cookie.rs: error: expected one of `!` or `::`",
        "warning: unused import: `cookie::Key`\n --> src/cookie.rs:3:5",
        "src/secret.go:15:2: undefined: foo",
        "grep -rn token src/ | head\nsrc/lexer/token.rs:88:    Ident(String),",
        "modified:   src/redact/secret.rs",
    ]);
}

#[test]
fn placeholders_stay_readable() {
    assert_kept([
        "password=changeme",
        "password: \"changeme\"",
        "API_KEY=your_api_key_here",
        "api_key = \"YOUR_API_KEY\"",
        "token: <your-token>",
        "password=example",
        "PASSWORD=xxxxxxxx",
        "secret: REPLACE_ME",
        "token = \"<token>\"",
        "password: \"********\"",
        "api_key=insert-key-here",
        "password: TODO",
        "--password PASSWORD",
        "token=...",
        "OPENAI_API_KEY=sk-...",
        "export GITHUB_TOKEN=ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "    secrets: inherit",
        "env::var(\"API_TOKEN\").unwrap_or_default()",
        "<password></password>",
        "<token>{{ token }}</token>",
        "UPDATE users SET password = $1, token = $2 WHERE id = $3",
        "export PASSWORD=\"$1\"",
        "- POSTGRES_PASSWORD=${POSTGRES_PASSWORD:?required}",
        "ANTHROPIC_API_KEY=sk-ant-xxxxx",
        "SLACK_TOKEN=xoxb-your-token",
        "sed s/token=.*/token=***/",
        "API_KEY_HEADER=X-Api-Key",
    ]);
    // Keys that vendors use in their documentation.
    assert_kept([
        concat!("AK", "IAIOSFODNN7EXAMPLE"),
        concat!("aws_access_key_id = AK", "IAIOSFODNN7EXAMPLE"),
        concat!(
            "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/",
            "bPxRfiCYEXAMPLEKEY"
        ),
    ]);
}

#[test]
fn prose_and_style_sheets_stay_readable() {
    assert_kept([
        "The password is stored as a hash.",
        "This token: a unit of text, is counted.",
        "Passwords must be at least 12 characters long.",
        "Secrets: how we manage them",
        "the key is to keep it simple",
        "author: Ann Example <ann@example.com>",
        ".token.comment { color: #6a9955; }",
        ".token.keyword, .token.operator { color: #569cd6; }",
        ".password-field { width: 100%; }",
        "--token-color: #fff;",
        "input[type=password]:focus { outline: none; }",
        "span.token { font-weight: bold }",
        "Cookie policy: see below",
        "cookies: true",
        "key: value",
        "primary key: id",
        "the auth: header",
    ]);
}

#[test]
fn declarations_and_expressions_stay_readable() {
    assert_kept([
        "fn token(&self) -> &str { &self.token }",
        "let token: Token = lexer.next()?;",
        "token: Ident { name: \"x\" }",
        "match token { Token::Ident => 1, _ => 2 }",
        "impl Iterator for Tokens<'_> {",
        "password: String,",
        "self.token = token;",
        "use cookie::{Cookie, Key};",
        "assert_eq!(token, \"abc\");",
        "SELECT password FROM users",
        "pFrame->token = pProgram->token;",
        "headers.insert(SET_COOKIE, \"cookie_1=value 1\".parse().unwrap());",
        "cookies = [\"dep:cookie_crate\", \"dep:cookie_store\"]",
        "fn set_auth<T: Into<String>, U>(&mut self, username: U, password: T) {",
        "pub const SYS_memfd_secret: c_long = 4000 + 447;",
        "let hs_secret =\n    Secret1::derive(2);",
        "fn set_cookies(&self, cookie_headers: &mut dyn Iterator<Item = &HeaderValue>);",
        "pub const TOKEN: &str = \"$serde_json::private::Number\";",
        "token = 1*tchar",
        "key: Utf8SuffixKey,",
        "trait Secret: ZeroizeOnDrop + Zeroize {}",
        "} elsif ($token =~ /^(%[a-z0-9]+)$/) {",
        "for(pToken=p->pRename; pToken; pToken=pToken->pNext){",
        "token = tkOTHER;",
        "nToken = FTS5_MAX_TOKEN_SIZE;",
        "    current_exporter_secret: OkmBlock,",
        "let secret = &self.client_traffic_secret;",
        "fn finish(auth: poly1305::Context, aad_len: usize) -> Tag {",
        "pub fn hmac_key(&mut self, hmac_key: CFData) -> &mut Self {",
        "pub const PRIVATE_KEY: ::sys::core::PCWSTR = ::sys::core::w!(\"PrivKeyVal\");",
        "pub const SMTP_DSN: sys::core::GUID = sys::core::GUID::from_u128(0x23b7f8ad_7a28_4b7c_a2c6_9bd6f3f4b9f1);",
        "Win32_Security_Credentials = [\"Win32_Security\"]",
        "features = [\"Win32_Security_Authorization\", \"Win32_Storage_FileSystem\"]",
        "if( iCookie==BTREE_SCHEMA_VERSION && (db->flags & SQLITE_Defensive)!=0 ){",
        "case RBU_STATE_COOKIE:\n  pRet->iCookie = (u32)sqlite3_column_int64(pStmt, 1);",
        "mem3.mnKeyBlk = mem3.szKeyBlk;",
        "pExpr->u.zToken = \"coalesce\";",
        "nFToken = (nToken+nSnippet-1) / nSnippet;",
        "generate_private_key: x25519_generate_private_key,",
        "columns identified by \"colUsed\", all but",
        "consistent!(gitlab_api_0, r\"private_token=\\w{20}\");",
        "class AccessToken:\n    \"\"\"An OAuth access token.\"\"\"",
        "--- PASS: TestAddrString/ipv4 (0.00s)",
        "token.XOR: \"bitwise complement\",",
        "private_key: \"_RSAPrivateKey\",",
        "PrivateKey = testRSAPSS2048PrivateKey",
        "privateKeys := sync.Pool{",
        "def _merge_cookies(self, cookies: CookieTypes | None = None) -> Cookies:",
        "\"gmsaCredentialSpec\": \"gmsaCredentialSpecValue\",",
    ]);
}
