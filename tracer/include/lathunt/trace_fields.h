/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Definition of each kind of field for trace.h: its entry in the descriptor, its parameter, what is measured before
 * the record is reserved (MEASURE), its bytes (LENGTH), and how it is written (PUT). Nothing here is an interface.
 *
 * Fields are packed, little endian, in the order of declaration. A text's length is measured once: another thread may
 * change the text concurrently, and the record must not grow.
 */
#ifndef LATHUNT_TRACE_FIELDS_H
#define LATHUNT_TRACE_FIELDS_H

#define LATHUNT_FIELD(field) LATHUNT_FIELD_ field
#define LATHUNT_PARAMETER(field) LATHUNT_PARAMETER_ field
#define LATHUNT_MEASURE(field) LATHUNT_MEASURE_ field
#define LATHUNT_LENGTH(field) LATHUNT_LENGTH_ field
#define LATHUNT_PUT(field) LATHUNT_PUT_ field
#define LATHUNT_FIELD_(kind, ...) LATHUNT_FIELD_##kind(__VA_ARGS__)
#define LATHUNT_PARAMETER_(kind, ...) LATHUNT_PARAMETER_##kind(__VA_ARGS__)
#define LATHUNT_MEASURE_(kind, ...) LATHUNT_MEASURE_##kind(__VA_ARGS__)
#define LATHUNT_LENGTH_(kind, ...) LATHUNT_LENGTH_##kind(__VA_ARGS__)
#define LATHUNT_PUT_(kind, ...) LATHUNT_PUT_##kind(__VA_ARGS__)

LATHUNT_INLINE size_t lathunt_text_length(const char *text, size_t max)
{
    const void *end;
#if !defined(__OPTIMIZE__)
    /* memchr stops at the NUL (C11 7.24.5.1), but gcc -O0 compares `max` with the size of a literal, and warns. */
    __asm__("" : "+r"(max));
#endif
    end = text ? memchr(text, 0, max) : text;
    return end ? (size_t)((const char *)end - text) : text ? max : 0;
}

/* Copies `length` bytes and pads with NULs to `size`; returns the address after them. */
LATHUNT_INLINE unsigned char *lathunt_put(unsigned char *at, const void *from, size_t length, size_t size)
{
    if (length)
        memcpy(at, from, length);
    if (size > length)
        memset(at + length, 0, size - length);
    return at + size;
}

/* Numbers. */
#define LATHUNT_TYPE_u8 uint8_t
#define LATHUNT_TYPE_u16 uint16_t
#define LATHUNT_TYPE_u32 uint32_t
#define LATHUNT_TYPE_u64 uint64_t
#define LATHUNT_TYPE_s8 int8_t
#define LATHUNT_TYPE_s16 int16_t
#define LATHUNT_TYPE_s32 int32_t
#define LATHUNT_TYPE_s64 int64_t
#define LATHUNT_TYPE_f32 float
#define LATHUNT_TYPE_f64 double

#define LATHUNT_NUMBER_FIELD(kind, name) {#name, kind, NULL, NULL, 0, 0}
#define LATHUNT_NUMBER_PUT(name) lathunt_at = lathunt_put(lathunt_at, &name, sizeof(name), sizeof(name));

#define LATHUNT_FIELD_u8(name) LATHUNT_NUMBER_FIELD("u8", name)
#define LATHUNT_PARAMETER_u8(name) uint8_t name
#define LATHUNT_MEASURE_u8(name)
#define LATHUNT_LENGTH_u8(name) +sizeof(name)
#define LATHUNT_PUT_u8(name) LATHUNT_NUMBER_PUT(name)

#define LATHUNT_FIELD_u16(name) LATHUNT_NUMBER_FIELD("u16", name)
#define LATHUNT_PARAMETER_u16(name) uint16_t name
#define LATHUNT_MEASURE_u16(name)
#define LATHUNT_LENGTH_u16(name) +sizeof(name)
#define LATHUNT_PUT_u16(name) LATHUNT_NUMBER_PUT(name)

#define LATHUNT_FIELD_u32(name) LATHUNT_NUMBER_FIELD("u32", name)
#define LATHUNT_PARAMETER_u32(name) uint32_t name
#define LATHUNT_MEASURE_u32(name)
#define LATHUNT_LENGTH_u32(name) +sizeof(name)
#define LATHUNT_PUT_u32(name) LATHUNT_NUMBER_PUT(name)

#define LATHUNT_FIELD_u64(name) LATHUNT_NUMBER_FIELD("u64", name)
#define LATHUNT_PARAMETER_u64(name) uint64_t name
#define LATHUNT_MEASURE_u64(name)
#define LATHUNT_LENGTH_u64(name) +sizeof(name)
#define LATHUNT_PUT_u64(name) LATHUNT_NUMBER_PUT(name)

#define LATHUNT_FIELD_s8(name) LATHUNT_NUMBER_FIELD("s8", name)
#define LATHUNT_PARAMETER_s8(name) int8_t name
#define LATHUNT_MEASURE_s8(name)
#define LATHUNT_LENGTH_s8(name) +sizeof(name)
#define LATHUNT_PUT_s8(name) LATHUNT_NUMBER_PUT(name)

#define LATHUNT_FIELD_s16(name) LATHUNT_NUMBER_FIELD("s16", name)
#define LATHUNT_PARAMETER_s16(name) int16_t name
#define LATHUNT_MEASURE_s16(name)
#define LATHUNT_LENGTH_s16(name) +sizeof(name)
#define LATHUNT_PUT_s16(name) LATHUNT_NUMBER_PUT(name)

