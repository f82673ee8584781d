//! Parses a document of records into typed values and into a tree, changes the tree and writes both again.

use calm_bench_rust::{checksum, report, rounds, Numbers};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

const RECORDS: u64 = 4000;

#[derive(Serialize, Deserialize)]
struct Record {
    id: u64,
    name: String,
    tags: Vec<String>,
    scores: Vec<f64>,
    notes: BTreeMap<String, String>,
    parent: Option<Box<Record>>,
}

fn record(numbers: &mut Numbers, depth: u64) -> Record {
    Record {
        id: numbers.below(1 << 30),
        name: numbers.word(30),
        tags: (0..numbers.below(6)).map(|_| numbers.word(10)).collect(),
        scores: (0..numbers.below(8))
            .map(|_| numbers.below(1000) as f64 / 8.0)
            .collect(),
        notes: (0..numbers.below(4))
            .map(|_| (numbers.word(8), numbers.word(60)))
            .collect(),
        parent: (depth > 0 && numbers.below(3) == 0).then(|| Box::new(record(numbers, depth - 1))),
    }
}

/// Takes every third element out of each list, and gives each object a new member.
fn change(value: &mut Value) {
    match value {
        Value::Array(list) => {
            let mut at = 0;
            list.retain(|_| {
                at += 1;
                at % 3 != 0
            });
            list.iter_mut().for_each(change);
        }
        Value::Object(members) => {
            members.values_mut().for_each(change);
            members.insert("changed".to_string(), Value::Bool(true));
        }
        _ => {}
    }
}

fn main() {
    report("json", || {
        let mut numbers = Numbers::new(1);
        let records: Vec<Record> = (0..RECORDS).map(|_| record(&mut numbers, 4)).collect();
        let text = serde_json::to_string(&records).expect("it can be written");
        drop(records);
        let mut sum = 0;
        let mut kept: Vec<Value> = Vec::new();
        for round in 0..rounds(60) {
            let typed: Vec<Record> = serde_json::from_str(&text).expect("it can be read");
            let mut tree: Value = serde_json::from_str(&text).expect("it can be read");
            change(&mut tree);
            sum = checksum(
                sum,
                serde_json::to_string(&typed).expect("written").as_bytes(),
            );
            sum = checksum(sum, serde_json::to_vec(&tree).expect("written").as_slice());
            if round % 10 == 0 {
                kept.push(tree); // some of it stays, so that the heap is never empty
            }
            if kept.len() > 3 {
                kept.remove(0);
            }
        }
        sum
    });
}
