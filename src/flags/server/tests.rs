//! Tests of the flags of `cannery-server`.

use cannery_server::config::EarlyData;

use super::*;

fn server(line: &str) -> Result<ServerOptions, Failure> {
    let words = ["cannery-server"].into_iter().chain(line.split_whitespace());
    parse(words.map(OsString::from), None).map(|invocation| match invocation {
        Invocation::Serve(server) => *server,
        other => panic!("{line}: {other:?}"),
    })
}

#[test]
fn an_archive_is_all_that_is_needed() {
    let server = server("--archive site.cdb").unwrap();
    assert_eq!(server.config.listen, [DEFAULT_ADDRESS.parse().unwrap()]);
    assert!(matches!(server.config.content, Content::Archives { loading: Loading::Automatic, .. }));
    assert!(server.config.virtual_hosts == VirtualHosts::Enabled && server.config.security_headers.basic);
    assert!(!server.config.security_headers.tls && server.config.timeouts.is_some());
}

#[test]
fn addresses_add_up_and_replace_the_default() {
    let server = server("--archive a --bind 127.0.0.1:1 --bind [::1]:2").unwrap();
    let expected: Vec<Address> = ["127.0.0.1:1", "[::1]:2"].map(|text| text.parse().unwrap()).into();
    assert_eq!(server.config.listen, expected);
}

#[test]
fn thumbprint_may_begin_with_a_hyphen() {
    let thumbprint = "-jg46WB3rR_AHD-EBXdN7cBkH1WOu0tA3M9fm21mqTI";
    let server = server(&format!("--archive a --acme-thumbprint {thumbprint}")).unwrap();
    assert_eq!(server.config.acme_thumbprint.get(), Some(thumbprint.parse().unwrap()));
}

#[test]
fn archives_are_loaded_in_three_ways() {
    for (flag, expected) in [
        ("--archive-mmap", Loading::Mapped),
        ("--archive-inmem", Loading::InMemory),
        ("--archive-preload", Loading::Preloaded),
        ("--archive-mmap --archive-preload", Loading::Preloaded),
    ] {
        let Content::Archives { loading, .. } =
            server(&format!("--archive a {flag}")).unwrap().config.content
        else {
            panic!("{flag}: no archive");
        };
        assert_eq!(loading, expected, "{flag}");
    }
}

#[test]
fn archives_for_hosts_go_with_one_for_other_hosts() {
    let archives = |line: &str| match server(line).unwrap().config.content {
        Content::Archives { archives, .. } => archives,
        _ => panic!("{line}: no archive"),
    };
    let found = archives("--archive a=b.cdb --archive *.c.d=e.cdb --archive /g/h=i.cdb");
    let shown: Vec<_> = found
        .iter()
        .map(|named| (named.host.as_ref().map(ToString::to_string), named.path().to_str().unwrap()))
        .collect();
    let host = |name: &str| Some(name.to_owned());
    assert_eq!(shown, [(host("a"), "b.cdb"), (host("*.c.d"), "e.cdb"), (None, "/g/h=i.cdb")]);
    assert!(server("--archive a=b --archive A=c").is_err() && server("--archive b --archive c").is_err());
}

#[test]
fn release_directories_go_with_archives() {
    let content = server("--archive a=b.cdb --releases c.d=one --releases two --releases-kept 3")
        .unwrap()
        .config
        .content;
    let Content::Archives { archives, .. } = content else { panic!("no archive") };
    let shown: Vec<_> = archives
        .iter()
        .map(|named| (named.path().to_str().unwrap(), named.releases().map(|releases| releases.kept)))
        .collect();
    assert_eq!(shown, [("b.cdb", None), ("one/current", Some(3)), ("two/current", Some(3))]);
    assert!(server("--archive a --releases b").is_err(), "two for all other hosts");
    assert!(server("--releases a=b --archive a=c").is_err());
}

