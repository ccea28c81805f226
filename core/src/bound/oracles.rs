//! Published data sets, and what others computed from them.

use super::gev::{self, Fixed};
use super::goodness::statistics;
use super::gpd;
use super::order;
use super::tail::{total, Distribution, Rounding};

pub(super) const TWO_SIDED: f64 = 3.841_458_8;
pub(super) const ONE_SIDED: f64 = 2.705_543_5;

fn close(got: f64, want: f64, within: f64) {
    assert!((got - want).abs() <= within, "{got} is not {want}");
}

/// To half a per cent, as profiles are published.
fn ends(got: gpd::Ends, want: (f64, f64)) {
    close(got.0.unwrap(), want.0, want.0.abs() * 5e-3);
    close(got.1.unwrap(), want.1, want.1.abs() * 5e-3);
}

/// Annual maxima of the sea level at Port Pirie, 1923 to 1987 (Coles 2001, example 1.1).
pub(super) const PORTPIRIE: [f64; 65] = [
    4.03, 3.83, 3.65, 3.88, 4.01, 4.08, 4.18, 3.80, 4.36, 3.96, 3.98, 4.69, 3.85, 3.96, 3.85, 3.93, 3.75,
    3.63, 3.57, 4.25, 3.97, 4.05, 4.24, 4.22, 3.73, 4.37, 4.06, 3.71, 3.96, 4.06, 4.55, 3.79, 3.89, 4.11,
    3.85, 3.86, 3.86, 4.21, 4.01, 4.11, 4.24, 3.96, 4.21, 3.74, 3.85, 3.88, 3.66, 4.11, 3.71, 4.18, 3.90,
    3.78, 3.91, 3.72, 4.00, 3.66, 3.62, 4.33, 4.55, 3.75, 4.08, 3.90, 3.88, 3.94, 4.33,
];

/// Daily rainfall in the south-west of England, 1914 to 1962 (Coles 2001, example 1.6).
pub(super) fn rain() -> Vec<f64> {
    let text = include_str!("../../tests/data/bound/rain.txt");
    text.lines().map(|line| line.parse().unwrap()).collect()
}

/// Annual maximum temperatures at Oxford, 1901 to 1980, as counts (data set of R's package evd).
fn oxford() -> Vec<f64> {
    let counts = [
        (75, 1),
        (77, 3),
        (79, 3),
        (80, 5),
        (81, 3),
        (82, 4),
        (83, 6),
        (84, 9),
        (85, 7),
        (86, 7),
        (87, 9),
        (88, 3),
        (89, 9),
        (90, 3),
        (91, 2),
        (92, 2),
        (93, 1),
        (94, 1),
        (95, 2),
    ];
    counts.iter().flat_map(|&(value, n)| std::iter::repeat_n(f64::from(value), n)).collect()
}

#[test]
fn port_pirie_has_the_published_block_maxima() {
    let fit = gev::fit(&PORTPIRIE).unwrap();
    for (got, want) in [(fit.mu, 3.87475), (fit.sigma, 0.198044), (fit.xi, -0.05011)] {
        close(got, want, 1e-3);
    }
    close(fit.nllh, -4.33906, 1e-4);
    close(fit.level(0.1), 4.29621, 1e-3);
    close(fit.level(0.01), 4.68840, 1e-3);
    ends(gev::interval(&PORTPIRIE, &fit, Fixed::Level(0.1), TWO_SIDED), (4.2046, 4.4451));
    ends(gev::interval(&PORTPIRIE, &fit, Fixed::Level(0.01), TWO_SIDED), (4.4904, 5.2607));
    let gumbel = gev::fit_gumbel(&PORTPIRIE).unwrap();
    close(gumbel.mu, 3.869444, 1e-3);
    close(gumbel.sigma, 0.194889, 1e-3);
    close(2.0 * (gumbel.nllh - fit.nllh), 0.24275, 2e-4);
    let (statistic, p) = order::ljung_box(&PORTPIRIE, 10).unwrap();
    close(statistic, 5.82984, 1e-4);
    close(p, 0.82935, 1e-4);
    // Published with four lags, which this many values would not have by the rule: kept to what the rule gives.
    assert!(order::kpss(&PORTPIRIE).unwrap().1 > 0.5);
    let mut sorted = PORTPIRIE.to_vec();
    sorted.sort_by(f64::total_cmp);
    let cells = Distribution::of_values(&sorted, Rounding::Exact).unwrap().cells;
    let found = statistics(&cells, |z| 1.0 - fit.below(z));
    close(found.a2, 0.1544, 2e-3);
    close(found.w2, 0.0211, 1e-3);
}

