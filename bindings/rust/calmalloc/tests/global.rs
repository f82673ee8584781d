//! The allocator as a program's global one: alignments, sizes, moves, zeros, threads.

use calmalloc::CalMalloc;
use std::alloc::{alloc, alloc_zeroed, dealloc, realloc, GlobalAlloc, Layout};
use std::collections::{BTreeMap, HashMap};

#[global_allocator]
static ALLOC: CalMalloc = CalMalloc;

fn layouts() -> impl Iterator<Item = Layout> {
    let sizes = [
        1,
        7,
        8,
        9,
        16,
        24,
        100,
        1000,
        1024,
        1025,
        5000,
        32768,
        32769,
        100_000,
        3 << 20,
    ];
    (0..=20).flat_map(move |log2| {
        sizes
            .into_iter()
            .map(move |size| Layout::from_size_align(size, 1 << log2).unwrap())
    })
}

/// Where a block is written and read: all of its ends, and now and then between.
fn spots(to: usize) -> impl Iterator<Item = usize> {
    let between = (64..to.saturating_sub(64)).step_by(509);
    (0..to.min(64))
        .chain(between)
        .chain(to.saturating_sub(64)..to)
}

fn fill(block: *mut u8, to: usize) {
    for at in spots(to) {
        // SAFETY: callers pass the size of the block.
        unsafe { block.add(at).write((at * 7) as u8) }
    }
}

/// Whether the first `to` bytes are as `fill` left a block of `size`.
fn holds(block: *mut u8, size: usize, to: usize) -> bool {
    spots(size)
        .filter(|at| *at < to)
        // SAFETY: callers pass sizes within the block, which they filled.
        .all(|at| unsafe { block.add(at).read() } == (at * 7) as u8)
}

/// A usable size of 0 is a pointer of somebody else.
fn is_ours(block: *const u8) -> bool {
    // SAFETY: the function takes any pointer.
    unsafe { calmalloc_sys::calm_usable_size(block.cast()) > 0 }
}

#[test]
fn boxes_come_from_this_heap_and_the_c_librarys_blocks_do_not() {
    extern "C" {
        fn malloc(size: usize) -> *mut u8;
        fn free(block: *mut u8);
    }
    let boxed = std::hint::black_box(Box::new([0u64; 6]));
    assert!(is_ours(boxed.as_ptr().cast()));
    // SAFETY: C's malloc and free, as they are meant.
    unsafe {
        let foreign = std::hint::black_box(malloc(100));
        assert!(!is_ours(foreign));
        free(foreign);
    }
}

#[test]
fn every_layout_is_aligned_as_large_as_asked_and_freed_by_its_layout() {
    for layout in layouts() {
        // SAFETY: no size is 0; each block is freed with its layout.
        unsafe {
            let block = alloc(layout);
            assert!(!block.is_null());
            assert_eq!(block as usize % layout.align(), 0, "{layout:?}");
            fill(block, layout.size());
            assert!(holds(block, layout.size(), layout.size()));
            dealloc(block, layout);
        }
    }
    assert_eq!(calmalloc::stats().misuses, 0);
}

#[test]
fn zeroed_blocks_are_zero_also_where_others_were_before() {
    for _ in 0..2 {
        for layout in layouts() {
            // SAFETY: no size is 0; each block is freed with its layout.
            unsafe {
                let block = alloc_zeroed(layout);
                assert_eq!(block as usize % layout.align(), 0, "{layout:?}");
                assert!(
                    spots(layout.size()).all(|at| block.add(at).read() == 0),
                    "{layout:?}"
                );
                fill(block, layout.size());
                dealloc(block, layout);
            }
        }
    }
}

#[test]
fn realloc_keeps_the_contents_and_the_alignment() {
    for layout in layouts() {
        let sizes = [
            layout.size() / 2 + 1,
            layout.size() * 3,
            40,
            layout.size() + 1,
            1,
        ];
        // SAFETY: no size is 0; each block is freed with its last layout.
        unsafe {
            let mut block = alloc(layout);
            let mut now = layout;
            fill(block, now.size());
            for size in sizes {
                block = realloc(block, now, size);
                assert!(!block.is_null());
                assert_eq!(block as usize % layout.align(), 0, "{now:?} to {size}");
                assert!(
                    holds(block, now.size(), size.min(now.size())),
                    "{now:?} to {size}"
                );
                fill(block, size);
                now = Layout::from_size_align(size, layout.align()).unwrap();
            }
            dealloc(block, now);
        }
    }
}

#[test]
fn a_large_vector_grows_without_moving_each_time() {
    let mut bytes: Vec<u8> = Vec::with_capacity(40 << 10);
    let mut moves = 0;
    for _ in 0..1000 {
        let before = bytes.as_ptr();
        bytes.reserve_exact(bytes.capacity() + 100 - bytes.len());
        moves += usize::from(bytes.as_ptr() != before);
    }
    assert!(moves < 50, "{moves} moves");
}

#[test]
fn what_cannot_be_is_null_and_no_panic() {
    let layout = Layout::from_size_align(isize::MAX as usize & !0xFFFF, 1).unwrap();
    // SAFETY: the size is not 0; null is checked.
    unsafe {
        assert!(CalMalloc.alloc(layout).is_null());
        assert!(CalMalloc.alloc_zeroed(layout).is_null());
        let huge_alignment = Layout::from_size_align(1, 1 << 62).unwrap();
        assert!(CalMalloc.alloc(huge_alignment).is_null());
    }
    assert!(Vec::<u8>::new().try_reserve(isize::MAX as usize).is_err());
}

#[test]
fn containers_work_from_many_threads_and_across_them() {
    let threads: Vec<_> = (0..8u64)
        .map(|seed| {
            std::thread::spawn(move || {
                let mut words = HashMap::new();
                let mut tree = BTreeMap::new();
                for n in 0..5_000u64 {
                    let key = (n * 2_654_435_761 + seed) % 5000;
                    words.insert(key, format!("{key} of {seed}"));
                    tree.insert(key, vec![n; (key % 40) as usize]);
                    if n % 3 == 0 {
                        words.remove(&(key / 2));
                        tree.remove(&(key / 2));
                    }
                }
                (words, tree)
            })
        })
        .collect();
    for (seed, thread) in threads.into_iter().enumerate() {
        let (words, tree) = thread.join().unwrap();
        assert!(words
            .iter()
            .all(|(key, word)| *word == format!("{key} of {seed}")));
        assert!(tree
            .iter()
            .all(|(key, list)| list.len() == (key % 40) as usize));
    }
    assert_eq!(calmalloc::stats().misuses, 0);
}