#define LATHUNT_FIELD_s32(name) LATHUNT_NUMBER_FIELD("s32", name)
#define LATHUNT_PARAMETER_s32(name) int32_t name
#define LATHUNT_MEASURE_s32(name)
#define LATHUNT_LENGTH_s32(name) +sizeof(name)
#define LATHUNT_PUT_s32(name) LATHUNT_NUMBER_PUT(name)

#define LATHUNT_FIELD_s64(name) LATHUNT_NUMBER_FIELD("s64", name)
#define LATHUNT_PARAMETER_s64(name) int64_t name
#define LATHUNT_MEASURE_s64(name)
#define LATHUNT_LENGTH_s64(name) +sizeof(name)
#define LATHUNT_PUT_s64(name) LATHUNT_NUMBER_PUT(name)

#define LATHUNT_FIELD_f32(name) LATHUNT_NUMBER_FIELD("f32", name)
#define LATHUNT_PARAMETER_f32(name) float name
#define LATHUNT_MEASURE_f32(name)
#define LATHUNT_LENGTH_f32(name) +sizeof(name)
#define LATHUNT_PUT_f32(name) LATHUNT_NUMBER_PUT(name)

#define LATHUNT_FIELD_f64(name) LATHUNT_NUMBER_FIELD("f64", name)
#define LATHUNT_PARAMETER_f64(name) double name
#define LATHUNT_MEASURE_f64(name)
#define LATHUNT_LENGTH_f64(name) +sizeof(name)
#define LATHUNT_PUT_f64(name) LATHUNT_NUMBER_PUT(name)

#define LATHUNT_FIELD_bool(name) LATHUNT_NUMBER_FIELD("bool", name)
#define LATHUNT_PARAMETER_bool(name) LATHUNT_BOOL name
#define LATHUNT_MEASURE_bool(name)
#define LATHUNT_LENGTH_bool(name) +sizeof(name)
#define LATHUNT_PUT_bool(name) LATHUNT_NUMBER_PUT(name)

#define LATHUNT_FIELD__Bool(name) LATHUNT_NUMBER_FIELD("bool", name)
#define LATHUNT_PARAMETER__Bool(name) LATHUNT_BOOL name
#define LATHUNT_MEASURE__Bool(name)
#define LATHUNT_LENGTH__Bool(name) +sizeof(name)
#define LATHUNT_PUT__Bool(name) LATHUNT_NUMBER_PUT(name)

/* In C, <stdbool.h> may turn bool into _Bool before it gets here: hence both names above. */
#ifdef __cplusplus
#define LATHUNT_BOOL bool
#else
#define LATHUNT_BOOL _Bool
#endif

/* Enumerations. */
#define LATHUNT_FIELD_enum(name, of)                                                                                 \
    {                                                                                                                \
        #name, "enum", lathunt_enum_base_##of, lathunt_enum_labels_##of,                                             \
            sizeof(lathunt_enum_labels_##of) / sizeof(lathunt_enum_labels_##of[0]), 0                                \
    }
#define LATHUNT_PARAMETER_enum(name, of) lathunt_enum_type_##of name
#define LATHUNT_MEASURE_enum(name, of)
#define LATHUNT_LENGTH_enum(name, of) +sizeof(name)
#define LATHUNT_PUT_enum(name, of) LATHUNT_NUMBER_PUT(name)

/* Text of at most `max` bytes, ended by a NUL. */
#define LATHUNT_FIELD_str(name, max) {#name, "str", NULL, NULL, 0, max}
#define LATHUNT_PARAMETER_str(name, max) const char *name
#define LATHUNT_MEASURE_str(name, max) const size_t lathunt_length_##name = lathunt_text_length(name, max);
#define LATHUNT_LENGTH_str(name, max) +lathunt_length_##name + 1
#define LATHUNT_PUT_str(name, max)                                                                                   \
    lathunt_at = lathunt_put(lathunt_at, name, lathunt_length_##name, lathunt_length_##name + 1);

/* Text in exactly `bytes` bytes. */
#define LATHUNT_FIELD_chars(name, bytes) {#name, "chars", NULL, NULL, 0, bytes}
#define LATHUNT_PARAMETER_chars(name, bytes) const char *name
#define LATHUNT_MEASURE_chars(name, bytes) const size_t lathunt_length_##name = lathunt_text_length(name, bytes);
#define LATHUNT_LENGTH_chars(name, bytes) +(bytes)
#define LATHUNT_PUT_chars(name, bytes) lathunt_at = lathunt_put(lathunt_at, name, lathunt_length_##name, bytes);

/* Exactly `count` bytes. */
#define LATHUNT_FIELD_bytes(name, count) {#name, "bytes", NULL, NULL, 0, count}
#define LATHUNT_PARAMETER_bytes(name, count) const void *name
#define LATHUNT_MEASURE_bytes(name, count)
#define LATHUNT_LENGTH_bytes(name, count) +(count)
#define LATHUNT_PUT_bytes(name, count) lathunt_at = lathunt_put(lathunt_at, name, count, count);

/* At most `max` bytes, with their number (u16) before them. */
#define LATHUNT_FIELD_blob(name, max) {#name, "blob", NULL, NULL, 0, max}
#define LATHUNT_PARAMETER_blob(name, max) const void *name, size_t lathunt_given_##name
#define LATHUNT_MEASURE_blob(name, max)                                                                              \
    const uint16_t lathunt_length_##name = (uint16_t)(lathunt_given_##name < (max) ? lathunt_given_##name : (max));
#define LATHUNT_LENGTH_blob(name, max) +lathunt_length_##name + 2
#define LATHUNT_PUT_blob(name, max)                                                                                  \
    lathunt_at = lathunt_put(lathunt_at, &lathunt_length_##name, 2, 2);                                              \
    lathunt_at = lathunt_put(lathunt_at, name, lathunt_length_##name, lathunt_length_##name);

#endif
