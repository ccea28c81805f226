/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Tracing for programs with deadlines: C11 and C++17, gcc and clang. Link with -llathunt-tracer.
 *
 *     LATHUNT_ENUM(mode, u8, (IDLE, 0), (RUN, 1));
 *     LATHUNT_EVENT(control, cycle, (u32, axis), (f64, position), (enum, state, mode), (str, label, 32));
 *     LATHUNT_SPAN(control, compute, (u32, axis));
 *
 *     lathunt_thread_init("axis-0");                       each thread, before its deadlines begin
 *     LATHUNT_EMIT(control, cycle, 0, 1.5, RUN, "start");  tens of nanoseconds; one load while it is disabled
 *     { LATHUNT_SCOPE(control, compute, 0); ... }          compute_begin now, compute_end when the block ends
 *     LATHUNT_EMIT_INIT(control, cycle, ...);              kept in a ring that is never overwritten
 *
 * Fields (kind, name[, size]), at most 16:
 *     u8 u16 u32 u64 s8 s16 s32 s64 f32 f64 bool
 *     (enum, name, ENUMERATION)    a value with a name, declared by LATHUNT_ENUM
 *     (str, name, MAX)             const char *: text of at most MAX bytes; null counts as empty
 *     (chars, name, SIZE)          const char *: text in exactly SIZE bytes
 *     (bytes, name, SIZE)          const void *: exactly SIZE bytes
 *     (blob, name, MAX)            const void *, size_t: at most MAX bytes
 *
 * LATHUNT_EMIT may be used in signal handlers (which must return normally), in any thread, and after fork. Values are
 * evaluated only while the event is wanted. An event longer than a packet (4 KiB) is counted as discarded.
 * Not here: whether anything is recorded. `lathunt trace` decides that from outside, per event, at any time.
 */
#ifndef LATHUNT_TRACE_H
#define LATHUNT_TRACE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "trace_each.h"
#include "trace_ring.h"

/*
 * Gives the calling thread its ring, with all pages present, and a name in the trace (null: the kernel's name for it).
 * Returns 0, or -1 if there is no memory or tracing is off. Not real-time safe: call it before the deadlines.
 */
LATHUNT_INLINE int lathunt_thread_init(const char *name)
{
    return lathunt_trace_thread_init_slot(&lathunt_slot, name);
}

/* An enumeration's names: LATHUNT_ENUM(name, base kind, (LABEL, value), ...); */
#define LATHUNT_ENUM(name, base, ...)                                                                                \
    typedef LATHUNT_TYPE_##base lathunt_enum_type_##name;                                                            \
    __attribute__((unused)) static const char lathunt_enum_base_##name[] = #base;                                    \
    __attribute__((unused)) static const struct lathunt_label lathunt_enum_labels_##name[] = {                       \
        LATHUNT_LIST(LATHUNT_LABEL, __VA_ARGS__)};                                                                   \
    struct lathunt_event
#define LATHUNT_LABEL(label) LATHUNT_LABEL_ label
#define LATHUNT_LABEL_(name, value)                                                                                  \
    {                                                                                                                \
        #name, (int64_t)(value)                                                                                      \
    }

