use super::*;

#[test]
fn filters_that_turn_the_target_off_are_found() {
    for off in [
        "off",
        "warn",
        "error,my_app=debug",
        "my_app=debug",
        "info,spanledger=off",
    ] {
        assert!(turns_off(off), "{off}");
    }
    for on in [
        "",
        "info",
        "debug",
        "warn,spanledger=info",
        "my_app=warn,info",
        "spanledger",
    ] {
        assert!(!turns_off(on), "{on}");
    }
}

/// The variables that the source code names in strings, in files that are not tests.
fn variables_in(dir: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("tests") {
            variables_in(&path, found);
        } else if path.is_file() && !path.ends_with("tests.rs") {
            let source = fs::read_to_string(&path).unwrap();
            let strings = source.split("\"SPANLEDGER_").skip(1);
            let names = strings.filter_map(|rest| rest.split_once('"'));
            found.extend(names.map(|(name, _)| format!("SPANLEDGER_{name}")));
        }
    }
}

#[test]
fn every_variable_that_is_read_is_known() {
    let mut read = Vec::new();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    variables_in(&source, &mut read);
    let is_name = |name: &&String| name.bytes().all(|b| b.is_ascii_uppercase() || b == b'_');
    let read: Vec<_> = read.iter().filter(is_name).collect();
    assert!(read.iter().any(|name| *name == "SPANLEDGER_EXPORT"));
    for name in read {
        let checks = diagnose_environment(&[(name.clone(), String::new())]);
        assert!(
            name == "SPANLEDGER_" || checks[0].health == CheckHealth::Ok,
            "{name}: {checks:?}"
        );
    }
}
