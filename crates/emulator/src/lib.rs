//! Runs the link model on real packets between two network namespaces.