#[test]
fn oxford_has_an_end_with_the_published_profile() {
    let maxima = oxford();
    let fit = gev::fit(&maxima).unwrap();
    for (got, want) in [(fit.mu, 83.839), (fit.sigma, 4.260), (fit.xi, -0.287)] {
        close(got, want, 1e-3);
    }
    close(2.0 * fit.nllh, 457.793, 1e-3);
    close(2.0 * gev::fit_gumbel(&maxima).unwrap().nllh, 469.792, 1e-3);
    close(fit.mu - fit.sigma / fit.xi, 98.668, 0.02);
    ends(gev::interval(&maxima, &fit, Fixed::Endpoint, TWO_SIDED), (95.682, 113.037));
    close(gev::interval(&maxima, &fit, Fixed::Endpoint, ONE_SIDED).1.unwrap(), 108.455, 0.5);
    ends(gev::interval(&maxima, &fit, Fixed::Sigma, TWO_SIDED), (3.64, 5.12));
    for (p, level, profile) in [
        (0.1, 90.899, (89.804, 92.278)),
        (0.01, 94.712, (93.344, 97.920)),
        (0.001, 96.629, (94.788, 102.046)),
    ] {
        close(fit.level(p), level, 2e-3);
        ends(gev::interval(&maxima, &fit, Fixed::Level(p), TWO_SIDED), profile);
    }
}

#[test]
fn rain_has_the_published_tail_and_its_profile() {
    let values = rain();
    let all = Distribution::of_values(&values, Rounding::Exact).unwrap();
    let cells = all.excesses(30.0);
    assert_eq!((values.len(), total(&cells)), (17_531, 152));
    let fit = gpd::fit(&cells).unwrap();
    close(fit.sigma, 7.440269, 1e-3);
    close(fit.xi, 0.184499, 1e-3);
    close(fit.nllh, 485.09372, 1e-4);
    let t = (36_500.0 * 152.0 / 17_531f64).ln();
    close(30.0 + gpd::level(&fit, t), 106.32803, 1e-2);
    let profile = gpd::level_interval(&cells, &fit, t, TWO_SIDED);
    ends((profile.0.map(|y| y + 30.0), profile.1.map(|y| y + 30.0)), (80.863, 184.919));
    let upper = gpd::level_interval(&cells, &fit, t, ONE_SIDED).1.unwrap();
    close(30.0 + upper, 164.619, 0.1);
    let exponential = gpd::fit_exponential(&cells).unwrap();
    close(exponential.sigma, 9.08421, 1e-3);
    close(2.0 * (exponential.nllh - fit.nllh), 4.60005, 2e-4);
    let found = statistics(&cells, |y| fit.survival(y));
    close(found.a2, 0.3914, 1e-3);
    close(found.w2, 0.0381, 1e-3);
}

#[test]
fn rain_in_time_order_has_the_published_statistics() {
    let values = rain();
    let above = |v: &&f64| **v > 30.0;
    let excesses: Vec<f64> = values.iter().filter(above).map(|v| v - 30.0).collect();
    let times: Vec<f64> =
        values.iter().enumerate().filter(|(_, v)| **v > 30.0).map(|(at, _)| at as f64).collect();
    close(order::extremal_index(&times).unwrap(), 0.94194, 1e-4);
    let (statistic, p) = order::ljung_box(&excesses, 10).unwrap();
    close(statistic, 18.886, 1e-2);
    close(p, 0.0417, 1e-4);
    let (_, p) = order::ks(&excesses[..76], &excesses[76..]).unwrap();
    close(p, 0.3012, 0.05); // exact there, asymptotic here
}

