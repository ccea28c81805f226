-- Run files of lathunt as tables, for DuckDB 1.3 or newer: docs/howto/many-runs.md.
--
--   SET VARIABLE runs = 'lab/**/run.lathunt.json';
--   .read lathunt.sql
--
-- Times are ns, as in the files. NULL is "not known", never 0. A run with lost > 0 may have been worse than its maximum.

-- Each file is read once; what a view needs is taken out of it here.
CREATE OR REPLACE TABLE raw AS
SELECT
    filename AS file, version, complete, conditions, series, peaks, losses, verdict, warm_up, tasks,
    row_number() OVER (ORDER BY filename) AS run,
    -- Response times of recorded threads, one entry a thread; those of a task set are in `series`.
    CASE WHEN task_set IS NULL THEN list_filter(list_transform(tasks, lambda task: {
        response: list_filter(from_json(task -> 'series', '["JSON"]'), lambda one: (one ->> 'quantity') = 'response')[1],
        judged: (task -> 'held_to') IS NULL OR (task ->> '$.held_to.deadline_ns') IS NOT NULL
    }), lambda task: task.response IS NOT NULL) END AS responses
FROM read_json(
    getvariable('runs'), filename = true, format = 'unstructured', maximum_object_size = 268435456,
    columns = {
        format: 'VARCHAR', version: 'INTEGER', complete: 'BOOLEAN', conditions: 'JSON', series: 'JSON[]',
        peaks: 'JSON[]', losses: 'JSON[]', verdict: 'JSON', warm_up: 'JSON', tasks: 'JSON[]', task_set: 'JSON'
    })
WHERE format = 'lathunt-run';

-- One row a run: where, when, under which conditions, with which answer.
CREATE OR REPLACE TABLE run AS
SELECT
    run, file, complete,
    TRY_CAST(conditions ->> 'started' AS TIMESTAMPTZ) AS started,
    TRY_CAST(conditions ->> 'duration_s' AS DOUBLE) AS duration_s,
    conditions ->> 'host' AS host,
    conditions ->> '$.machine.product' AS product,
    conditions ->> '$.machine.cpu_model' AS cpu_model,
    conditions ->> '$.machine.architecture' AS architecture,
    conditions ->> '$.machine.hypervisor' AS hypervisor,
    conditions ->> '$.kernel.release' AS kernel,
    TRY_CAST(conditions ->> '$.kernel.realtime' AS BOOLEAN) AS realtime,
    TRY_CAST(conditions ->> '$.knobs.cpu_dma_latency_held_us' AS INTEGER) AS idle_limit_us,
    conditions ->> 'load' AS load,
    verdict ->> 'outcome' AS outcome,
    -- The judged one; of a run without a verdict, that of its first series.
    coalesce(verdict ->> 'quantity', series[1] ->> 'quantity') AS quantity,
    TRY_CAST(verdict ->> 'deadline_ns' AS UBIGINT) AS deadline_ns,
    list_max(list_transform(
        list_concat(
            list_filter(series, lambda one: (one ->> 'quantity') = coalesce(verdict ->> 'quantity', series[1] ->> 'quantity')),
            list_transform(
                list_filter(responses, lambda task: task.judged AND (verdict ->> 'quantity') = 'response'),
                lambda task: task.response)),
        lambda one: TRY_CAST(one ->> '$.histogram.max_ns' AS UBIGINT))) AS max_ns,
    list_sum(list_transform(
        list_concat(series, list_transform(responses, lambda task: task.response)),
        lambda one: TRY_CAST(one ->> 'lost' AS UBIGINT))) AS lost
FROM raw;

