//! The distribution functions that the gates need, by series and continued fractions.
//!
//! No crate: those available need a newer compiler or pull in linear algebra. Each is tested against published
//! quantiles.

/// Natural logarithm of the gamma function for `x > 0` (Lanczos, g = 7, nine terms; relative error below 1e-13).
#[must_use]
pub fn ln_gamma(x: f64) -> f64 {
    const TERMS: [f64; 8] = [
        676.520_368_121_885_1,
        -1_259.139_216_722_402_8,
        771.323_428_777_653_1,
        -176.615_029_162_140_6,
        12.507_343_278_686_905,
        -0.138_571_095_265_720_12,
        9.984_369_578_019_572e-6,
        1.505_632_735_149_311_6e-7,
    ];
    let x = x - 1.0;
    let mut sum = 0.999_999_999_999_809_9;
    for (i, term) in TERMS.iter().enumerate() {
        sum += term / (x + i as f64 + 1.0);
    }
    let t = x + 7.5;
    0.5 * std::f64::consts::TAU.ln() + (x + 0.5) * t.ln() - t + sum.ln()
}

/// Upper tail of the gamma distribution with shape `a` and scale 1: the regularised `Q(a, x)`.
#[must_use]
pub fn gamma_upper(a: f64, x: f64) -> f64 {
    if x <= 0.0 {
        return 1.0;
    }
    let front = (a * x.ln() - x - ln_gamma(a)).exp();
    if x < a + 1.0 {
        let (mut term, mut sum) = (1.0 / a, 1.0 / a);
        for n in 1..10_000 {
            term *= x / (a + f64::from(n));
            sum += term;
            if term < sum * 1e-16 {
                break;
            }
        }
        return (1.0 - front * sum).clamp(0.0, 1.0);
    }
    // Lentz's continued fraction.
    let mut b = x + 1.0 - a;
    let (mut c, mut d) = (1e300, 1.0 / b);
    let mut h = d;
    for i in 1..10_000 {
        let i = f64::from(i);
        let an = -i * (i - a);
        b += 2.0;
        d = 1.0 / (an * d + b);
        c = b + an / c;
        let step = c * d;
        h *= step;
        if (step - 1.0).abs() < 1e-15 {
            break;
        }
    }
    (front * h).clamp(0.0, 1.0)
}

/// Probability that a chi-square variable with `dof` degrees of freedom exceeds `x`.
#[must_use]
pub fn chi2_upper(dof: f64, x: f64) -> f64 {
    gamma_upper(dof / 2.0, x / 2.0)
}

/// The `x` that a chi-square variable with one degree of freedom exceeds with probability `p`.
#[must_use]
pub fn chi2_quantile_1(p: f64) -> f64 {
    bisect(1_500.0, |x| chi2_upper(1.0, x) > p)
}

/// The `x` below which a Gamma variable of shape `a` and scale 1 is with probability `p`.
#[must_use]
pub fn gamma_quantile(a: f64, p: f64) -> f64 {
    bisect(20.0 * a + 1_500.0, |x| 1.0 - gamma_upper(a, x) < p)
}

