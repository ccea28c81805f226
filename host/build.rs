//! Compiles the BPF programs (`src/bpf/*.bpf.c`) with clang into objects that the crate embeds.

use std::env;
use std::path::PathBuf;

use libbpf_cargo::SkeletonBuilder;

const OBJECTS: [&str; 5] = ["recorder", "blocking", "potential", "inject", "parity"];

fn main() {
    println!("cargo:rerun-if-changed=src/bpf");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    // The libbpf that is linked in brings its headers (libbpf-sys declares `links = "bpf"`).
    let headers =
        format!("-I{}", env::var("DEP_BPF_INCLUDE").expect("libbpf-sys says where its headers are"));
    for object in OBJECTS {
        let source = format!("src/bpf/{object}.bpf.c");
        SkeletonBuilder::new()
            .source(&source)
            .obj(out.join(format!("{object}.bpf.o")))
            // v3: atomic exchange and fetch-and-add; Linux 5.12.
            .clang_args([
                "-mcpu=v3",
                "-Wall",
                "-Wextra",
                "-Wno-unused-parameter",
                "-Werror",
                headers.as_str(),
            ])
            .build()
            .unwrap_or_else(|error| panic!("cannot compile {source} (needs clang 14 or newer): {error:#}"));
    }
}
