/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once
/* System vectors, as core/src/trace/flight.rs numbers them. */

enum vector {
	V_LOCAL_TIMER = 1, V_RESCHEDULE, V_CALL_FUNCTION, V_CALL_FUNCTION_SINGLE, V_IRQ_WORK, V_THERMAL_APIC,
	V_DEFERRED_ERROR, V_THRESHOLD_APIC, V_ERROR_APIC, V_SPURIOUS_APIC, V_PLATFORM_IPI, V_OTHER,
};

/* Other architectures identify their IPIs by a string (arch/arm64/kernel/smp.c, ipi_types). */
static __always_inline enum vector ipi_vector(const char *reason)
{
	char text[2] = {};

	bpf_probe_read_kernel(text, sizeof(text), reason);
	if (text[0] == 'R')
		return V_RESCHEDULE;
	if (text[0] == 'F')
		return V_CALL_FUNCTION;
	if (text[0] == 'I' && text[1] == 'R')
		return V_IRQ_WORK;
	return V_OTHER;
}
