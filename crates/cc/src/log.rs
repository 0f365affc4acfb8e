//! Keeps the log of libbpf and of the kernel's verifier while a program is loaded, instead of printing it.

use std::{
    mem,
    sync::{Mutex, MutexGuard, PoisonError},
};

use libbpf_rs::{PrintLevel, set_print};

static SAID: Mutex<String> = Mutex::new(String::new());
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Collects the log until it is dropped. libbpf has one callback for the whole process, so others wait.
pub(crate) struct LogCapture {
    _turn: MutexGuard<'static, ()>,
}

impl LogCapture {
    pub(crate) fn begin() -> Self {
        let turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        said().clear();
        set_print(Some((PrintLevel::Info, |_, message| {
            said().push_str(&message)
        })));
        Self { _turn: turn }
    }

    pub(crate) fn end(self) -> String {
        mem::take(&mut said())
    }
}

impl Drop for LogCapture {
    fn drop(&mut self) {
        set_print(None);
    }
}

fn said() -> MutexGuard<'static, String> {
    SAID.lock().unwrap_or_else(PoisonError::into_inner)
}
