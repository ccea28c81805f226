//! (module list)
