// wrapped.rs: a program whose memory Rust's library asks for: vectors, strings, maps.
use std::collections::{BTreeMap, HashMap};

#[inline(never)]
fn make_names(n: usize) -> Vec<String> {
    (0..n).map(|i| format!("name {}", i)).collect()
}

#[inline(never)]
fn make_table(n: usize) -> HashMap<u64, Box<[u8; 48]>> {
    (0..n as u64).map(|i| (i, Box::new([i as u8; 48]))).collect()
}

#[inline(never)]
fn make_tree(n: usize) -> BTreeMap<u32, Vec<u16>> {
    (0..n as u32).map(|i| (i, vec![i as u16; (i % 50) as usize + 1])).collect()
}

// One function of the library grows all vectors; it is who calls malloc.
macro_rules! grow {
    ($name:ident, $type:ty) => {
        #[inline(never)]
        fn $name(n: usize) -> Vec<$type> {
            let mut made = Vec::new();
            for i in 0..n {
                made.push(i as $type);
            }
            made
        }
    };
}

grow!(grow_bytes, u8);
grow!(grow_shorts, u16);
grow!(grow_words, u32);
grow!(grow_longs, u64);
grow!(grow_wide, u128);

fn main() {
    let mut total = 0;
    for round in 0..800 {
        let n = 400 + round % 7;
        total += make_names(n).len() + make_table(n).len() + make_tree(n).len();
        total += grow_bytes(n).len() + grow_shorts(n).len() + grow_words(n).len();
        total += grow_longs(n).len() + grow_wide(n).len();
    }
    println!("{}", total);
}
