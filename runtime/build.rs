//! Linker options of the shared library: its versioned name, and that it is never unloaded (its signal handler stays
//! installed).
fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,liblathunt-runtime.so.0,-z,nodelete");
}
