//! The tools of the agent.

use rig::tool::PortableTool;
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Debug, Deserialize)]
pub struct Two {
    x: i64,
    y: i64,
}

fn two_numbers() -> Value {
    json!({
        "type": "object",
        "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}},
        "required": ["x", "y"],
    })
}

#[derive(Debug)]
pub struct CantDivide;

impl std::fmt::Display for CantDivide {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("nothing can be divided by zero")
    }
}

impl std::error::Error for CantDivide {}

pub struct Add;

impl PortableTool for Add {
    const NAME: &'static str = "add";
    type Args = Two;
    type Output = i64;
    type Error = std::convert::Infallible;

    fn description(&self) -> String {
        "Adds two numbers".into()
    }

    fn parameters(&self) -> Value {
        two_numbers()
    }

    async fn call(&self, args: Two) -> Result<i64, Self::Error> {
        Ok(args.x + args.y)
    }
}

pub struct Divide;

impl PortableTool for Divide {
    const NAME: &'static str = "divide";
    type Args = Two;
    type Output = i64;
    type Error = CantDivide;

    fn description(&self) -> String {
        "Divides x by y".into()
    }

    fn parameters(&self) -> Value {
        two_numbers()
    }

    async fn call(&self, args: Two) -> Result<i64, CantDivide> {
        args.x.checked_div(args.y).ok_or(CantDivide)
    }
}

/// Never returns, so that a test can kill the process inside it.
pub struct Wait;

impl PortableTool for Wait {
    const NAME: &'static str = "wait";
    type Args = Value;
    type Output = ();
    type Error = std::convert::Infallible;

    fn description(&self) -> String {
        "Waits".into()
    }

    fn parameters(&self) -> Value {
        json!({"type": "object"})
    }

    async fn call(&self, _: Value) -> Result<(), Self::Error> {
        println!("waiting");
        std::future::pending().await
    }
}
