-- Four questions about many runs, on the tables of lathunt.sql: docs/howto/many-runs.md.

-- 1. Which kernel is worst?
SELECT kernel, count(*) AS runs, count(DISTINCT host) AS hosts, max(max_ns) / 1e3 AS worst_us,
    quantile_disc(max_ns, 0.5) / 1e3 AS median_of_maxima_us, sum(lost) AS lost
FROM run GROUP BY kernel ORDER BY worst_us DESC NULLS FIRST;

-- 2. Which driver is in the worst cases of which boards, with how much of their time?
SELECT driver, product, count(DISTINCT (run, rank)) AS cases, count(DISTINCT host) AS hosts, max(duration_ns) / 1e3 AS most_us
FROM part JOIN run USING (run) WHERE driver IS NOT NULL
GROUP BY driver, product ORDER BY most_us DESC;

-- 3. Since when does a cause occur that was not there before?
SELECT cause.cause, min(started) AS since, count(DISTINCT run) AS runs, max(worst_ns) / 1e3 AS worst_us, arg_min(kernel, started) AS first_kernel
FROM cause JOIN run USING (run) GROUP BY cause.cause ORDER BY since DESC;

-- 4. Which boards missed the deadline, and which runs cannot tell?
SELECT product, coalesce(outcome, 'NONE') AS outcome, count(*) AS runs, max(max_ns) / 1e3 AS worst_us,
    count(*) FILTER (NOT complete) AS incomplete
FROM run GROUP BY product, outcome ORDER BY product, outcome;
