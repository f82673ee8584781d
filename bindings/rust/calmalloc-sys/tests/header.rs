//! The declarations here say what the header that was compiled says.

use calmalloc_sys as sys;
use std::collections::BTreeSet;
use std::mem::size_of;

const RUST: &str = concat!(
    include_str!("../src/lib.rs"),
    include_str!("../src/pool.rs")
);

/// The header without its comments.
fn header() -> String {
    let text = std::fs::read_to_string(env!("CALM_HEADER")).unwrap();
    let mut rest = text.as_str();
    let mut out = String::new();
    while let Some((before, after)) = rest.split_once("/*") {
        out += before;
        rest = after.split_once("*/").unwrap().1;
    }
    out + rest
}

/// What stands in the header from one guard to the next.
fn part(guard: &str) -> String {
    let text = header();
    let after = text.split_once(&format!("#ifndef {guard}\n")).unwrap().1;
    let ends = after.find("#ifndef CALMALLOC_").unwrap_or(after.len());
    after[..ends].to_string()
}

fn names_before_parentheses(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for part in text.split('(') {
        let name: String = part
            .chars()
            .rev()
            .take_while(|c| c.is_alphanumeric() || *c == '_')
            .collect();
        let name: String = name.chars().rev().collect();
        if name.starts_with("calm_") {
            found.insert(name);
        }
    }
    found
}

#[test]
fn every_function_is_declared_and_no_other() {
    let declared: String = RUST
        .lines()
        .filter(|line| line.trim_start().starts_with("pub fn "))
        .collect();
    let ours = names_before_parentheses(&declared);
    // The general heap's, the adapters' and the pools'; other headers of the file are other subjects.
    let parts = [
        "CALMALLOC_CALMALLOC_H",
        "CALMALLOC_ADAPTER_H",
        "CALMALLOC_POOL_H",
    ]
    .map(part);
    let mut theirs = names_before_parentheses(&parts.concat());
    for name in parts[2]
        .lines()
        .filter(|line| line.starts_with("static inline "))
    {
        theirs.retain(|inline| !name.contains(&format!(" {inline}(")));
    }
    assert_eq!(ours, theirs);
    assert!(ours.len() > 20, "{ours:?}");
}

#[test]
fn the_statistics_have_the_headers_fields_in_its_order() {
    let text = header();
    let body = text
        .split_once("struct calm_stats {")
        .unwrap()
        .1
        .split_once('}')
        .unwrap()
        .0;
    let fields: Vec<(&str, &str)> = body
        .split(';')
        .filter_map(|field| {
            let mut words = field.split_whitespace();
            Some((words.next()?, words.next()?))
        })
        .collect();
    let names: Vec<&str> = fields.iter().map(|field| field.1).collect();
    assert_eq!(names, sys::calm_stats::NAMES);
    for (kind, name) in &fields {
        let wanted = match *kind {
            "size_t" => "usize",
            "uint64_t" => "u64",
            other => panic!("{name} is a {other}"),
        };
        assert!(RUST.contains(&format!("    {name}: {wanted},\n")), "{name}");
    }
    assert_eq!(size_of::<sys::calm_stats>(), 8 * fields.len());
}

/// What stands between the braces after `start`.
fn body(start: &str) -> String {
    let text = header();
    let after = text.split_once(start).unwrap().1;
    after.split_once('}').unwrap().0.to_string()
}

#[test]
fn the_codes_are_the_headers_in_its_order() {
    let text = body("enum calm_error {");
    let names: Vec<&str> = text
        .split(',')
        .map(|name| name.split('=').next().unwrap().trim())
        .filter(|name| *name != "CALM_ERROR_COUNT" && !name.is_empty())
        .collect();
    assert_eq!(names, sys::CALM_ERRORS);
    assert_eq!(sys::CALM_EUNCHECKED as usize, names.len() - 1);
}

/// The names of a C struct's fields, without those of a union in it.
fn fields(start: &str) -> Vec<String> {
    let text = body(start);
    text.split(';')
        .filter_map(|field| {
            let name = field.split('[').next()?.split_whitespace().last()?;
            Some(name.trim_start_matches('*').to_string())
        })
        .collect()
}

/// The names of a Rust struct's fields.
fn our_fields(name: &str) -> Vec<String> {
    let start = format!("pub struct {name} {{\n");
    let after = RUST.split_once(&start).unwrap().1;
    let inside = after.split_once("\n}").unwrap().0;
    inside
        .lines()
        .filter_map(|line| {
            Some(
                line.trim()
                    .strip_prefix("pub ")?
                    .split_once(':')?
                    .0
                    .to_string(),
            )
        })
        .collect()
}

#[test]
fn the_structs_of_pools_have_the_headers_fields() {
    for name in [
        "calm_pool_config",
        "calm_pool_class_stats",
        "calm_pool_stats",
        "calm_pool_cost",
        "calm_pool_limits",
        "calm_region",
    ] {
        assert_eq!(
            fields(&format!("struct {name} {{")),
            our_fields(name),
            "{name}"
        );
    }
    let watch = our_fields("calm_pool_occupancy");
    assert_eq!(fields("struct calm_pool_occupancy {")[..3], watch[..3]);
    assert_eq!(size_of::<sys::calm_pool_occupancy>(), 64);
}
