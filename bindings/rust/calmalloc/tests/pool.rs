//! Pools: values in blocks, whoever drops them; what is refused, and how it is said.

use calmalloc::pool::{PoolBox, PoolConfig, PoolError};
use calmalloc_sys as sys;
use std::alloc::Layout;
use std::ffi::CStr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{channel, sync_channel};

fn config() -> PoolConfig {
    PoolConfig::new(1 << 18)
        .class(32, 25)
        .class(64, 25)
        .class(192, 25)
        .class(4096, 25)
}

/// Counts its drops.
struct Counted<'a>(&'a AtomicUsize, [u64; 3]);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn every_code_of_c_is_an_error_with_cs_sentence() {
    for (code, name) in (0..).zip(sys::CALM_ERRORS) {
        let error = PoolError::from_code(code);
        assert_eq!(
            error.map(PoolError::code),
            (code != 0).then_some(code),
            "{name}"
        );
        let Some(error) = error else { continue };
        // SAFETY: the function returns a string that is part of the program.
        let sentence = unsafe { CStr::from_ptr(sys::calm_strerror(code)) };
        assert_eq!(error.to_string(), sentence.to_str().unwrap(), "{name}");
        assert_ne!(error.to_string(), "unknown error", "{name}");
    }
    let past = sys::CALM_ERRORS.len() as i32;
    assert_eq!(PoolError::from_code(past), None);
    assert_eq!(PoolError::from_code(-1), None);
}

#[test]
fn a_configuration_that_cannot_be_is_an_error_with_its_name() {
    let wrong = [
        (PoolConfig::new(1 << 20), PoolError::Classes),
        (PoolConfig::new(0).class(8, 100), PoolError::BytesZero),
        (PoolConfig::new(1 << 20).class(0, 100), PoolError::BlockZero),
        (
            PoolConfig::new(1 << 20).class(64, 50).class(8, 50),
            PoolError::Order,
        ),
        (PoolConfig::new(1 << 20).class(64, 99), PoolError::Shares),
        (config().lazy().locked(), PoolError::LazyAndLocked),
        (PoolConfig::new(0).blocks(8, 0), PoolError::BlocksZero),
        (
            PoolConfig::new(1 << 20).class(8, 100).blocks(16, 1),
            PoolError::Both,
        ),
    ];
    for (config, error) in wrong {
        assert_eq!(config.limits().unwrap_err(), error, "{config:?}");
        assert_eq!(config.create().unwrap_err(), error, "{config:?}");
    }
}

#[test]
fn a_pool_holds_what_its_limits_say_and_gives_the_value_back_when_full() {
    let limits = config().limits().unwrap();
    assert!(limits.usable_bytes < limits.bytes);
    assert!(limits.remote_calls.iter().all(|&calls| calls > 0));
    assert_eq!(limits.costs.is_ok(), limits.alloc.instructions > 0);
    if !cfg!(feature = "assertions") {
        assert_eq!(limits.costs, Ok(())); // the build found Python and objdump
    }
    let pool = config().create().unwrap();
    let drops = AtomicUsize::new(0);
    let mut held = Vec::new();
    let refused = loop {
        match pool.boxed(Counted(&drops, [held.len() as u64; 3])) {
            Ok(value) => held.push(value),
            Err(refused) => break refused,
        }
    };
    assert_eq!(held.len(), limits.blocks[0] as usize);
    assert_eq!(
        drops.load(Ordering::Relaxed),
        0,
        "nothing was lost on the way"
    );
    assert_eq!(
        refused.to_string(),
        "the pool has no free block of 32 bytes"
    );
    assert_eq!(refused.into_inner().1, [held.len() as u64; 3]);
    assert!(held
        .iter()
        .enumerate()
        .all(|(at, value)| value.1[0] == at as u64));
    let count = held.len() + 1;
    drop(held);
    assert_eq!(drops.load(Ordering::Relaxed), count);
    let stats = pool.stats();
    assert_eq!(stats.failed(), 1);
    assert_eq!(stats.misuses(), 0);
    assert_eq!(stats.classes()[0].least_free, 0);
    assert_eq!(stats.classes()[0].free_blocks, limits.blocks[0]);
    assert_eq!(stats.classes()[0].remote_frees, 0, "the owner's own path");
}