#[test]
fn signatures_are_demanded_of_release_directories() {
    assert_eq!(server("--releases a --public-key k --public-key l").unwrap().trust.public_key, ["k", "l"]);
    assert!(server("--releases a --releases b=c --public-key k").is_ok());
    for wrong in [
        "--archive a --public-key k",
        "--sites a --public-key k",
        "--releases a --site b",
        "--releases a --releases b=c --public-key k --site d",
    ] {
        assert!(server(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn an_archive_needs_no_flag() {
    let paths = |line: &str| match server(line).unwrap().config.content {
        Content::Archives { archives, .. } => {
            archives.into_iter().map(|named| named.path().display().to_string()).collect::<Vec<_>>()
        }
        _ => panic!("{line}: no archive"),
    };
    assert_eq!(paths("site.cdb"), ["site.cdb"]);
    assert_eq!(paths("a.example=a.cdb --bind 1 b.cdb"), ["a.cdb", "b.cdb"]);
    assert_eq!(paths("--archive a.cdb b=b.cdb"), ["a.cdb", "b.cdb"]);
}

#[test]
fn second_addresses_are_addresses() {
    let config = server("a --bind 1 --bind-2 2 --bind-tls 3 --bind-tls-2 4 --tls-self-ecdsa").unwrap().config;
    assert_eq!((config.listen.len(), config.tls.unwrap().listen.len()), (2, 2));
}

#[test]
fn flags_without_effect_are_accepted_and_listed() {
    let server = server("--archive a --index-all --index-data-meta --threads 2").unwrap();
    assert_eq!(server.without_effect, ["index-all", "index-data-meta"]);
    assert_eq!(server.config.threads.get(), 2);
}

#[test]
fn unsupported_flags_are_refused_by_name() {
    for (name, instead) in UNSUPPORTED {
        for value in ["", " 1"] {
            let Err(Failure::Clap(error)) = server(&format!("--archive a --{name}{value}")) else {
                panic!("{name}{value} is accepted");
            };
            assert_eq!(error.exit_code(), 2);
            let expected = format!("`--{name}` is not supported: {instead}");
            assert!(error.to_string().contains(&expected), "{error}");
        }
    }
}

#[test]
fn a_dummy_needs_no_archive() {
    let content = |line| server(line).unwrap().config.content;
    assert!(matches!(content("--dummy"), Content::Dummy { body, .. } if body == DUMMY_BODY));
    assert!(matches!(content("--dummy-empty"), Content::Dummy { body: b"", .. }));
    assert!(server("").is_err());
}

#[test]
fn a_delay_has_a_unit() {
    let delay = |line: &str| match server(line).ok()?.config.content {
        Content::Dummy { delay, .. } => Some(delay.as_micros()),
        _ => None,
    };
    assert_eq!(delay("--dummy-delay 500ms"), Some(500_000));
    assert_eq!(delay("--dummy-delay 1.5s --dummy-empty"), Some(1_500_000));
    assert_eq!(delay("--dummy-delay 20us"), Some(20));
    for value in ["5", "s", "-1s", "61s", "nans", "infs", "1h"] {
        assert_eq!(delay(&format!("--dummy-delay={value}")), None, "{value}");
    }
}

#[test]
fn own_archive_serves_hosts_without_another() {
    let own = |line: &str| {
        let words = ["app"].into_iter().chain(line.split_whitespace());
        match parse(words.map(OsString::from), Some("/srv/app".into())).unwrap() {
            Invocation::Serve(server) => server.own_archive,
            other => panic!("{line}: {other:?}"),
        }
    };
    let path = Some(PathBuf::from("/srv/app"));
    assert_eq!(own(""), path);
    assert_eq!(own("a.example=a.cdb --releases b.example=b"), path);
    for line in ["a.cdb", "--archive a.cdb", "--releases b", "--folder b", "--dummy"] {
        assert_eq!(own(line), None, "{line}");
    }
}

#[test]
fn wrong_values_are_refused() {
    for line in [
        "--bind localhost",
        "--bind example.com:80",
        "--bind 127.0.0.1",
        "--threads 0",
        "--limit-descriptors 3",
        "--dummy --dummy-empty",
        "--bind-unix-mode 888",
        "--bind-unix-mode 1777",
        "--bind-unix-mode +77",
        "--bind-unix-mode rw",
    ] {
        assert!(server(&format!("--archive a {line}")).is_err(), "{line}");
    }
}

#[test]
fn http3_needs_an_ip_address_and_a_certificate() {
    let http3 = |line: &str| server(&format!("--archive a {line}")).map(|server| server.config);
    assert!(http3("--bind-quic :443").is_err(), "no certificate");
    assert!(http3("--bind-quic unix:/run/s --tls-self-ecdsa").is_err());
    assert!(http3("--tls-self-ecdsa").unwrap().served_http3().is_none());
    assert!(http3("--bind-quic :443 --http3-disable").unwrap().served_http3().is_none());

    let config = http3("--bind-quic :443 --bind-quic 127.0.0.1:8443 --tls-self-ecdsa --http3-alt-svc :443");
    let config = config.unwrap();
    let http3 = config.served_http3().unwrap();
    assert_eq!((http3.listen.len(), http3.alternative.as_deref()), (2, Some(":443")));
}

#[test]
fn settings_of_http3_hold_for_sockets_of_a_service_manager() {
    let options = |line: &str| server(&format!("--archive a {line}")).unwrap();
    let early = options("--tls-self-ecdsa --early-data --quic-server-id 0123456789abcdef");
    assert_eq!(early.http3_flag, Some("--quic-server-id"));
    assert!(early.config.served_http3().is_none());
    assert_eq!(early.config.early_data(), EarlyData::Accepted);
    assert!(early.config.tls.unwrap().http3.unwrap().server_id.is_some());

    assert_eq!(options("--http3-alt-svc :443").http3_flag, Some("--http3-alt-svc"));
    assert_eq!(options("--early-data --http3-disable").http3_flag, None);
    assert_eq!(options("").http3_flag, None);
}

#[test]
fn certificates_imply_the_addresses_of_browsers() {
    let agreed = "--archive a --acme-agree --certificates b.example,www.b.example";
    let server_with = |more: &str| server(&format!("{agreed} {more}")).unwrap();
    let named = server_with("");
    let tls = named.config.tls.as_ref().unwrap();
    assert_eq!(named.config.listen, [Address::Every(80)]);
    assert_eq!((tls.listen.as_slice(), tls.issued().len()), ([Address::Every(443)].as_slice(), 1));
    assert_eq!(tls.http3.as_ref().unwrap().listen, [Address::Every(443)]);
    assert!(named.config.https_redirect.is_some());
    assert_eq!(tls.issued()[0].names, ["b.example", "www.b.example"]);

    // An operator that names an address names all of them.
    let named = server_with("--bind-tls :8443 --acme-folder /tls");
    let tls = named.config.tls.unwrap();
    assert!(named.config.listen.is_empty() && named.config.https_redirect.is_none());
    assert!(tls.http3.as_ref().unwrap().listen.is_empty());
    assert_eq!(tls.issued()[0].bundle, PathBuf::from("/tls/b.example.pem"));
    let error = server(&format!("{agreed} --bind :80")).unwrap_err();
    assert!(
        matches!(&error, Failure::Message { hint: Some(hint), .. } if hint.contains("--bind-tls")),
        "{error:?}"
    );
}

#[test]
fn certificates_are_requested_with_the_flags_of_their_command() {
    let line = "--archive a --acme-agree --certificates b.example --acme-contact mailto:me@b.example --acme-key rsa --acme-staging";
    let issuing = server(line).unwrap().issuing.unwrap();
    assert_eq!(issuing.arguments, ["--agree", "--staging", "--contact=me@b.example", "--key=rsa"]);
    for wrong in [
        "--certificates b.example",
        "--acme-agree",
        "--acme-contact me@b.example",
        "--acme-agree --certificates *.b.example",
        "--acme-agree --certificates https://b.example",
        "--acme-agree --certificates b.example --certificates b.example,c.example",
        "--acme-agree --certificates b.example --acme-contact me",
        "--acme-agree --certificates b.example --acme-directory-url http://ca.example",
        "--acme-agree --certificates b.example --acme-thumbprint 9jg46WB3rR_AHD-EBXdN7cBkH1WOu0tA3M9fm21mqTI",
    ] {
        assert!(server(&format!("--archive a {wrong}")).is_err(), "{wrong}");
    }
}
