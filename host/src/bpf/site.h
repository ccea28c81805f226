/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once
/* The call site of a wait. Two waits with the same system call and arguments may be different steps of a job; they differ in
 * the calling code. The user's instruction pointer is in the C library, which has no frame pointers, so the words on the
 * stack are scanned: the first ones that point into the text of the program itself are its return addresses, or look like
 * them. Stored as offsets, which are the same in each run.
 * Not exact: a word left over from an earlier call counts too, and text in libraries does not. So one call may have two
 * sites, and calls in a library with the same stack pointer share one. */

#define SITE_CALLS 3

/* Coroutines have stacks of their own but share code and arguments. */
static __always_inline __u16 hash_of(__u32 address)
{
	return address >> 5 ^ address >> 21;
}

static __always_inline __u64 mixed(__u64 hash, __u64 word)
{
	return (hash ^ word) * 0x9e3779b97f4a7c15ull;
}

/* Hash of the return addresses on the stack at `sp` that point into the `length` bytes of code from `begin`; 1: the stack cannot
 * be read, or no word of it does. Not static: the verifier then checks its loop once for each program, and not on each path to
 * a call, which was nine tenths of all it did while a recording starts. */
__noinline __u32 site_on_stack(__u64 sp, __u64 begin, __u64 length)
{
	struct cpu_block *b = any_block();
	__u64 offset, hash = 0;
	__u32 i, calls = 0;

	if (!b || bpf_probe_read_user(b->stack, sizeof(b->stack), (void *)sp))
		return 1;
	for (i = 0; i < SITE_WORDS && calls < SITE_CALLS; i++) {
		offset = b->stack[i] - begin;
		if (offset >= length)
			continue;
		hash = mixed(hash, offset + 1);
		calls++;
	}
	return (__u32)(hash >> 32) | 1;
}

/* Call site of the current task, which blocks with this stack pointer; 0: a kernel thread. */
static __always_inline __u32 call_site(struct task_struct *p, __u64 sp)
{
	__u64 begin;

	if (!p->mm)
		return 0;
	begin = p->mm->start_code;
	return site_on_stack(sp, begin, p->mm->end_code - begin);
}
