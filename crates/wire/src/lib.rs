//! The transfer protocol, sans-I/O.
