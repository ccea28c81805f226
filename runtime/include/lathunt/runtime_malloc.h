/*
 * malloc and its relatives with the scheduler held: included by lathunt/runtime.h and lathunt/pthread.h. They are weak, so that
 * several files of a program may have them.
 */
#ifndef LATHUNT_RUNTIME_MALLOC_H
#define LATHUNT_RUNTIME_MALLOC_H

#include <errno.h>
#include <lathunt/runtime.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#define LATHUNT_RT_NOTHROW noexcept
#else
#define LATHUNT_RT_NOTHROW
#endif

extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_realloc(void *memory, size_t bytes);
extern void *__libc_memalign(size_t alignment, size_t bytes);
extern void __libc_free(void *memory);

#define LATHUNT_RT_HELD(name, parameters, call)                                                     \
    __attribute__((weak)) void *name parameters LATHUNT_RT_NOTHROW                                  \
    {                                                                                               \
        void *lathunt_rt_memory;                                                                    \
        lathunt_rt_lock();                                                                          \
        lathunt_rt_memory = call;                                                                   \
        lathunt_rt_unlock();                                                                        \
        return lathunt_rt_memory;                                                                   \
    }
LATHUNT_RT_HELD(malloc, (size_t bytes), __libc_malloc(bytes))
LATHUNT_RT_HELD(calloc, (size_t count, size_t bytes), __libc_calloc(count, bytes))
LATHUNT_RT_HELD(realloc, (void *memory, size_t bytes), __libc_realloc(memory, bytes))
LATHUNT_RT_HELD(memalign, (size_t alignment, size_t bytes), __libc_memalign(alignment, bytes))
LATHUNT_RT_HELD(aligned_alloc, (size_t alignment, size_t bytes), __libc_memalign(alignment, bytes))

__attribute__((weak)) void free(void *memory) LATHUNT_RT_NOTHROW
{
    lathunt_rt_lock();
    __libc_free(memory);
    lathunt_rt_unlock();
}

__attribute__((weak)) int posix_memalign(void **memory, size_t alignment, size_t bytes) LATHUNT_RT_NOTHROW
{
    void *found;
    if (alignment < sizeof(void *) || (alignment & (alignment - 1)) != 0)
        return EINVAL;
    found = memalign(alignment, bytes);
    if (!found)
        return ENOMEM;
    *memory = found;
    return 0;
}

#ifdef __cplusplus
}
#endif
#endif
