//! The options of the program.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Api {
    OpenAi,
    Anthropic,
}

/// What the model does, call after call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Script {
    /// Adds, divides, answers.
    Calculate,
    /// Divides by zero, gets an error, answers.
    Fail,
    /// Waits forever.
    Hang,
}

#[derive(Clone, Debug)]
pub struct Options {
    pub api: Api,
    pub script: Script,
    pub stream: bool,
    pub content: bool,
    /// How many requests fail before one is answered, and how.
    pub fail: (usize, u16),
    pub request: bool,
    pub session: Option<String>,
}

const HELP: &str = "\
usage: spanledger-rig [openai|anthropic] [calculate|fail|hang] [OPTION]…
  --stream           streams the answers
  --no-content       leaves rig's content opt-in off
  --fail STATUS      the first request fails with this status, and is tried again
  --request          runs inside the span of a web request
  --session ID       runs inside a session.run of spanledger's own";

impl Options {
    /// `None` if only the help was asked for.
    pub fn from_args() -> anyhow::Result<Option<Self>> {
        let mut options = Self {
            api: Api::OpenAi,
            script: Script::Calculate,
            stream: false,
            content: true,
            fail: (0, 0),
            request: false,
            session: None,
        };
        let mut args = std::env::args().skip(1);
        while let Some(arg) = args.next() {
            let mut value = || {
                args.next()
                    .ok_or_else(|| anyhow::anyhow!("{arg} wants a value"))
            };
            match arg.as_str() {
                "openai" => options.api = Api::OpenAi,
                "anthropic" => options.api = Api::Anthropic,
                "calculate" => options.script = Script::Calculate,
                "fail" => options.script = Script::Fail,
                "hang" => options.script = Script::Hang,
                "--stream" => options.stream = true,
                "--no-content" => options.content = false,
                "--fail" => options.fail = (1, value()?.parse()?),
                "--request" => options.request = true,
                "--session" => options.session = Some(value()?),
                "--help" => {
                    println!("{HELP}");
                    return Ok(None);
                }
                other => anyhow::bail!("{other} is unknown\n{HELP}"),
            }
        }
        Ok(Some(options))
    }
}
