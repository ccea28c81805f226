//! Minimisation in one and in few dimensions, without derivatives: for profiles, which always have a good start.

use super::gev_likelihood::Curved;

/// A minimum.
#[derive(Clone, Debug, PartialEq)]
pub struct Minimum<T> {
    /// Its position.
    pub at: T,
    /// Its value.
    pub value: f64,
}

const GOLDEN: f64 = 0.381_966_011_250_105_1;

/// A local minimum of `f` near `start`, found by stepping downhill and golden sections to `tolerance`. Values that are
/// not finite are walls. `None` if `f` is not finite at `start`, or decreases without end.
pub fn one(mut f: impl FnMut(f64) -> f64, start: f64, step: f64, tolerance: f64) -> Option<Minimum<f64>> {
    let mut f = |x: f64| {
        let value = f(x);
        if value.is_nan() {
            f64::INFINITY
        } else {
            value
        }
    };
    let middle = f(start);
    if !middle.is_finite() {
        return None;
    }
    let (mut a, mut b, mut c) = (start - step, start, start + step);
    let (mut fa, mut fb, mut fc) = (f(a), middle, f(c));
    let mut grow = step;
    for _ in 0..200 {
        if fb <= fa && fb <= fc {
            break;
        }
        grow *= 2.0;
        if fa < fb {
            (c, b) = (b, a);
            (fc, fb) = (fb, fa);
            a = b - grow;
            fa = f(a);
        } else {
            (a, b) = (b, c);
            (fa, fb) = (fb, fc);
            c = b + grow;
            fc = f(c);
        }
    }
    if !(fb <= fa && fb <= fc) {
        return None;
    }
    // `b` inside (a, c), lowest of the three
    for _ in 0..200 {
        if (c - a).abs() <= tolerance {
            break;
        }
        let (left, right) = (b - a, c - b);
        let x = if right > left { b + GOLDEN * right } else { b - GOLDEN * left };
        let fx = f(x);
        if fx <= fb {
            if x > b {
                a = b
            } else {
                c = b
            }
            (b, fb) = (x, fx);
        } else if x > b {
            c = x;
        } else {
            a = x;
        }
    }
    Some(Minimum { at: b, value: fb })
}

/// A local minimum of `f` near `start` (Nelder and Mead, Computer Journal 7, 1965), restarted from its result until
/// that gains nothing.
pub fn many(mut f: impl FnMut(&[f64]) -> f64, start: &[f64], step: &[f64]) -> Option<Minimum<Vec<f64>>> {
    let mut f = |x: &[f64]| {
        let value = f(x);
        if value.is_nan() {
            f64::INFINITY
        } else {
            value
        }
    };
    let mut best = Minimum { at: start.to_vec(), value: f(start) };
    if !best.value.is_finite() {
        return None;
    }
    let mut scale = 1.0;
    for _ in 0..8 {
        let before = best.value;
        best = simplex(&mut f, &best, step, scale);
        if before - best.value < 1e-9 {
            break;
        }
        scale = 0.3;
    }
    Some(best)
}

/// A local minimum of a function with its derivatives near `start` (Newton's method). The arguments should be of the order of
/// 1. An error, with the lowest point reached, if it does not converge.
///
/// It has converged if the quadratic form has its minimum less than `NEAR` below: a limit on the gradient would depend on the
/// units and on the number of terms of the function.
pub fn newton<const N: usize>(
    mut f: impl FnMut(&[f64; N]) -> Curved<N>,
    start: [f64; N],
) -> Result<Minimum<[f64; N]>, Minimum<[f64; N]>> {
    let (mut at, mut here) = (start, f(&start));
    for _ in 0..60 {
        if !here.value.is_finite() {
            break;
        }
        let Some((step, lift)) = downhill(&here.curvature, &here.gradient) else { break };
        let below: f64 = (0..N).map(|i| -0.5 * here.gradient[i] * step[i]).sum();
        if lift == 0.0 && below < NEAR {
            // The last step costs one value, and squares the error.
            let last = std::array::from_fn(|i| at[i] + step[i]);
            let reached = f(&last).value;
            let is_lower = reached <= here.value;
            return Ok(if is_lower {
                Minimum { at: last, value: reached }
            } else {
                Minimum { at, value: here.value }
            });
        }
        let mut shrink = 1.0 / step.iter().map(|one| one.abs()).fold(1.0, f64::max);
        let before = at;
        for _ in 0..40 {
            let mut next = at;
            (0..N).for_each(|i| next[i] += shrink * step[i]);
            let reached = f(&next);
            if reached.value.is_finite() && reached.value <= here.value + 1e-12 * here.value.abs() {
                (at, here) = (next, reached);
                break;
            }
            shrink *= 0.5;
        }
        if at == before {
            break;
        }
    }
    Err(Minimum { at, value: here.value })
}

