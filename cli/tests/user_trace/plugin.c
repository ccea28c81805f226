/* A plug-in with an event of its own, loaded and unloaded by hard.c. */
#include <lathunt/trace.h>

LATHUNT_EVENT(test, count, (u32, thread), (u64, number), (str, label, 16));

void from_library(uint64_t number);

void from_library(uint64_t number)
{
    char label[17] = "abcdefghijklmnop";
    label[number % 16] = 0;
    LATHUNT_EMIT(test, count, 7, number, label);
}
