//! Exports the C names over rlsf's global TLSF allocator, so that it can be preloaded.
//!
//! Every call takes rlsf's one mutex: with more than one thread this measures the mutex. Blocks do not say how they are
//! aligned, so the calls are those of `CAlloc`, whose realloc always moves; growing into a neighbour is left unused.

#![no_std]

use core::alloc::Layout;
use core::ffi::{c_int, c_void};
use core::ptr::{null_mut, write_bytes, NonNull};
use rlsf::{CAlloc, GlobalTlsf};

static HEAP: GlobalTlsf = GlobalTlsf::new();

const ALIGN_MIN: usize = 16;
const PAGE: usize = 4096;
const ENOMEM: c_int = 12;
const EINVAL: c_int = 22;

extern "C" {
    fn __errno_location() -> *mut c_int;
    fn abort() -> !;
}

#[panic_handler]
fn panic(_info: &core::panic::PanicInfo) -> ! {
    unsafe { abort() }
}

fn allocate(bytes: usize, align: usize) -> *mut c_void {
    let layout = Layout::from_size_align(bytes.max(1), align.max(ALIGN_MIN));
    match layout.ok().and_then(|layout| HEAP.allocate(layout)) {
        Some(block) => block.as_ptr().cast(),
        None => {
            unsafe { *__errno_location() = ENOMEM };
            null_mut()
        }
    }
}

#[no_mangle]
pub extern "C" fn malloc(bytes: usize) -> *mut c_void {
    allocate(bytes, ALIGN_MIN)
}

#[no_mangle]
pub unsafe extern "C" fn free(block: *mut c_void) {
    if let Some(block) = NonNull::new(block.cast()) {
        HEAP.deallocate(block);
    }
}

#[no_mangle]
pub unsafe extern "C" fn calloc(count: usize, bytes: usize) -> *mut c_void {
    let total = count.saturating_mul(bytes);
    let block = allocate(total, ALIGN_MIN);
    if !block.is_null() {
        write_bytes(block.cast::<u8>(), 0, total);
    }
    block
}

#[no_mangle]
pub unsafe extern "C" fn realloc(block: *mut c_void, bytes: usize) -> *mut c_void {
    let Some(old) = NonNull::new(block.cast()) else {
        return malloc(bytes);
    };
    if bytes == 0 {
        free(block);
        return null_mut();
    }
    let usable = HEAP.allocation_usable_size(old);
    if bytes <= usable && bytes >= usable / 2 {
        return block;
    }
    let layout = Layout::from_size_align(bytes, ALIGN_MIN);
    match layout.ok().and_then(|layout| HEAP.reallocate(old, layout)) {
        Some(new) => new.as_ptr().cast(),
        None => {
            *__errno_location() = ENOMEM;
            null_mut()
        }
    }
}

#[no_mangle]
pub extern "C" fn memalign(align: usize, bytes: usize) -> *mut c_void {
    allocate(bytes, align.next_power_of_two())
}

#[no_mangle]
pub extern "C" fn valloc(bytes: usize) -> *mut c_void {
    allocate(bytes, PAGE)
}

#[no_mangle]
pub extern "C" fn pvalloc(bytes: usize) -> *mut c_void {
    allocate(bytes.checked_next_multiple_of(PAGE).unwrap_or(usize::MAX), PAGE)
}

#[no_mangle]
pub unsafe extern "C" fn reallocarray(block: *mut c_void, count: usize, bytes: usize) -> *mut c_void {
    realloc(block, count.saturating_mul(bytes))
}

#[no_mangle]
pub extern "C" fn aligned_alloc(align: usize, bytes: usize) -> *mut c_void {
    memalign(align, bytes)
}

#[no_mangle]
pub unsafe extern "C" fn posix_memalign(out: *mut *mut c_void, align: usize, bytes: usize) -> c_int {
    if !align.is_power_of_two() || align < core::mem::size_of::<usize>() {
        return EINVAL;
    }
    let block = memalign(align, bytes);
    if block.is_null() {
        return ENOMEM;
    }
    *out = block;
    0
}

#[no_mangle]
pub unsafe extern "C" fn malloc_usable_size(block: *mut c_void) -> usize {
    NonNull::new(block.cast()).map_or(0, |block| HEAP.allocation_usable_size(block))
}
