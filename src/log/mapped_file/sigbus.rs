//! The SIGBUS handler: touching a page of a map whose file was cut short raises that signal, and
//! the handler puts a page of zeros there and marks the mapping.

use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

/// One mapping that the SIGBUS handler knows. Slots are never freed, only used again, so the
/// handler can walk their list at any moment.
#[derive(Debug)]
pub(super) struct Slot {
    start: AtomicUsize,
    len: AtomicUsize,
    in_use: AtomicBool,
    pub(super) faulted: AtomicBool,
    next: AtomicPtr<Slot>,
}

static SLOTS: AtomicPtr<Slot> = AtomicPtr::new(std::ptr::null_mut());

/// Asked for once, since a signal handler may not.
static PAGE_SIZE: AtomicUsize = AtomicUsize::new(4096);

impl Slot {
    pub(super) fn take(start: usize, len: usize) -> &'static Self {
        let slot = Self::reuse().unwrap_or_else(Self::add);
        slot.faulted.store(false, Ordering::Relaxed);
        slot.len.store(len, Ordering::Relaxed);
        slot.start.store(start, Ordering::Release);
        slot
    }

    fn reuse() -> Option<&'static Self> {
        slots().find(|slot| {
            slot.in_use
                .compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
        })
    }

    fn add() -> &'static Self {
        let slot: &'static Self = Box::leak(Box::new(Self {
            start: AtomicUsize::new(0),
            len: AtomicUsize::new(0),
            in_use: AtomicBool::new(true),
            faulted: AtomicBool::new(false),
            next: AtomicPtr::new(std::ptr::null_mut()),
        }));
        let pointer = std::ptr::from_ref(slot).cast_mut();
        let mut head = SLOTS.load(Ordering::Acquire);
        loop {
            slot.next.store(head, Ordering::Relaxed);
            match SLOTS.compare_exchange(head, pointer, Ordering::Release, Ordering::Acquire) {
                Ok(_) => return slot,
                Err(newer) => head = newer,
            }
        }
    }

    pub(super) fn release(&self) {
        self.start.store(0, Ordering::Relaxed);
        self.len.store(0, Ordering::Relaxed);
        self.in_use.store(false, Ordering::Release);
    }

    fn contains(&self, address: usize) -> bool {
        let start = self.start.load(Ordering::Acquire);
        start != 0 && address.wrapping_sub(start) < self.len.load(Ordering::Relaxed)
    }
}

fn slots() -> impl Iterator<Item = &'static Slot> {
    let mut pointer = SLOTS.load(Ordering::Acquire);
    std::iter::from_fn(move || {
        // SAFETY: the list holds leaked boxes only, so every non-null pointer stays valid.
        let slot = unsafe { pointer.as_ref() }?;
        pointer = slot.next.load(Ordering::Acquire);
        Some(slot)
    })
}

pub(super) fn install_handler() {
    static INSTALLED: Once = Once::new();
    // SAFETY: the struct is plain data for which zero is a valid value; the handler is a
    // function of the signature that SA_SIGINFO asks for and calls only functions that are safe
    // in a signal handler.
    INSTALLED.call_once(|| unsafe {
        let page = libc::sysconf(libc::_SC_PAGESIZE);
        PAGE_SIZE.store(usize::try_from(page).unwrap_or(4096), Ordering::Relaxed);
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_sigbus as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        libc::sigemptyset(&raw mut action.sa_mask);
        libc::sigaction(libc::SIGBUS, &raw const action, std::ptr::null_mut());
    });
}

/// Puts zeros where a page of a known mapping is gone; any other SIGBUS keeps its meaning.
extern "C" fn on_sigbus(
    _signal: libc::c_int,
    info: *mut libc::siginfo_t,
    _context: *mut libc::c_void,
) {
    // SAFETY: the kernel hands a valid siginfo to an SA_SIGINFO handler. `mmap` with MAP_FIXED
    // replaces one page inside a mapping that a live `MappedFile` owns, so nothing else is hit;
    // `sigaction` with SIG_DFL restores the default, under which the access is tried again.
    unsafe {
        let address = (*info).si_addr() as usize;
        if let Some(slot) = slots().find(|slot| slot.contains(address)) {
            slot.faulted.store(true, Ordering::Relaxed);
            let page = PAGE_SIZE.load(Ordering::Relaxed);
            let start = address & !(page - 1);
            let mapped = libc::mmap(
                start as *mut libc::c_void,
                page,
                libc::PROT_READ,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED,
                -1,
                0,
            );
            if mapped != libc::MAP_FAILED {
                return;
            }
        }
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = libc::SIG_DFL;
        libc::sigaction(libc::SIGBUS, &raw const action, std::ptr::null_mut());
    }
}
