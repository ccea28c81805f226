# cyclictest and the recorder see the same activations of the same thread: the test program of
# host/tests/beside_cyclictest.rs. An emulated CPU takes longer back to user space.
LATHUNT_EMULATED=1 beside_cyclictest --include-ignored --nocapture