/// The smallest `x` in `[0, high]` for which `is_too_small` is false; it is true for all smaller ones.
fn bisect(mut high: f64, is_too_small: impl Fn(f64) -> bool) -> f64 {
    let mut low = 0.0;
    for _ in 0..200 {
        let middle = 0.5 * (low + high);
        if is_too_small(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    0.5 * (low + high)
}

/// Probability that a correlation of independent normal variables is further from 0 than `r`, with an even number `dof` of
/// degrees of freedom (two fewer than pairs): Student's t (Abramowitz and Stegun, 26.7.4).
#[must_use]
pub fn correlation_upper(r: f64, dof: usize) -> f64 {
    let (mut term, mut sum) = (1.0, 1.0);
    for k in 1..dof / 2 {
        let k = k as f64;
        term *= (2.0 * k - 1.0) / (2.0 * k) * (1.0 - r * r);
        sum += term;
    }
    (1.0 - r.abs() * sum).clamp(0.0, 1.0)
}

/// Probability of at least `k` events of a Poisson variable of `mean`.
#[must_use]
pub fn poisson_at_least(k: u64, mean: f64) -> f64 {
    match k {
        0 => 1.0,
        k => 1.0 - gamma_upper(k as f64, mean),
    }
}

/// Asymptotic p-value of the two-sample Kolmogorov-Smirnov distance `d` between samples of `n` and `m` values, with
/// Stephens' correction for small samples.
#[must_use]
pub fn ks_two_sample(d: f64, n: f64, m: f64) -> f64 {
    let root = (n * m / (n + m)).sqrt();
    let x = (root + 0.12 + 0.11 / root) * d;
    if x < 0.2 {
        return 1.0;
    }
    let term = |j: i32| f64::from(1 - 2 * ((j + 1) % 2)) * (-2.0 * f64::from(j * j) * x * x).exp();
    (2.0 * (1..=100).map(term).sum::<f64>()).clamp(0.0, 1.0)
}

/// Probability that the integral of a squared Brownian bridge exceeds `x`: the p-value of KPSS for a level, and of
/// Cramér-von Mises for a known distribution (Anderson and Darling, Ann. Math. Statist. 23, 1952).
#[must_use]
pub fn bridge_upper(x: f64) -> f64 {
    if x <= 0.0 {
        return 1.0;
    }
    let mut sum = 0.0;
    let mut binomial = 1.0; // (-1)^j C(-1/2, j)
    for j in 0..20 {
        let a = f64::from(4 * j + 1);
        let argument = a * a / (16.0 * x);
        if argument > 350.0 {
            break;
        }
        sum += binomial * a.sqrt() * (-argument).exp() * bessel_k_quarter(argument);
        binomial *= (0.5 + f64::from(j)) / f64::from(j + 1);
    }
    (1.0 - sum / (std::f64::consts::PI * x.sqrt())).clamp(0.0, 1.0)
}

/// Modified Bessel function `K` of order 1/4, by the trapezoid rule on its integral, which converges geometrically.
fn bessel_k_quarter(x: f64) -> f64 {
    const STEP: f64 = 0.05;
    let mut sum = 0.5 * (-x).exp();
    for i in 1..2_000 {
        let t = STEP * f64::from(i);
        let term = (-x * t.cosh()).exp() * (0.25 * t).cosh();
        sum += term;
        if term < sum * 1e-17 {
            break;
        }
    }
    sum * STEP
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(got: f64, want: f64, within: f64) {
        assert!((got - want).abs() <= within, "{got} is not {want}");
    }

    #[test]
    fn published_quantiles_have_their_probabilities() {
        for (dof, x, p) in [
            (1.0, 3.8415, 0.05),
            (1.0, 2.7055, 0.10),
            (10.0, 18.307, 0.05),
            (10.0, 23.209, 0.01),
            (9.0, 21.666, 0.01),
        ] {
            close(chi2_upper(dof, x), p, 2e-6 + p * 1e-4);
        }
        close(chi2_upper(10.0, 5.829_84), 0.829_35, 1e-5);
        close(chi2_quantile_1(0.05), 3.841_458_8, 1e-6);
        close(chi2_quantile_1(0.10), 2.705_543_5, 1e-6);
        close(ln_gamma(0.5), 0.572_364_942_924_700_1, 1e-12);
    }

    #[test]
    fn quantiles_of_gamma_and_student_are_those_of_the_tables() {
        // Half of the chi-square quantiles for 2 a degrees of freedom.
        for (a, p, x) in
            [(3.0, 0.025, 1.237), (5.0, 0.025, 3.247), (10.0, 0.05, 10.851), (20.0, 0.975, 59.342)]
        {
            close(2.0 * gamma_quantile(a, p), x, 1e-3);
        }
        for (t, dof, p) in [(2.101, 18, 0.05), (2.878, 18, 0.01), (3.922, 18, 0.001), (2.228, 10, 0.05)] {
            let dof_f = dof as f64;
            close(correlation_upper(t / (t * t + dof_f).sqrt(), dof), p, p * 2e-3);
        }
    }

    #[test]
    fn kpss_has_its_published_critical_values() {
        // Kwiatkowski, Phillips, Schmidt, Shin 1992, table 1; they are simulated to three digits.
        for (x, p) in [(0.347, 0.10), (0.463, 0.05), (0.574, 0.025), (0.739, 0.01)] {
            close(bridge_upper(x), p, p * 0.05);
        }
        close(bridge_upper(0.05917), 0.82, 0.01);
    }

    #[test]
    fn poisson_and_kolmogorov_tails_are_those_of_the_tables() {
        close(poisson_at_least(12, 5.0), 0.005_453, 1e-6);
        close(poisson_at_least(0, 5.0), 1.0, 0.0);
        close(ks_two_sample(1.358 / 50f64.sqrt(), 100.0, 100.0), 0.05, 0.01);
    }
}
