//! An agent for tests that need a process of their own: to be killed, forked, or starved.

mod churn;
mod many;
mod serve;
mod system;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args.as_slice() {
        ["serve", socket, root, settings @ ..] => serve::run(socket, root, settings),
        ["churn", root, session, life, rounds] => churn::run(root, session, life, rounds, false),
        ["talk", root, session, life, rounds] => churn::run(root, session, life, rounds, true),
        _ => {
            eprintln!("usage: test-agent serve SOCKET ROOT [NAME=VALUE…]");
            eprintln!("       test-agent churn|talk ROOT SESSION LIFE ROUNDS");
            std::process::exit(2);
        }
    }
}
