//! The least that an allocator of a program with one thread can do: a list of free blocks for each size, and the next
//! bytes of a piece when it is empty. It looks at nothing and gives nothing back, so no allocator takes many fewer
//! instructions. Its time is another matter: the lists scatter. For `json` alone: nothing here is for several threads.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::UnsafeCell;
use std::ptr;

const STEP: usize = 16;
const LARGEST: usize = 32 << 10;
const PIECE: usize = 1 << 20;

struct Lists {
    free: [*mut u8; LARGEST / STEP + 1],
    next: *mut u8,
    left: usize,
}

pub struct Floor(UnsafeCell<Lists>);

// SAFETY: not for several threads; `report` asserts that there is one.
unsafe impl Sync for Floor {}

impl Floor {
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Self {
        Self(UnsafeCell::new(Lists {
            free: [ptr::null_mut(); LARGEST / STEP + 1],
            next: ptr::null_mut(),
            left: 0,
        }))
    }
}

fn is_listed(layout: Layout) -> bool {
    layout.size() <= LARGEST && layout.align() <= STEP
}

fn class_of(bytes: usize) -> usize {
    bytes.div_ceil(STEP)
}

impl Lists {
    /// The next bytes; what is left of a piece that is too short is lost.
    #[cold]
    unsafe fn carve(&mut self, bytes: usize) -> *mut u8 {
        if self.left < bytes {
            self.next = System.alloc(Layout::from_size_align_unchecked(PIECE, STEP));
            self.left = PIECE;
            if self.next.is_null() {
                self.left = 0;
                return self.next;
            }
        }
        let block = self.next;
        self.next = block.add(bytes);
        self.left -= bytes;
        block
    }
}

unsafe impl GlobalAlloc for Floor {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !is_listed(layout) {
            return System.alloc(layout);
        }
        let lists = &mut *self.0.get();
        let class = class_of(layout.size());
        let block = lists.free[class];
        if block.is_null() {
            return lists.carve(class * STEP);
        }
        lists.free[class] = *block.cast::<*mut u8>();
        block
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if !is_listed(layout) {
            return System.dealloc(block, layout);
        }
        let lists = &mut *self.0.get();
        let class = class_of(layout.size());
        *block.cast::<*mut u8>() = lists.free[class];
        lists.free[class] = block;
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        let wanted = Layout::from_size_align_unchecked(bytes, layout.align());
        match (is_listed(layout), is_listed(wanted)) {
            (false, false) => return System.realloc(block, layout, bytes),
            (true, true) if class_of(layout.size()) == class_of(bytes) => return block,
            _ => {}
        }
        let moved = self.alloc(wanted);
        if !moved.is_null() {
            ptr::copy_nonoverlapping(block, moved, layout.size().min(bytes));
            self.dealloc(block, layout);
        }
        moved
    }
}
