/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Preprocessor: apply a macro to each argument (1 to 32 of them), and tell "two arguments" from "more".
 * Used by trace.h only; nothing here is an interface.
 */
#ifndef LATHUNT_TRACE_EACH_H
#define LATHUNT_TRACE_EACH_H

#define LATHUNT_JOIN_(a, b) a##b
#define LATHUNT_JOIN(a, b) LATHUNT_JOIN_(a, b)

/* Number of arguments. */
#define LATHUNT_COUNT_(_1, _2, _3, _4, _5, _6, _7, _8, _9, _10, _11, _12, _13, _14, _15, _16, _17, _18, _19, \
    _20, _21, _22, _23, _24, _25, _26, _27, _28, _29, _30, _31, _32, chosen, ...) chosen
#define LATHUNT_COUNT(...) LATHUNT_COUNT_(__VA_ARGS__, 32, 31, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20, \
    19, 18, 17, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, ~)
/* NONE for provider and name alone, SOME where fields or values follow. */
#define LATHUNT_SOME_(_1, _2, _3, _4, _5, _6, _7, _8, _9, _10, _11, _12, _13, _14, _15, _16, _17, _18, _19, \
    _20, _21, _22, _23, _24, _25, _26, _27, _28, _29, _30, _31, _32, _33, _34, chosen, ...) chosen
#define LATHUNT_SOME(...) LATHUNT_SOME_(__VA_ARGS__, SOME, SOME, SOME, SOME, SOME, SOME, SOME, SOME, SOME, \
    SOME, SOME, SOME, SOME, SOME, SOME, SOME, SOME, SOME, SOME, SOME, SOME, SOME, SOME, SOME, SOME, SOME, \
    SOME, SOME, SOME, SOME, SOME, SOME, NONE, NONE, ~)

/* M(a) M(b) ... */
#define LATHUNT_EACH(M, ...) LATHUNT_JOIN(LATHUNT_EACH_, LATHUNT_COUNT(__VA_ARGS__))(M, __VA_ARGS__)
#define LATHUNT_EACH_1(M, a) M(a)
#define LATHUNT_EACH_2(M, a, ...) M(a) LATHUNT_EACH_1(M, __VA_ARGS__)
#define LATHUNT_EACH_3(M, a, ...) M(a) LATHUNT_EACH_2(M, __VA_ARGS__)
#define LATHUNT_EACH_4(M, a, ...) M(a) LATHUNT_EACH_3(M, __VA_ARGS__)
#define LATHUNT_EACH_5(M, a, ...) M(a) LATHUNT_EACH_4(M, __VA_ARGS__)
#define LATHUNT_EACH_6(M, a, ...) M(a) LATHUNT_EACH_5(M, __VA_ARGS__)
#define LATHUNT_EACH_7(M, a, ...) M(a) LATHUNT_EACH_6(M, __VA_ARGS__)
#define LATHUNT_EACH_8(M, a, ...) M(a) LATHUNT_EACH_7(M, __VA_ARGS__)
#define LATHUNT_EACH_9(M, a, ...) M(a) LATHUNT_EACH_8(M, __VA_ARGS__)
#define LATHUNT_EACH_10(M, a, ...) M(a) LATHUNT_EACH_9(M, __VA_ARGS__)
#define LATHUNT_EACH_11(M, a, ...) M(a) LATHUNT_EACH_10(M, __VA_ARGS__)
#define LATHUNT_EACH_12(M, a, ...) M(a) LATHUNT_EACH_11(M, __VA_ARGS__)
#define LATHUNT_EACH_13(M, a, ...) M(a) LATHUNT_EACH_12(M, __VA_ARGS__)
#define LATHUNT_EACH_14(M, a, ...) M(a) LATHUNT_EACH_13(M, __VA_ARGS__)
#define LATHUNT_EACH_15(M, a, ...) M(a) LATHUNT_EACH_14(M, __VA_ARGS__)
#define LATHUNT_EACH_16(M, a, ...) M(a) LATHUNT_EACH_15(M, __VA_ARGS__)
#define LATHUNT_EACH_17(M, a, ...) M(a) LATHUNT_EACH_16(M, __VA_ARGS__)
#define LATHUNT_EACH_18(M, a, ...) M(a) LATHUNT_EACH_17(M, __VA_ARGS__)
#define LATHUNT_EACH_19(M, a, ...) M(a) LATHUNT_EACH_18(M, __VA_ARGS__)
#define LATHUNT_EACH_20(M, a, ...) M(a) LATHUNT_EACH_19(M, __VA_ARGS__)
#define LATHUNT_EACH_21(M, a, ...) M(a) LATHUNT_EACH_20(M, __VA_ARGS__)
#define LATHUNT_EACH_22(M, a, ...) M(a) LATHUNT_EACH_21(M, __VA_ARGS__)
#define LATHUNT_EACH_23(M, a, ...) M(a) LATHUNT_EACH_22(M, __VA_ARGS__)
#define LATHUNT_EACH_24(M, a, ...) M(a) LATHUNT_EACH_23(M, __VA_ARGS__)
#define LATHUNT_EACH_25(M, a, ...) M(a) LATHUNT_EACH_24(M, __VA_ARGS__)
#define LATHUNT_EACH_26(M, a, ...) M(a) LATHUNT_EACH_25(M, __VA_ARGS__)
#define LATHUNT_EACH_27(M, a, ...) M(a) LATHUNT_EACH_26(M, __VA_ARGS__)
#define LATHUNT_EACH_28(M, a, ...) M(a) LATHUNT_EACH_27(M, __VA_ARGS__)
#define LATHUNT_EACH_29(M, a, ...) M(a) LATHUNT_EACH_28(M, __VA_ARGS__)
#define LATHUNT_EACH_30(M, a, ...) M(a) LATHUNT_EACH_29(M, __VA_ARGS__)
#define LATHUNT_EACH_31(M, a, ...) M(a) LATHUNT_EACH_30(M, __VA_ARGS__)
#define LATHUNT_EACH_32(M, a, ...) M(a) LATHUNT_EACH_31(M, __VA_ARGS__)

