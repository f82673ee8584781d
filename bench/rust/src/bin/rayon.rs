//! Counts words over many texts in parallel, merges the counts, and sorts what came out: blocks are made by one worker
//! and freed by another.

use calm_bench_rust::{checksum, report, rounds, Numbers};
use rayon::prelude::*;
use std::collections::HashMap;

fn text(seed: u64) -> String {
    let mut numbers = Numbers::new(seed + 1);
    let words: Vec<String> = (0..2000).map(|_| numbers.word(4)).collect();
    words.join(" ")
}

fn count(text: &str) -> HashMap<String, Vec<usize>> {
    let mut places: HashMap<String, Vec<usize>> = HashMap::new();
    for (at, word) in text.split(' ').enumerate() {
        places.entry(word.to_string()).or_default().push(at);
    }
    places
}

fn merge(
    mut all: HashMap<String, Vec<usize>>,
    some: HashMap<String, Vec<usize>>,
) -> HashMap<String, Vec<usize>> {
    for (word, mut places) in some {
        all.entry(word).or_default().append(&mut places);
    }
    all
}

fn main() {
    rayon::ThreadPoolBuilder::new()
        .num_threads(4)
        .build_global()
        .expect("a pool");
    report("rayon", || {
        let mut sum = 0;
        for round in 0..rounds(10) {
            let texts: Vec<String> = (0..60u64)
                .into_par_iter()
                .map(|seed| text(seed + round))
                .collect();
            let counted = texts
                .par_iter()
                .map(|text| count(text))
                .reduce(HashMap::new, merge);
            let mut lines: Vec<String> = counted
                .into_par_iter()
                .map(|(word, mut places)| {
                    places.par_sort_unstable();
                    format!("{word}: {places:?}")
                })
                .collect();
            lines.par_sort();
            sum = lines
                .iter()
                .fold(sum, |sum, line| checksum(sum, line.as_bytes()));
        }
        sum
    });
}