/// Distance in value from a minimum that counts as none.
const NEAR: f64 = 1e-9;

/// The step to the minimum of a quadratic form, whose curvature is raised until it is positive (Levenberg and Marquardt).
/// With the lift.
fn downhill<const N: usize>(curvature: &[[f64; N]; N], gradient: &[f64; N]) -> Option<([f64; N], f64)> {
    let largest = (0..N).map(|i| curvature[i][i].abs()).fold(f64::MIN_POSITIVE, f64::max);
    let mut lift = 0.0;
    for _ in 0..30 {
        if let Some(step) = solved(curvature, lift, gradient) {
            return Some((step, lift));
        }
        lift = (lift * 4.0).max(1e-6 * largest);
    }
    None
}

/// Solution of `(curvature + lift) x = -gradient` by Cholesky's method; `None` unless positive definite.
#[allow(clippy::needless_range_loop)] // rows and columns of matrices
fn solved<const N: usize>(curvature: &[[f64; N]; N], lift: f64, gradient: &[f64; N]) -> Option<[f64; N]> {
    let mut low = [[0.0; N]; N];
    let mut x = [0.0; N];
    for i in 0..N {
        for j in 0..=i {
            let sum: f64 = (0..j).map(|k| low[i][k] * low[j][k]).sum();
            let rest = curvature[i][j] - sum + if i == j { lift } else { 0.0 };
            low[i][j] = match i == j {
                true if rest > 0.0 && rest.is_finite() => rest.sqrt(),
                true => return None,
                false => rest / low[j][j],
            };
        }
        let sum: f64 = (0..i).map(|k| low[i][k] * x[k]).sum();
        x[i] = (-gradient[i] - sum) / low[i][i];
    }
    for i in (0..N).rev() {
        let sum: f64 = (i + 1..N).map(|k| low[k][i] * x[k]).sum();
        x[i] = (x[i] - sum) / low[i][i];
    }
    x.iter().all(|one| one.is_finite()).then_some(x)
}

fn simplex(
    f: &mut impl FnMut(&[f64]) -> f64,
    start: &Minimum<Vec<f64>>,
    step: &[f64],
    scale: f64,
) -> Minimum<Vec<f64>> {
    let n = start.at.len();
    let mut points = vec![start.clone()];
    for i in 0..n {
        let mut at = start.at.clone();
        at[i] += step[i] * scale;
        let mut value = f(&at);
        if !value.is_finite() {
            at[i] = start.at[i] - step[i] * scale;
            value = f(&at);
        }
        points.push(Minimum { at, value });
    }
    for _ in 0..400 * n {
        points.sort_by(|a, b| a.value.total_cmp(&b.value));
        let spread = points[n].value - points[0].value;
        let width = (0..n).map(|i| ((points[n].at[i] - points[0].at[i]) / step[i]).abs()).fold(0.0, f64::max);
        // The tolerance is relative: rounding errors grow with the value.
        if spread < 1e-12 * (10.0 + points[0].value.abs()) && width < 1e-5 {
            break;
        }
        let centre: Vec<f64> =
            (0..n).map(|i| points[..n].iter().map(|p| p.at[i]).sum::<f64>() / n as f64).collect();
        let mut along = |t: f64| {
            let at: Vec<f64> = (0..n).map(|i| centre[i] + t * (points[n].at[i] - centre[i])).collect();
            let value = f(&at);
            Minimum { at, value }
        };
        let reflected = along(-1.0);
        let taken = if reflected.value < points[0].value {
            let expanded = along(-2.0);
            if expanded.value < reflected.value {
                expanded
            } else {
                reflected
            }
        } else if reflected.value < points[n - 1].value {
            reflected
        } else {
            let outside = reflected.value < points[n].value;
            let contracted = along(if outside { -0.5 } else { 0.5 });
            if contracted.value < points[n].value.min(reflected.value) {
                contracted
            } else {
                let lowest = points[0].at.clone();
                for point in &mut points[1..] {
                    point.at.iter_mut().zip(&lowest).for_each(|(x, low)| *x = low + 0.5 * (*x - low));
                    point.value = f(&point.at);
                }
                continue;
            }
        };
        points[n] = taken;
    }
    points.sort_by(|a, b| a.value.total_cmp(&b.value));
    points.swap_remove(0)
}