#[test]
fn an_exhausted_class_borrows_from_the_next_where_the_pool_spills() {
    let pool = config().spill().create().unwrap();
    let blocks = pool.stats().classes()[0].blocks as usize;
    let held: Vec<_> = (0..blocks + 5)
        .map(|n| pool.boxed([n; 4]).unwrap())
        .collect();
    assert_eq!(pool.stats().spills(), 5);
    assert!(held.iter().enumerate().all(|(at, value)| value[3] == at));
}

#[test]
fn a_value_that_is_dropped_elsewhere_comes_home() {
    let pool = config().create().unwrap();
    let all = pool.stats().classes()[1].free_blocks;
    let sent: Vec<_> = (0..all).map(|_| pool.copied(&[1u64; 8]).unwrap()).collect();
    assert!(pool.boxed([0u64; 8]).is_err());
    std::thread::scope(|scope| {
        scope.spawn(|| drop(sent));
    });
    while pool.stats().classes()[1].free_blocks < all {
        pool.drain();
    }
    let stats = pool.stats();
    assert_eq!(stats.classes()[1].remote_frees, u64::from(all));
    assert_eq!(stats.misuses(), 0);
}

#[test]
fn a_pool_that_moves_to_another_thread_is_that_threads_own() {
    let pool = config().create().unwrap();
    drop(pool.boxed(1u64).unwrap());
    let pool = std::thread::spawn(move || {
        for n in 0..1000u64 {
            drop(pool.boxed(n).unwrap());
        }
        pool
    })
    .join()
    .unwrap();
    let stats = pool.stats();
    assert_eq!(stats.classes()[0].allocs, 1001);
    assert_eq!(stats.classes()[0].remote_frees, 0);
    assert_eq!(stats.classes()[0].free_blocks, stats.classes()[0].blocks);
}

#[test]
fn a_pool_that_lives_for_ever_serves_threads_that_are_not_scoped() {
    let pool: &'static _ = Box::leak(Box::new(config().create().unwrap()));
    let (to, from) = channel::<PoolBox<'static, String>>();
    let reader = std::thread::spawn(move || from.iter().map(|word| word.len()).sum::<usize>());
    for n in 0..5000 {
        let mut word = n.to_string();
        loop {
            match pool.boxed(word) {
                Ok(boxed) => break to.send(boxed).unwrap(),
                Err(full) => word = full.into_inner(), // the reader is behind
            }
            std::thread::yield_now();
        }
    }
    drop(to);
    assert_eq!(reader.join().unwrap(), 10 + 180 + 2700 + 16000);
    assert_eq!(pool.stats().misuses(), 0);
}

#[test]
fn values_go_round_between_threads_and_none_is_lost_or_changed() {
    const THREADS: usize = 4;
    const ROUNDS: u64 = 20_000;
    let pool = PoolConfig::new(1 << 16).class(64, 100).create().unwrap();
    let blocks = pool.stats().classes()[0].blocks;
    std::thread::scope(|scope| {
        let mut ways = Vec::new();
        for _ in 0..THREADS {
            let (to, from) = sync_channel::<PoolBox<'_, [u64; 8]>>(16);
            ways.push(to);
            scope.spawn(move || {
                for value in from {
                    assert!(value.iter().all(|word| *word == value[0]));
                }
            });
        }
        for n in 0..ROUNDS {
            let value = loop {
                if let Ok(value) = pool.boxed([n; 8]) {
                    break value;
                }
                std::thread::yield_now();
            };
            if n % 5 == 0 {
                assert_eq!(PoolBox::into_inner(value), [n; 8]);
            } else {
                ways[(n % 4) as usize].send(value).unwrap();
            }
        }
    });
    while pool.stats().classes()[0].free_blocks < blocks {
        pool.drain();
    }
    let stats = pool.stats();
    assert_eq!(stats.classes()[0].remote_frees, ROUNDS * 4 / 5);
    assert_eq!(stats.misuses(), 0);
}

#[repr(align(64))]
struct Line([u8; 64]);

#[repr(align(1024))]
struct Nothing;

