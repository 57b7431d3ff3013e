use super::{hidden, server, shown};

#[test]
fn token_in_a_path_is_masked() {
    for (uri, expected) in [
        ("http://h:4318/v1/traces", "http://h:4318/v1/traces"),
        ("http://h:4317/", "http://h:4317"),
        (
            "https://h/api/public/otel/v1/traces?key=abc",
            "https://h/api/public/otel/v1/traces",
        ),
        (
            "https://h/receiver/v10/otlp/ZaVnC4dhaV3x/v1/traces",
            "https://h/receiver/v10/otlp/***/v1/traces",
        ),
        (
            "https://h/abcdefghijklmnopqrstuvwxyz/v1/traces",
            "https://h/***/v1/traces",
        ),
        ("https://h/v1a2b3c/x/", "https://h/***/x/"),
    ] {
        assert_eq!(shown(&uri.parse().unwrap()), expected);
    }
    let uri = "https://h/api/A1/v1?key=b2&c".parse().unwrap();
    assert_eq!(hidden(&uri).collect::<Vec<_>>(), ["A1", "b2"]);
}

#[test]
fn server_is_host_and_port() {
    let same = [
        ("http://h:26317", "http://h:26317/v1/traces"),
        ("https://user:pw@H:26317/path?q=1", "http://h:26317"),
        ("https://h", "http://h:80/v1/traces"),
        ("https://h:443", "https://h/v1/traces"),
        ("http://[::1]:4318", "http://[::1]:4318/v1/traces"),
        ("http://[fe80::80]", "http://[fe80::80]:80"),
    ];
    for (one, other) in same {
        assert!(
            server(one).eq_ignore_ascii_case(server(other)),
            "{one} {other}"
        );
    }
    let different = [
        ("http://h:4318", "http://h:4317"),
        ("http://h", "http://h:443"),
        ("http://h:4317", "http://other:4317"),
        ("http://h", "http://h.example"),
    ];
    for (one, other) in different {
        assert_ne!(server(one), server(other));
    }
}
