/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once
/* Whether a task waits for its control group, which has used up its CPU quota. */

/* Whether the group of a task on its run queue is out of its CPU quota. */
static __always_inline bool is_out_of_quota(struct task_struct *p)
{
	return bpf_core_field_exists(p->se.cfs_rq) && bpf_core_field_exists(p->se.cfs_rq->throttle_count) &&
	       p->se.cfs_rq->throttle_count > 0;
}

/* Whether that is why `p` leaves the CPU runnable. */
static __always_inline bool is_throttled(struct task_struct *p)
{
	if (p->prio < MAX_RT_PRIO)
		return false;
	return bpf_core_field_exists(p->throttled) ? p->throttled : is_out_of_quota(p);
}