#[test]
fn alignments_are_kept_and_what_has_no_size_takes_no_block() {
    let pool = config().create().unwrap();
    let small = pool.boxed(3u8).unwrap();
    let line = pool.boxed(Line([1; 64])).unwrap();
    let nothing = pool.boxed(Nothing).unwrap();
    let empty = pool.copied::<u64>(&[]).unwrap();
    assert_eq!(std::ptr::from_ref(&*line) as usize % 64, 0);
    assert_eq!(std::ptr::from_ref(&*nothing) as usize % 1024, 0);
    assert_eq!((*small, line.0[63], empty.len()), (3, 1, 0));
    let taken: u64 = pool
        .stats()
        .classes()
        .iter()
        .map(|class| class.allocs)
        .sum();
    assert_eq!(taken, 2);
    drop((small, line, nothing, empty));
    assert_eq!(pool.stats().misuses(), 0);
    for log2 in 0..=12 {
        let layout = Layout::from_size_align(4, 1 << log2).unwrap();
        let block = pool.alloc(layout).unwrap();
        assert_eq!(block.as_ptr() as usize % layout.align(), 0, "{layout:?}");
        // SAFETY: nobody uses the block.
        unsafe { pool.free(block).unwrap() };
    }
}

#[test]
fn a_leaked_value_stays_and_one_taken_out_frees_its_block() {
    let pool = config().create().unwrap();
    let number = PoolBox::leak(pool.boxed(41u64).unwrap());
    *number += 1;
    let word = pool.boxed("taken out".to_string()).unwrap();
    assert_eq!(PoolBox::into_inner(word), "taken out");
    assert_eq!(*number, 42);
    let class = pool.stats().classes()[0];
    assert_eq!(class.blocks - class.free_blocks, 1);
}

#[test]
fn a_drop_that_panics_frees_the_block_all_the_same() {
    struct Bad([u64; 4]);
    impl Drop for Bad {
        fn drop(&mut self) {
            panic!("at drop, with {}", self.0[0]);
        }
    }
    let pool = config().create().unwrap();
    let bad = pool.boxed(Bad([1; 4])).unwrap();
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(bad)));
    assert!(caught.is_err());
    let class = pool.stats().classes()[0];
    assert_eq!(class.free_blocks, class.blocks);
}

#[test]
fn raw_blocks_are_freed_from_anywhere_and_mistakes_change_nothing() {
    let pool = config().create().unwrap();
    let layout = Layout::new::<[u8; 100]>();
    let block = pool.alloc(layout).unwrap();
    let remote = pool.remote();
    assert!(remote.owns(block.as_ptr()) && remote.usable_size(block.as_ptr()) >= 100);
    assert!(!remote.owns(std::ptr::from_ref(&remote).cast()));
    // SAFETY: nobody uses the block; the mistakes are refused.
    unsafe {
        assert_eq!(pool.free(block.add(64)), Err(PoolError::Interior));
        assert_eq!(pool.free(block.add(1)), Err(PoolError::Misaligned));
        let elsewhere = std::ptr::NonNull::from(&layout).cast();
        assert_eq!(remote.free(elsewhere), Err(PoolError::Foreign));
        let address = block.as_ptr() as usize;
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let block = std::ptr::NonNull::new(address as *mut u8).unwrap();
                assert_eq!(remote.free(block), Ok(()));
                assert_eq!(remote.free(block), Err(PoolError::DoubleFree));
            });
        });
    }
    assert_eq!(pool.stats().misuses(), 4);
}

#[test]
fn any_thread_sees_how_full_a_pool_is() {
    let pool = config().create().unwrap();
    let remote = pool.remote();
    assert_eq!(remote.classes(), 4);
    let (all, bytes) = (remote.free_blocks(2), remote.free_bytes());
    assert_eq!(all, pool.stats().classes()[2].blocks);
    let held = pool.boxed([0u8; 150]).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| assert_eq!(remote.free_blocks(2), all - 1));
        scope.spawn(|| assert!(remote.free_bytes() <= bytes - 150));
    });
    drop(held);
    assert_eq!((remote.free_blocks(2), remote.free_bytes()), (all, bytes));
    assert_eq!((remote.free_blocks(4), remote.backlog()), (0, 0));

    // More than 14 classes: powers of two.
    let many = (1..=20).fold(PoolConfig::new(1 << 20), |config, n| {
        config.class(n * 16, 5)
    });
    let pool = many.create().unwrap();
    for (index, class) in pool.stats().classes().iter().enumerate() {
        let told = pool.remote().free_blocks(index);
        assert!(
            told <= class.free_blocks && told * 2 > class.free_blocks,
            "{index}: {told}"
        );
    }
}
