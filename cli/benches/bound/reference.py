"""The tail procedure of `lathunt bound` as an engineer writes it with SciPy, for one run file: generalised Pareto fit of the
largest five per cent by interval-censored likelihood, profile limit of a level, and a parametric bootstrap of the Anderson-Darling
statistic. Prints the seconds it took and the fitted shape.

reference.py RUN BOOTSTRAP
"""
import json
import sys
import time

import numpy as np
from scipy import optimize, stats


def cells(run):
    """Edges and counts of the classes of the main quantity, all CPUs together."""
    counts, width = {}, 1
    for series in run["series"]:
        if series["quantity"] == "cyclic":
            width = series["histogram"]["width_ns"]
            for index, n in series["histogram"]["bins"]:
                counts[index] = counts.get(index, 0) + n
    indices = np.arange(min(counts), max(counts) + 1)
    edges = np.stack([indices, indices + 1], axis=1) * float(width)
    return edges, np.array([counts.get(index, 0) for index in indices], float)


def fit(edges, n):
    def nll(p):
        sigma, xi = np.exp(p[0]), p[1]
        s = stats.genpareto.sf(edges, xi, scale=sigma)
        share = s[:, 0] - s[:, 1]
        return np.inf if np.any(share[n > 0] <= 0) else -np.sum(n * np.log(np.maximum(share, 1e-300)))

    mean = np.sum(n * edges.mean(axis=1)) / n.sum()
    return optimize.minimize(nll, [np.log(mean), 0.05], method="Nelder-Mead", options={"xatol": 1e-4, "fatol": 1e-4})


def anderson_darling(edges, n, p):
    f = stats.genpareto.cdf(edges[:, 1], p[1], scale=np.exp(p[0]))[:-1]
    share = np.diff(np.concatenate([[0.0], f]))
    distance = np.cumsum(n)[:-1] - n.sum() * f
    weight = n.sum() * f * (1 - f)
    return np.sum(np.where(weight > 0, distance**2 * share / np.maximum(weight, 1e-300), 0)) / n.sum()


def profile_limit(edges, n, best, zeta, level):
    """Upper limit of the level, one-sided 95 %, by the profile likelihood."""
    def quantile(p):
        return np.exp(p[0]) / p[1] * ((level / zeta) ** -p[1] - 1)

    def deviance(target):
        def nll(xi):
            sigma = target * xi / ((level / zeta) ** -xi - 1)
            s = stats.genpareto.sf(edges, xi, scale=sigma)
            return -np.sum(n * np.log(np.maximum(s[:, 0] - s[:, 1], 1e-300)))

        least = optimize.minimize_scalar(nll, bounds=(best.x[1] - 0.3, best.x[1] + 0.3), method="bounded")
        return 2 * (least.fun - best.fun) - 2.7055

    start = quantile(best.x)
    return optimize.brentq(deviance, start, start * 3)


def main():
    begin = time.perf_counter()
    with open(sys.argv[1]) as file:
        run = json.load(file)
    edges, n = cells(run)
    above = np.cumsum(n[::-1])[::-1]
    first = np.argmax(above <= 0.0005 * n.sum())
    samples, threshold = n.sum(), edges[first, 0]
    edges, n = edges[first:] - threshold, n[first:]
    best = fit(edges, n)
    limit = profile_limit(edges, n, best, n.sum() / samples, 1e-10)
    observed = anderson_darling(edges, n, best.x)
    random = np.random.default_rng(1)
    share = -np.diff(stats.genpareto.sf(np.append(edges[:, 0], np.inf), best.x[1], scale=np.exp(best.x[0])))
    worse = 0
    for _ in range(int(sys.argv[2])):
        drawn = random.multinomial(int(n.sum()), share / share.sum()).astype(float)
        worse += anderson_darling(edges, drawn, fit(edges, drawn).x) >= observed
    print(time.perf_counter() - begin, best.x[1], threshold + limit, worse)


main()
