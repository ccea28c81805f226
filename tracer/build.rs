//! Linker options of the shared library: its versioned name, and that it is never unloaded (threads refer to
//! it).
fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,liblathunt-tracer.so.0,-z,nodelete");
}
