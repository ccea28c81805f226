//! Other programs' formats, one a file.

pub mod ctf;
