/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The hot path: reserve a record in the thread's ring, fill it, commit it. tracer/src/ring.rs is the same in Rust and
 * explains its correctness; tracer/LAYOUT.md describes the memory. Included by trace.h; nothing here is an interface.
 *
 * One thread writes a ring. Only a signal handler of the same thread can run between two instructions, and it runs to
 * completion: hence a compare-exchange without LOCK, and a commit by the outermost writer only.
 */
#ifndef LATHUNT_TRACE_RING_H
#define LATHUNT_TRACE_RING_H

#include <stdint.h>

#if !defined(__LP64__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "lathunt's tracer shares 64-bit words in little endian order: it needs a 64-bit little-endian machine."
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ThreadSanitizer cannot analyse assembly. */
#if defined(__SANITIZE_THREAD__)
#define LATHUNT_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define LATHUNT_THREAD_SANITIZER 1
#endif
#endif
#ifndef LATHUNT_THREAD_SANITIZER
#define LATHUNT_THREAD_SANITIZER 0
#endif

#define LATHUNT_LIKELY(x) __builtin_expect(!!(x), 1)
#define LATHUNT_INLINE static inline __attribute__((always_inline, unused))

/* Header of a ring; the packets follow 4096 bytes after its start. */
struct lathunt_ring {
    uint64_t reserve;       /* position up to which records are reserved */
    uint64_t committed;     /* position up to which records are complete */
    uint64_t begin_counter; /* counter when the open packet began */
    uint64_t packet_words;
    uint64_t packet_mask; /* packets - 1 */
    uint64_t clock;       /* 1: the CPU's counter, 0: CLOCK_MONOTONIC ns */
};

struct lathunt_label {
    const char *name;
    int64_t value;
};

struct lathunt_field {
    const char *name;
    const char *kind;
    const char *base;
    const struct lathunt_label *labels;
    uint32_t label_count;
    uint32_t size;
};

struct lathunt_event {
    const uint8_t *enabled; /* never null; the event is enabled if the byte is not 0 */
    const char *name;       /* "provider:name" */
    const struct lathunt_field *fields;
    struct lathunt_event *next;
    uint16_t field_count;
    uint16_t id;
};

/* A record between reserve and commit. */
struct lathunt_record {
    struct lathunt_ring *ring;
    uint64_t start;
    unsigned char *payload;
};

void lathunt_trace_register(struct lathunt_event *event);
void lathunt_trace_unregister(struct lathunt_event *event);
int lathunt_trace_thread_init_slot(struct lathunt_ring **slot, const char *name);
struct lathunt_ring *lathunt_trace_claim(struct lathunt_ring **slot);
int lathunt_trace_switch(struct lathunt_ring *ring, uint64_t words, uint64_t ticks);
uint64_t lathunt_trace_monotonic_ns(void);
struct lathunt_ring *lathunt_trace_init_begin(void);
void lathunt_trace_init_end(void);

/* The thread's ring, cached once per loaded object; the library knows where and clears it when the thread ends. */
__attribute__((weak, visibility("hidden"), tls_model("initial-exec"))) __thread struct lathunt_ring *lathunt_slot;

__attribute__((unused)) static const uint8_t lathunt_off = 0;

/* A position is packet number << 32 | records << 16 | words. */
#define LATHUNT_SEQ(position) ((position) >> 32)
#define LATHUNT_WORDS(position) ((position) & 0xffff)

LATHUNT_INLINE int lathunt_wanted(const struct lathunt_event *event)
{
    const uint8_t *enabled = __atomic_load_n(&event->enabled, __ATOMIC_RELAXED);
    return __builtin_expect(__atomic_load_n(enabled, __ATOMIC_RELAXED), 0) != 0;
}

LATHUNT_INLINE uint64_t lathunt_counter(const struct lathunt_ring *ring)
{
    if (!LATHUNT_LIKELY(ring->clock))
        return lathunt_trace_monotonic_ns();
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    uint64_t ticks;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
#else
    return lathunt_trace_monotonic_ns();
#endif
}

/* Atomic against signal handlers of this thread only: no other thread writes this word. */
LATHUNT_INLINE int lathunt_replace_if(uint64_t *word, uint64_t old_value, uint64_t new_value)
{
#if defined(__x86_64__) && !LATHUNT_THREAD_SANITIZER
    unsigned char replaced;
    __asm__ volatile("cmpxchgq %3, %1\n\tsete %0"
                     : "=q"(replaced), "+m"(*word), "+a"(old_value)
                     : "r"(new_value)
                     : "memory", "cc");
    return replaced;
#else
    return __atomic_compare_exchange_n(word, &old_value, new_value, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
#endif
}

/* The thread's ring; null if the event turns out to be disabled (in a child of fork). */
LATHUNT_INLINE struct lathunt_ring *lathunt_own_ring(const struct lathunt_event *event)
{
    struct lathunt_ring *ring = lathunt_slot;
    if (LATHUNT_LIKELY(ring != 0))
        return ring;
    ring = lathunt_trace_claim(&lathunt_slot);
    return lathunt_wanted(event) ? ring : 0;
}

/* Reserves a record with `length` bytes of fields; 0 if the event is discarded (and counted). */
LATHUNT_INLINE int lathunt_reserve(struct lathunt_record *record, struct lathunt_ring *ring,
                                   const struct lathunt_event *event, uint64_t length)
{
    const uint64_t bytes = length + 8;
    const uint64_t words = bytes <= 0xffff ? (bytes + 7) / 8 : 0xffff;
    for (;;) {
        const uint64_t old_position = __atomic_load_n(&ring->reserve, __ATOMIC_RELAXED);
        const uint64_t ticks = lathunt_counter(ring) - __atomic_load_n(&ring->begin_counter, __ATOMIC_RELAXED);
        if (!LATHUNT_LIKELY(LATHUNT_WORDS(old_position) + words <= ring->packet_words && ticks >> 32 == 0)) {
            if (!lathunt_trace_switch(ring, words, ticks))
                return 0;
            continue;
        }
        if (LATHUNT_LIKELY(lathunt_replace_if(&ring->reserve, old_position, old_position + 0x10000 + words))) {
            const uint64_t slot = LATHUNT_SEQ(old_position) & ring->packet_mask;
            uint64_t *at = (uint64_t *)(void *)((unsigned char *)ring + 4096);
            at += slot * ring->packet_words + LATHUNT_WORDS(old_position);
            at[0] = ticks << 32 | bytes << 16 | __atomic_load_n(&event->id, __ATOMIC_RELAXED);
            record->ring = ring;
            record->start = old_position;
            record->payload = (unsigned char *)(at + 1);
            return 1;
        }
    }
}

/* Makes the record, and those that signal handlers put after it, visible: the store is the commit. */
LATHUNT_INLINE void lathunt_commit(const struct lathunt_record *record)
{
    struct lathunt_ring *ring = record->ring;
    uint64_t reached;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    if (!LATHUNT_LIKELY(__atomic_load_n(&ring->committed, __ATOMIC_RELAXED) == record->start))
        return; /* nested: the interrupted writer commits for us */
    do {
        reached = __atomic_load_n(&ring->reserve, __ATOMIC_RELAXED);
        __atomic_store_n(&ring->committed, reached, __ATOMIC_RELEASE);
        __atomic_signal_fence(__ATOMIC_SEQ_CST); /* check again only now: a handler may have reserved in between */
    } while (!LATHUNT_LIKELY(__atomic_load_n(&ring->reserve, __ATOMIC_RELAXED) == reached));
}

#ifdef __cplusplus
}
#endif
#endif
