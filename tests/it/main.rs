//! Black box tests of the promises to users, with command lines and sockets only. They import no crate of the product.

#![allow(clippy::unwrap_used, reason = "tests: a panic is the report")]

mod authority;
mod fixture_site;
mod harness;
mod program;
mod random;
mod transports;

mod conditional;
mod conformance;
mod deviations;
mod error_pages;
mod frameworks;
mod get;
mod hosts;
mod negotiate;
mod notes;
mod range;
mod readers;
mod registry;
mod routes;

mod http2;
mod http3;
mod http3_activation;
mod http3_early_data;
mod http3_paths;
mod http3_takeover;
mod shared_tickets;
mod tls;

mod access_log;
mod acme;
mod admin;
mod bundle;
mod certificates;
mod clocks;
mod commands;
mod defer_accept;
mod documents;
mod edit_runs;
mod exchange;
mod fleet;
mod follow;
mod go_server_errors;
mod hostile;
mod image;
mod import;
mod large_folder;
mod listen;
mod live_folder;
mod live_reload;
mod mutants;
mod odd_names;
mod other_stores;
mod previews;
mod processes;
mod profile;
mod push;
mod push_faults;
mod push_ssh;
mod regression;
mod releases;
mod reload;
mod sandbox;
mod served_folder;
mod signatures;
mod sites;
mod special_pages;
mod start_and_stop;
mod static_memory;
mod stores;
mod trusted_proxies;
mod workers;

mod clients;
mod complete_sites;
mod http2_clients;
mod http2_suites;
mod http3_ngtcp2;
mod http3_suites;
mod lint;
mod proxies;
mod proxy_protocol;