#[test]
fn rounded_rain_is_fitted_by_its_classes() {
    for (width, sigma, xi, nllh) in [(1.0, 7.57296, 0.173699, 486.25190), (5.0, 7.53317, 0.178262, 244.19566)]
    {
        let all = Distribution::of_values(&rain(), Rounding::Width(width)).unwrap();
        let threshold = all.grid.edge_from(30.0);
        // Excesses over 30 are floored, so a sample at exactly 30 is none of them.
        let kept: Vec<f64> = rain().into_iter().filter(|v| *v > 30.0).collect();
        let cells = Distribution::of_values(&kept, Rounding::Width(width)).unwrap().excesses(threshold);
        assert_eq!(total(&cells), 152);
        let fit = gpd::fit(&cells).unwrap();
        close(fit.sigma, sigma, 1e-3);
        close(fit.xi, xi, 1e-3);
        close(fit.nllh, nllh, 1e-4);
    }
}

/// `fpot` and `exi(r = 0)` of R's package evd 2.3-6.1 over several thresholds (its optimum polished by `optim`), and the
/// likelihood of classes of 4 mm, minimised by `optim` in R 4.2.2.
#[test]
fn rain_over_several_thresholds_is_what_r_finds() {
    let values = rain();
    let all = Distribution::of_values(&values, Rounding::Exact).unwrap();
    for (u, n, sigma, xi, theta) in [
        (10.9, 1743, 7.744519, 0.034817, 0.638_174_36),
        (16.5, 844, 7.936598, 0.039492, 0.720_651_68),
        (29.2, 165, 7.777924, 0.151128, 0.890_880_25),
    ] {
        let cells = all.excesses(u);
        let fit = gpd::fit(&cells).unwrap();
        assert_eq!(total(&cells), n);
        close(fit.sigma, sigma, 2e-5);
        close(fit.xi, xi, 2e-5);
        let times = (0u32..).zip(&values).filter(|(_, value)| **value > u).map(|(at, _)| f64::from(at));
        close(order::extremal_index(&times.collect::<Vec<_>>()).unwrap(), theta, 1e-7);
    }
    let rounded = Distribution::of_values(&values, Rounding::Width(4.0)).unwrap();
    for (u, n, sigma, xi, nllh) in [
        (12.0, 1504, 7.922931, 0.024797, 2585.099623),
        (20.0, 570, 6.926963, 0.118470, 958.437774),
        (24.0, 323, 7.644165, 0.100450, 568.314677),
    ] {
        let cells = rounded.excesses(u);
        let fit = gpd::fit(&cells).unwrap();
        assert_eq!(total(&cells), n);
        close(fit.sigma, sigma, 2e-5);
        close(fit.xi, xi, 2e-5);
        close(fit.nllh, nllh, 1e-5);
    }
}

#[test]
fn dow_jones_is_heavy_and_small() {
    let text = include_str!("../../tests/data/bound/dowjones.txt");
    let index: Vec<f64> = text.lines().map(|line| line.parse().unwrap()).collect();
    let returns: Vec<f64> = index.windows(2).map(|pair| 100.0 * (pair[1] / pair[0]).ln()).collect();
    let cells = Distribution::of_values(&returns, Rounding::Exact).unwrap().excesses(2.0);
    assert_eq!((returns.len(), total(&cells)), (1_303, 37));
    let fit = gpd::fit(&cells).unwrap();
    close(fit.sigma, 0.495116, 1e-3);
    close(fit.xi, 0.287832, 1e-3);
    close(fit.nllh, 21.640156, 1e-4);
}

#[test]
fn clusters_are_found_from_their_gaps() {
    // Twenty clusters of five neighbours, a thousand samples apart.
    let times: Vec<f64> = (0..100).map(|i| f64::from(i / 5 * 1_000 + i % 5)).collect();
    let theta = order::extremal_index(&times).unwrap();
    assert!((0.15..0.45).contains(&theta), "{theta}");
    assert_eq!(order::cluster_starts(&times, 0.2), (0..20).map(|i| i * 5).collect::<Vec<_>>());
    close(order::index_by_blocks(1_000, 100, 1_000.0, 1e-4 * 1.0536).unwrap(), 1.0, 1e-3);
    close(order::index_by_blocks(1_000, 100, 1_000.0, 1e-3 * 1.0536).unwrap(), 0.1, 1e-3);
    assert_eq!(order::index_by_blocks(10, 10, 5.0, 0.5), None);
}
