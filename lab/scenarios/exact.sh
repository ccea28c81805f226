# Every kind of disturbance at the sizes that a real machine is tried with: 100 us, 500 us, 2 ms. Here time passes with
# the instructions that the guest executes, so that nothing is late but by what the guest itself does. It has one CPU.
LATHUNT_MATRIX_ONLY_CPU=1 matrix --include-ignored --nocapture
