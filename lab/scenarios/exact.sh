# Every kind of disturbance at the sizes used on real machines: 100 us, 500 us, 2 ms. Here time advances with the
# instructions that the guest executes, so that only the guest itself can cause lateness. It has one CPU.
LATHUNT_MATRIX_ONLY_CPU=1 matrix --include-ignored --nocapture