/* M(a), M(b), ... */
#define LATHUNT_LIST(M, ...) LATHUNT_JOIN(LATHUNT_LIST_, LATHUNT_COUNT(__VA_ARGS__))(M, __VA_ARGS__)
#define LATHUNT_LIST_1(M, a) M(a)
#define LATHUNT_LIST_2(M, a, ...) M(a), LATHUNT_LIST_1(M, __VA_ARGS__)
#define LATHUNT_LIST_3(M, a, ...) M(a), LATHUNT_LIST_2(M, __VA_ARGS__)
#define LATHUNT_LIST_4(M, a, ...) M(a), LATHUNT_LIST_3(M, __VA_ARGS__)
#define LATHUNT_LIST_5(M, a, ...) M(a), LATHUNT_LIST_4(M, __VA_ARGS__)
#define LATHUNT_LIST_6(M, a, ...) M(a), LATHUNT_LIST_5(M, __VA_ARGS__)
#define LATHUNT_LIST_7(M, a, ...) M(a), LATHUNT_LIST_6(M, __VA_ARGS__)
#define LATHUNT_LIST_8(M, a, ...) M(a), LATHUNT_LIST_7(M, __VA_ARGS__)
#define LATHUNT_LIST_9(M, a, ...) M(a), LATHUNT_LIST_8(M, __VA_ARGS__)
#define LATHUNT_LIST_10(M, a, ...) M(a), LATHUNT_LIST_9(M, __VA_ARGS__)
#define LATHUNT_LIST_11(M, a, ...) M(a), LATHUNT_LIST_10(M, __VA_ARGS__)
#define LATHUNT_LIST_12(M, a, ...) M(a), LATHUNT_LIST_11(M, __VA_ARGS__)
#define LATHUNT_LIST_13(M, a, ...) M(a), LATHUNT_LIST_12(M, __VA_ARGS__)
#define LATHUNT_LIST_14(M, a, ...) M(a), LATHUNT_LIST_13(M, __VA_ARGS__)
#define LATHUNT_LIST_15(M, a, ...) M(a), LATHUNT_LIST_14(M, __VA_ARGS__)
#define LATHUNT_LIST_16(M, a, ...) M(a), LATHUNT_LIST_15(M, __VA_ARGS__)
#define LATHUNT_LIST_17(M, a, ...) M(a), LATHUNT_LIST_16(M, __VA_ARGS__)
#define LATHUNT_LIST_18(M, a, ...) M(a), LATHUNT_LIST_17(M, __VA_ARGS__)
#define LATHUNT_LIST_19(M, a, ...) M(a), LATHUNT_LIST_18(M, __VA_ARGS__)
#define LATHUNT_LIST_20(M, a, ...) M(a), LATHUNT_LIST_19(M, __VA_ARGS__)
#define LATHUNT_LIST_21(M, a, ...) M(a), LATHUNT_LIST_20(M, __VA_ARGS__)
#define LATHUNT_LIST_22(M, a, ...) M(a), LATHUNT_LIST_21(M, __VA_ARGS__)
#define LATHUNT_LIST_23(M, a, ...) M(a), LATHUNT_LIST_22(M, __VA_ARGS__)
#define LATHUNT_LIST_24(M, a, ...) M(a), LATHUNT_LIST_23(M, __VA_ARGS__)
#define LATHUNT_LIST_25(M, a, ...) M(a), LATHUNT_LIST_24(M, __VA_ARGS__)
#define LATHUNT_LIST_26(M, a, ...) M(a), LATHUNT_LIST_25(M, __VA_ARGS__)
#define LATHUNT_LIST_27(M, a, ...) M(a), LATHUNT_LIST_26(M, __VA_ARGS__)
#define LATHUNT_LIST_28(M, a, ...) M(a), LATHUNT_LIST_27(M, __VA_ARGS__)
#define LATHUNT_LIST_29(M, a, ...) M(a), LATHUNT_LIST_28(M, __VA_ARGS__)
#define LATHUNT_LIST_30(M, a, ...) M(a), LATHUNT_LIST_29(M, __VA_ARGS__)
#define LATHUNT_LIST_31(M, a, ...) M(a), LATHUNT_LIST_30(M, __VA_ARGS__)
#define LATHUNT_LIST_32(M, a, ...) M(a), LATHUNT_LIST_31(M, __VA_ARGS__)

#endif