-- One row a series: one quantity on one CPU or of one thread.
CREATE OR REPLACE VIEW series AS
SELECT
    run, one ->> 'quantity' AS quantity,
    TRY_CAST(one ->> 'cpu' AS INTEGER) AS cpu,
    one ->> '$.thread.comm' AS thread,
    TRY_CAST(one ->> '$.histogram.count' AS UBIGINT) AS samples,
    TRY_CAST(one ->> '$.histogram.min_ns' AS UBIGINT) AS min_ns,
    TRY_CAST(one ->> '$.histogram.max_ns' AS UBIGINT) AS max_ns,
    TRY_CAST(one ->> '$.histogram.sum_ns' AS DOUBLE) / TRY_CAST(one ->> '$.histogram.count' AS UBIGINT) AS mean_ns,
    TRY_CAST(one ->> 'missed' AS UBIGINT) AS missed,
    TRY_CAST(one ->> 'lost' AS UBIGINT) AS lost
FROM (
    SELECT run, unnest(list_concat(series, list_transform(responses, lambda task: task.response))) AS one FROM raw
);

-- One row a worst case.
CREATE OR REPLACE TABLE peak AS
SELECT
    run, row_number() OVER (PARTITION BY run ORDER BY TRY_CAST(one ->> 'total_ns' AS UBIGINT) DESC) AS rank,
    one ->> 'quantity' AS quantity,
    TRY_CAST(one ->> 'cpu' AS INTEGER) AS cpu,
    TRY_CAST(one ->> 'total_ns' AS UBIGINT) AS total_ns,
    one ->> '$.victim.comm' AS victim,
    one ->> 'culprit' AS culprit,
    -- `hwlat` judges a gap without an explanation in parts.
    coalesce(one ->> '$.explanation.cause', CASE WHEN (one ->> 'quantity') = 'hardware' THEN one ->> 'culprit' END) AS cause,
    one ->> '$.explanation.sentence' AS sentence,
    TRY_CAST(one ->> '$.explanation.unexplained_ns' AS UBIGINT) AS unexplained_ns,
    one ->> 'no_evidence' AS no_evidence,
    coalesce(TRY_CAST(one ->> 'during_action' AS BOOLEAN), false) AS during_action,
    one -> '$.explanation.tree' AS tree
FROM (SELECT run, unnest(peaks) AS one FROM raw);

-- One row a part of the time of a worst case: interrupts, threads, softirqs. Net: parts and gaps of a case add up to it.
CREATE OR REPLACE VIEW part AS
WITH RECURSIVE parts AS (
    SELECT run, rank, tree AS segment FROM peak WHERE tree IS NOT NULL
    UNION ALL
    SELECT run, rank, unnest(from_json(segment -> 'children', '["JSON"]')) FROM parts WHERE (segment -> 'children') IS NOT NULL
)
SELECT
    run, rank, segment ->> 'kind' AS kind, segment ->> 'label' AS label,
    TRY_CAST(segment ->> 'duration_ns' AS UBIGINT) AS duration_ns,
    coalesce(TRY_CAST(segment ->> 'inferred' AS BOOLEAN), false) AS inferred,
    -- `hard IRQ 25 (virtio0)` → virtio0
    nullif(regexp_extract(segment ->> 'label', '^hard IRQ [0-9]+ \((.+)\)$', 1), '') AS driver
FROM parts
WHERE (segment -> 'children') IS NULL OR json_array_length(segment -> 'children') = 0;

-- One row a main cause of the worst cases of a run and one quantity: a late job and the late wake-up in it are two cases.
CREATE OR REPLACE VIEW cause AS
SELECT run, quantity, cause, count(*) AS cases, max(total_ns) AS worst_ns, sum(total_ns) AS total_ns
FROM peak WHERE cause IS NOT NULL GROUP BY run, quantity, cause;

-- One row a cause of the late jobs of a recorded thread: of all of them, not only of those kept as worst cases.
CREATE OR REPLACE VIEW late_job AS
SELECT
    run, task ->> '$.thread.comm' AS thread, one ->> 'cause' AS cause, TRY_CAST(one ->> 'jobs' AS UBIGINT) AS jobs,
    TRY_CAST(one ->> 'time_ns' AS UBIGINT) AS time_ns, TRY_CAST(one ->> 'worst_ns' AS UBIGINT) AS worst_ns
FROM (
    SELECT run, task, unnest(from_json(task -> 'late_causes', '["JSON"]')) AS one
    FROM (SELECT run, unnest(tasks) AS task FROM raw)
);