/// The point where `f` exceeds `level`, from `from` in the direction of `step`: brackets by growing steps, then narrows
/// by false position (Illinois; Dowell and Jarratt, BIT 11, 1971), or bisects where `f` is infinite. `None` if `level`
/// is not reached within `steps` steps.
pub fn crossing(mut f: impl FnMut(f64) -> f64, from: f64, step: f64, level: f64, steps: u32) -> Option<f64> {
    let mut beyond = |x: f64| {
        let value = f(x) - level;
        if value.is_nan() {
            f64::INFINITY
        } else {
            value
        }
    };
    // Each end with its value: at or below the level, and above it.
    let (mut inside, mut reach) = ((from, f64::NEG_INFINITY), step);
    let mut outside = None;
    for _ in 0..steps {
        let x = from + reach;
        let value = beyond(x);
        if value > 0.0 {
            outside = Some((x, value));
            break;
        }
        inside = (x, value);
        reach *= 1.6;
    }
    let mut outside = outside?;
    let mut kept = 0i32; // how many times in succession one end stayed: the outer one if positive
    for _ in 0..80 {
        let share = inside.1 / (inside.1 - outside.1);
        let share = if share.is_finite() && kept.abs() < 4 { share.clamp(1e-3, 1.0 - 1e-3) } else { 0.5 };
        let middle = inside.0 + share * (outside.0 - inside.0);
        let value = beyond(middle);
        if value > 0.0 {
            outside = (middle, value);
            kept = kept.min(0) - 1;
            if kept < -1 {
                inside.1 *= 0.5;
            }
        } else {
            inside = (middle, value);
            kept = kept.max(0) + 1;
            if kept > 1 {
                outside.1 *= 0.5;
            }
        }
        let near = value.abs() < 1e-7 && value > 0.0;
        if near || (outside.0 - inside.0).abs() <= 1e-7 * (outside.0 - from).abs() {
            break;
        }
        if kept.abs() >= 4 {
            kept = 0;
        }
    }
    Some(outside.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minima_and_crossings_are_found_beside_walls() {
        let wall = |x: f64| if x < 1.0 { f64::INFINITY } else { (x - 1.5).powi(2) };
        assert!((one(wall, 8.0, 0.5, 1e-8).unwrap().at - 1.5).abs() < 1e-7);
        assert_eq!(one(wall, 0.0, 0.5, 1e-8), None);
        assert_eq!(one(|x| x, 0.0, 0.5, 1e-8), None, "it falls without end");
        let valley = |x: &[f64]| 100.0 * (x[1] - x[0] * x[0]).powi(2) + (1.0 - x[0]).powi(2);
        let found = many(valley, &[-1.2, 1.0], &[0.5, 0.5]).unwrap();
        assert!((found.at[0] - 1.0).abs() < 1e-4, "{found:?}");
        let curved = |x: &[f64; 2]| {
            let (a, b) = (x[1] - x[0] * x[0], 1.0 - x[0]);
            let value = 100.0 * a * a + b * b;
            let gradient = [-400.0 * x[0] * a - 2.0 * b, 200.0 * a];
            let bend = 800.0 * x[0] * x[0] - 400.0 * a + 2.0;
            Curved { value, gradient, curvature: [[bend, -400.0 * x[0]], [-400.0 * x[0], 200.0]] }
        };
        let found = newton(curved, [-1.2, 1.0]).unwrap();
        assert!((found.at[0] - 1.0).abs() < 1e-6 && (found.at[1] - 1.0).abs() < 1e-6, "{found:?}");
        let line = |x: &[f64; 1]| Curved { value: x[0], gradient: [1.0], curvature: [[0.0]] };
        assert!(newton(line, [0.0]).is_err(), "it falls without end");
        let edge = crossing(|x| x * x, 0.0, 0.1, 4.0, 60).unwrap();
        assert!((edge - 2.0).abs() < 1e-5, "{edge}");
        assert_eq!(crossing(|_| 0.0, 0.0, 0.1, 4.0, 60), None);
    }
}
