//! One boxed value made and freed between breakpoints, for the test that counts instructions. With a number as its
//! argument it breaks at the last of that many rounds; without one it never does.

#[global_allocator]
static ALLOC: calmalloc::CalMalloc = calmalloc::CalMalloc;

fn breakpoint(is_wanted: bool) {
    #[cfg(target_arch = "x86_64")]
    if is_wanted {
        // SAFETY: whoever traces the program expects it; nobody else passes the argument.
        unsafe { std::arch::asm!("int3") }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = is_wanted;
}

fn main() {
    let rounds: Option<u32> = std::env::args().nth(1).and_then(|word| word.parse().ok());
    let last = rounds.unwrap_or(1000);
    for round in 0..=last {
        let is_traced = rounds.is_some() && round == last;
        breakpoint(is_traced);
        let value = std::hint::black_box(Box::new([round; 12]));
        breakpoint(is_traced);
        drop(value);
        breakpoint(is_traced);
    }
}
