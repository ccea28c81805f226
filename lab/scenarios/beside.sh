# cyclictest and the recorder see the same activations of the same thread: the test program of
# host/tests/beside_cyclictest.rs.
beside_cyclictest --include-ignored --nocapture
