//! The declarations here say what the header that was compiled says.

use calmalloc_sys::calm_stats;
use std::collections::BTreeSet;

const RUST: &str = include_str!("../src/lib.rs");

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
    // The general heap's and the adapters'; other headers of the file are other subjects.
    let general = part("CALMALLOC_CALMALLOC_H") + &part("CALMALLOC_ADAPTER_H");
    assert_eq!(ours, names_before_parentheses(&general));
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
    assert_eq!(names, calm_stats::NAMES);
    for (kind, name) in &fields {
        let wanted = match *kind {
            "size_t" => "usize",
            "uint64_t" => "u64",
            other => panic!("{name} is a {other}"),
        };
        assert!(RUST.contains(&format!("    {name}: {wanted},\n")), "{name}");
    }
    assert_eq!(std::mem::size_of::<calm_stats>(), 8 * fields.len());
}
