//! Reproducible random numbers for the bootstrap: a run gives the same answer on every machine.

/// xoshiro256** (D. Blackman and S. Vigna, "Scrambled linear pseudorandom number generators", 2018), seeded by SplitMix64.
#[derive(Clone, Debug)]
pub struct Random([u64; 4]);

impl Random {
    /// A separate stream for each seed.
    #[must_use]
    pub fn new(seed: u64) -> Random {
        let mut seeds = crate::random::Random::new(seed);
        Random(std::array::from_fn(|_| seeds.bits()))
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        let s = &mut self.0;
        let result = s[1].wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// Uniform in the open interval (0, 1).
    pub fn uniform(&mut self) -> f64 {
        ((self.bits() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    /// Exponential with mean 1.
    pub fn exponential(&mut self) -> f64 {
        -self.uniform().ln()
    }
}
