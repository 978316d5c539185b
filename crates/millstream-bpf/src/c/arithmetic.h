/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Integer arithmetic of 128 bits, and division by constants.
 *
 * BPF has no 128-bit type. Division by a constant of a contract is a multiplication by its inverse,
 * floor((2^64 - 1) / d), and one correction.
 */
#ifndef MILLSTREAM_ARITHMETIC_H
#define MILLSTREAM_ARITHMETIC_H

#ifdef __bpf__
#define MS_EACH(i, n) bpf_for(i, 0, n)
#else
#include <stdint.h>
typedef uint64_t u64;
typedef int64_t s64;
typedef uint32_t u32;
typedef uint16_t u16;
typedef uint8_t u8;
#define MS_EACH(i, n) for (i = 0; i < (n); i++)
#endif

/* In BPF, the line information of inlined functions would be as large as their code. */
#ifdef __bpf__
#define MS_INLINE static inline __attribute__((always_inline, nodebug))
#else
#define MS_INLINE static inline __attribute__((always_inline))
#endif

#define MS_NONE 0xffffffffu
#define MS_NEVER (~0ull)

struct ms_u128 {
	u64 hi, lo;
};

MS_INLINE u64 ms_add_saturating(u64 a, u64 b)
{
	return a + b < a ? MS_NEVER : a + b;
}

MS_INLINE struct ms_u128 ms_multiply(u64 a, u64 b)
{
	u64 al = (u32)a, ah = a >> 32, bl = (u32)b, bh = b >> 32;
	u64 low = al * bl, middle = ah * bl + (low >> 32), other = al * bh + (u32)middle;
	struct ms_u128 product = { ah * bh + (middle >> 32) + (other >> 32),
				   other << 32 | (u32)low };

	return product;
}

MS_INLINE struct ms_u128 ms_plus(struct ms_u128 a, struct ms_u128 b)
{
	struct ms_u128 sum = { a.hi + b.hi, a.lo + b.lo };

	sum.hi += sum.lo < a.lo;
	return sum;
}

MS_INLINE struct ms_u128 ms_minus(struct ms_u128 a, struct ms_u128 b)
{
	struct ms_u128 difference = { a.hi - b.hi - (a.lo < b.lo), a.lo - b.lo };

	return difference;
}

/* Returns floor(n / divisor), given the divisor's inverse; stores the remainder. */
MS_INLINE u64 ms_divide(u64 n, u64 divisor, u64 inverse, u64 *rest)
{
	u64 quotient = ms_multiply(n, inverse).hi;
	u64 left = n - quotient * divisor;

	if (left >= divisor) {
		quotient++;
		left -= divisor;
	}
	*rest = left;
	return quotient;
}

#endif