/* Declares an event; at file scope. The descriptor registers itself when its object is loaded. */
#define LATHUNT_EVENT(...) LATHUNT_JOIN(LATHUNT_EVENT_, LATHUNT_SOME(__VA_ARGS__))(__VA_ARGS__)
#define LATHUNT_EVENT_NONE(provider, name)                                                                           \
    LATHUNT_DESCRIPTOR(provider, name, NULL, 0)                                                                      \
    LATHUNT_INLINE void lathunt_record_##provider##_##name(struct lathunt_ring *lathunt_in)                          \
    {                                                                                                                \
        struct lathunt_record lathunt_new;                                                                           \
        if (lathunt_in && lathunt_reserve(&lathunt_new, lathunt_in, &lathunt_event_##provider##_##name, 0))          \
            lathunt_commit(&lathunt_new);                                                                            \
    }                                                                                                                \
    struct lathunt_event
#define LATHUNT_EVENT_SOME(provider, name, ...)                                                                      \
    static const struct lathunt_field lathunt_fields_##provider##_##name[] = {                                       \
        LATHUNT_LIST(LATHUNT_FIELD, __VA_ARGS__)};                                                                   \
    LATHUNT_DESCRIPTOR(provider, name, lathunt_fields_##provider##_##name, LATHUNT_COUNT(__VA_ARGS__))               \
    LATHUNT_INLINE void lathunt_record_##provider##_##name(struct lathunt_ring *lathunt_in,                          \
                                                           LATHUNT_LIST(LATHUNT_PARAMETER, __VA_ARGS__))             \
    {                                                                                                                \
        struct lathunt_record lathunt_new;                                                                           \
        LATHUNT_EACH(LATHUNT_MEASURE, __VA_ARGS__)                                                                   \
        if (lathunt_in && lathunt_reserve(&lathunt_new, lathunt_in, &lathunt_event_##provider##_##name,              \
                                          0 LATHUNT_EACH(LATHUNT_LENGTH, __VA_ARGS__))) {                            \
            unsigned char *lathunt_at = lathunt_new.payload;                                                         \
            LATHUNT_EACH(LATHUNT_PUT, __VA_ARGS__)                                                                   \
            (void)lathunt_at;                                                                                        \
            lathunt_commit(&lathunt_new);                                                                            \
        }                                                                                                            \
    }                                                                                                                \
    struct lathunt_event

#define LATHUNT_DESCRIPTOR(provider, name, fields, count)                                                            \
    static struct lathunt_event lathunt_event_##provider##_##name = {                                                \
        &lathunt_off, #provider ":" #name, fields, NULL, count, 0};                                                  \
    __attribute__((constructor(101))) static void lathunt_register_##provider##_##name(void)                         \
    {                                                                                                                \
        lathunt_trace_register(&lathunt_event_##provider##_##name);                                                  \
    }                                                                                                                \
    __attribute__((destructor(101))) static void lathunt_unregister_##provider##_##name(void)                        \
    {                                                                                                                \
        lathunt_trace_unregister(&lathunt_event_##provider##_##name);                                                \
    }

/* Whether the event is enabled now: to save the work of preparing its values. */
#define LATHUNT_WANTED(provider, name) lathunt_wanted(&lathunt_event_##provider##_##name)

/* Records an event. */
#define LATHUNT_EMIT(...)                                                                                            \
    do {                                                                                                             \
        LATHUNT_JOIN(LATHUNT_EMIT_, LATHUNT_SOME(__VA_ARGS__))(__VA_ARGS__);                                         \
    } while (0)
#define LATHUNT_EMIT_NONE(provider, name)                                                                            \
    if (LATHUNT_WANTED(provider, name))                                                                              \
    lathunt_record_##provider##_##name(lathunt_own_ring(&lathunt_event_##provider##_##name))
#define LATHUNT_EMIT_SOME(provider, name, ...)                                                                       \
    if (LATHUNT_WANTED(provider, name))                                                                              \
    lathunt_record_##provider##_##name(lathunt_own_ring(&lathunt_event_##provider##_##name), __VA_ARGS__)

/* Records an event in the ring that is never overwritten, enabled or not: for one-time events at the start. Not for
 * signal handlers, and not real-time safe. */
#define LATHUNT_EMIT_INIT(...)                                                                                       \
    do {                                                                                                             \
        struct lathunt_ring *lathunt_init_ring = lathunt_trace_init_begin();                                         \
        if (lathunt_init_ring) {                                                                                     \
            LATHUNT_JOIN(LATHUNT_INIT_, LATHUNT_SOME(__VA_ARGS__))(__VA_ARGS__);                                     \
            lathunt_trace_init_end();                                                                                \
        }                                                                                                            \
    } while (0)
#define LATHUNT_INIT_NONE(provider, name) lathunt_record_##provider##_##name(lathunt_init_ring)
#define LATHUNT_INIT_SOME(provider, name, ...) lathunt_record_##provider##_##name(lathunt_init_ring, __VA_ARGS__)

/* Declares the two events of an interval: NAME_begin with fields, NAME_end without. */
#define LATHUNT_SPAN(...) LATHUNT_JOIN(LATHUNT_SPAN_, LATHUNT_SOME(__VA_ARGS__))(__VA_ARGS__)
#define LATHUNT_SPAN_NONE(provider, name)                                                                            \
    LATHUNT_EVENT(provider, name##_begin);                                                                           \
    LATHUNT_SPAN_END(provider, name)
#define LATHUNT_SPAN_SOME(provider, name, ...)                                                                       \
    LATHUNT_EVENT(provider, name##_begin, __VA_ARGS__);                                                              \
    LATHUNT_SPAN_END(provider, name)

/* The interval begins here and ends with the enclosing block, however that is left. */
#define LATHUNT_SCOPE(...) LATHUNT_JOIN(LATHUNT_SCOPE_, LATHUNT_SOME(__VA_ARGS__))(__VA_ARGS__)
#define LATHUNT_SCOPE_NONE(provider, name)                                                                           \
    LATHUNT_EMIT(provider, name##_begin);                                                                            \
    LATHUNT_AT_BLOCK_END(provider, name)
#define LATHUNT_SCOPE_SOME(provider, name, ...)                                                                      \
    LATHUNT_EMIT(provider, name##_begin, __VA_ARGS__);                                                               \
    LATHUNT_AT_BLOCK_END(provider, name)

#ifdef __cplusplus
#define LATHUNT_SPAN_END(provider, name)                                                                             \
    LATHUNT_EVENT(provider, name##_end);                                                                             \
    struct lathunt_scope_##provider##_##name {                                                                       \
        lathunt_scope_##provider##_##name() = default;                                                               \
        lathunt_scope_##provider##_##name(const lathunt_scope_##provider##_##name &) = delete;                       \
        lathunt_scope_##provider##_##name &operator=(const lathunt_scope_##provider##_##name &) = delete;            \
        ~lathunt_scope_##provider##_##name()                                                                         \
        {                                                                                                            \
            LATHUNT_EMIT(provider, name##_end);                                                                      \
        }                                                                                                            \
    }
#define LATHUNT_AT_BLOCK_END(provider, name)                                                                         \
    __attribute__((unused)) lathunt_scope_##provider##_##name LATHUNT_JOIN(lathunt_scope_, __LINE__)
#else
#define LATHUNT_SPAN_END(provider, name)                                                                             \
    LATHUNT_EVENT(provider, name##_end);                                                                             \
    LATHUNT_INLINE void lathunt_leave_##provider##_##name(const char *lathunt_scope)                                 \
    {                                                                                                                \
        (void)lathunt_scope;                                                                                         \
        LATHUNT_EMIT(provider, name##_end);                                                                          \
    }                                                                                                                \
    struct lathunt_event
#define LATHUNT_AT_BLOCK_END(provider, name)                                                                         \
    __attribute__((unused, cleanup(lathunt_leave_##provider##_##name)))                                              \
    const char LATHUNT_JOIN(lathunt_scope_, __LINE__) = 0
#endif

#include "trace_fields.h"

#endif
