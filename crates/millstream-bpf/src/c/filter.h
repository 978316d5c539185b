/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The interpreter of pcap filters: classic BPF programs, whose jumps only go forward.
 *
 * The includer defines ms_read(): it stores the big-endian number of 1, 2 or 4 bytes at an offset
 * of the frame, and returns 0 if the frame ends before. User space has checked the programs.
 * Source: McCanne and Jacobson, The BSD Packet Filter.
 */
#ifndef MILLSTREAM_FILTER_H
#define MILLSTREAM_FILTER_H

/* Of all programs together, a power of two; and the longest program. */
#define MS_INSTRUCTIONS 1024
#define MS_FILTER_STEPS 256

struct ms_instruction {
	u16 code;
	u8 jump_true, jump_false;
	u32 operand;
};

struct ms_filter_state {
	u32 a, x, at, accepts;
	u32 memory[16];
};

/* The fields of a code. */
#define MS_CLASS(code) ((code) & 0x07)
#define MS_SIZE(code) ((code) & 0x18)
#define MS_MODE(code) ((code) & 0xe0)
#define MS_OPERATION(code) ((code) & 0xf0)
#define MS_OF_X(code) ((code) & 0x08)

enum { MS_LD, MS_LDX, MS_ST, MS_STX, MS_ALU, MS_JMP, MS_RET, MS_MISC };
enum { MS_IMM = 0x00, MS_ABS = 0x20, MS_IND = 0x40, MS_MEM = 0x60, MS_LEN = 0x80, MS_MSH = 0xa0 };

/* Returns 0 if the program ends: a division by 0. */
MS_INLINE int ms_compute(struct ms_filter_state *state, u16 code, u32 operand)
{
	u32 a = state->a;

	switch (MS_OPERATION(code)) {
	case 0x00:
		a += operand;
		break;
	case 0x10:
		a -= operand;
		break;
	case 0x20:
		a *= operand;
		break;
	case 0x30:
		if (!operand)
			return 0;
		a /= operand;
		break;
	case 0x40:
		a |= operand;
		break;
	case 0x50:
		a &= operand;
		break;
	case 0x60:
		a = operand < 32 ? a << (operand & 31) : 0;
		break;
	case 0x70:
		a = operand < 32 ? a >> (operand & 31) : 0;
		break;
	case 0x80:
		a = -a;
		break;
	case 0x90:
		if (!operand)
			return 0;
		a %= operand;
		break;
	case 0xa0:
		a ^= operand;
		break;
	}
	state->a = a;
	return 1;
}

MS_INLINE int ms_holds(u32 a, u16 code, u32 operand)
{
	switch (MS_OPERATION(code)) {
	case 0x10:
		return a == operand;
	case 0x20:
		return a > operand;
	case 0x30:
		return a >= operand;
	default:
		return (a & operand) != 0;
	}
}

/* Executes one instruction. Returns 0 if the program ends. */
MS_INLINE int ms_filter_step(struct ms_filter_state *state,
					  const struct ms_instruction *of, void *packet, u32 length)
{
	u16 code = of->code;
	u32 k = of->operand, value = k;
	u64 at = k;

	state->at++;
	switch (MS_CLASS(code)) {
	case MS_LD:
	case MS_LDX:
		switch (MS_MODE(code)) {
		case MS_IND:
			at += state->x;
			/* Fall through. */
		case MS_ABS:
			if (!ms_read(packet, at, MS_SIZE(code), &value))
				return 0;
			break;
		case MS_MSH:
			if (!ms_read(packet, at, 0x10, &value))
				return 0;
			value = (value & 0xf) << 2;
			break;
		case MS_MEM:
			value = state->memory[k & 15];
			break;
		case MS_LEN:
			value = length;
			break;
		}
		if (MS_CLASS(code) == MS_LD)
			state->a = value;
		else
			state->x = value;
		return 1;
	case MS_ST:
		state->memory[k & 15] = state->a;
		return 1;
	case MS_STX:
		state->memory[k & 15] = state->x;
		return 1;
	case MS_ALU:
		return ms_compute(state, code, MS_OF_X(code) ? state->x : k);
	case MS_JMP:
		if (MS_OPERATION(code) == 0x00)
			state->at += k;
		else if (ms_holds(state->a, code, MS_OF_X(code) ? state->x : k))
			state->at += of->jump_true;
		else
			state->at += of->jump_false;
		return 1;
	case MS_RET:
		state->accepts = (MS_SIZE(code) == 0x10 ? state->a : k) != 0;
		return 0;
	default:
		if (code & 0x80)
			state->a = state->x;
		else
			state->x = state->a;
		return 1;
	}
}

#endif
