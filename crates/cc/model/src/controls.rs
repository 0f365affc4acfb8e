//! One module for each folder of `crates/cc/controls`, made by `build.rs`.

use crate::Algorithm;

include!(concat!(env!("OUT_DIR"), "/controls.rs"));
