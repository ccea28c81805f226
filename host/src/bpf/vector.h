/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once
/* System vectors, as core/src/trace/flight.rs numbers them. */

enum vector {
	V_LOCAL_TIMER = 1, V_RESCHEDULE, V_CALL_FUNCTION, V_CALL_FUNCTION_SINGLE, V_IRQ_WORK, V_THERMAL_APIC,
	V_DEFERRED_ERROR, V_THRESHOLD_APIC, V_ERROR_APIC, V_SPURIOUS_APIC, V_PLATFORM_IPI, V_OTHER,
};

/* `program(TRACEPOINT, NUMBER)` for each vector that x86 reports with its own tracepoints, TRACEPOINT_entry and TRACEPOINT_exit. */
#define EACH_VECTOR(program)                             \
	program(local_timer, V_LOCAL_TIMER)              \
	program(reschedule, V_RESCHEDULE)                \
	program(call_function, V_CALL_FUNCTION)          \
	program(call_function_single, V_CALL_FUNCTION_SINGLE) \
	program(irq_work, V_IRQ_WORK)                    \
	program(thermal_apic, V_THERMAL_APIC)            \
	program(deferred_error_apic, V_DEFERRED_ERROR)   \
	program(threshold_apic, V_THRESHOLD_APIC)        \
	program(error_apic, V_ERROR_APIC)                \
	program(spurious_apic, V_SPURIOUS_APIC)          \
	program(x86_platform_ipi, V_PLATFORM_IPI)

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
