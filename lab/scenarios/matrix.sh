# Every kind of disturbance on every CPU: the test program of host/tests/matrix.rs. An emulated CPU whose host is busy is
# late by milliseconds by itself; the disturbances have to exceed that. Smaller ones: exact.sh.
LATHUNT_MATRIX_MS=20 matrix --include-ignored --nocapture
