//! Compiles the BPF programs (`src/bpf/*.bpf.c`) with clang into objects that the crate embeds, compressed: to a sixth.

use std::env;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use flate2::write::GzEncoder;
use flate2::Compression;

const OBJECTS: [&str; 9] =
    ["recorder", "blocking", "potential", "path", "inject", "parity", "code", "floor", "steer"];

fn main() {
    println!("cargo:rerun-if-changed=src/bpf");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    // The libbpf that is linked in brings its headers (libbpf-sys declares `links = "bpf"`).
    let headers = env::var("DEP_BPF_INCLUDE").expect("libbpf-sys says where its headers are");
    // At once: each takes a second or two.
    std::thread::scope(|scope| {
        for object in OBJECTS {
            let (source, object) = (format!("src/bpf/{object}.bpf.c"), out.join(format!("{object}.bpf.o")));
            let headers = &headers;
            scope.spawn(move || compile(&source, &object, headers));
        }
    });
}

fn compile(source: &str, object: &Path, headers: &str) {
    let architecture = env::var("CARGO_CFG_TARGET_ARCH").expect("cargo sets the architecture");
    // As <bpf/bpf_tracing.h> calls it.
    let architecture = match architecture.as_str() {
        "x86_64" => "x86",
        "aarch64" => "arm64",
        other => other,
    };
    // Line numbers of BTF name files: the same names wherever it is built, so that two builds are equal.
    let here = env::current_dir().expect("cargo runs this in the directory of the crate");
    let map = |from: &str, to: &str| format!("-ffile-prefix-map={from}={to}");
    let output = Command::new("clang")
        // -g: BTF, by which libbpf finds the kernel's fields. v3: atomic exchange and fetch-and-add; Linux 5.12.
        .args(["-g", "-O2", "-target", "bpf", "-mcpu=v3", "-fno-stack-protector"])
        .args(["-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror"])
        .args([map(headers, "include"), map(&here.to_string_lossy(), "host")])
        .args([&format!("-D__TARGET_ARCH_{architecture}"), "-I", headers, "-c", source, "-o"])
        .arg(object)
        .output()
        .unwrap_or_else(|error| panic!("cannot run clang for {source}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cannot compile {source} (needs clang 14 or newer): {said}");
    pack(object).unwrap_or_else(|error| panic!("cannot compress {}: {error}", object.display()));
}

/// Writes `object` beside itself, compressed. It holds no time, so that two builds are equal.
fn pack(object: &Path) -> std::io::Result<()> {
    let packed = fs::File::create(object.with_extension("o.gz"))?;
    let mut encoder = GzEncoder::new(packed, Compression::best());
    encoder.write_all(&fs::read(object)?)?;
    encoder.finish().map(drop)
}
