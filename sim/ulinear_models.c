/* SPDX-License-Identifier: MIT */
/*
 * ulinear_models.c: a register, a map of registers, and a queue, as models of ulinear.h.
 */
#include "ulinear.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

struct value {
	int64_t v_value;                /* 0 if there is no value */
	int64_t v_there;
};

static const struct {
	const char *k_call;             /* format for o_value and o_expected */
	bool        k_gives;            /* the result has a value */
} kinds[] = {
	[ULINEAR_GET]     = { "get", true },
	[ULINEAR_SET]     = { "set %" PRId64, false },
	[ULINEAR_SWAP]    = { "swap %" PRId64 " for %" PRId64, false },
	[ULINEAR_ADD]     = { "add %" PRId64, true },
	[ULINEAR_DELETE]  = { "delete", false },
	[ULINEAR_ENQUEUE] = { "enqueue %" PRId64, false },
	[ULINEAR_DEQUEUE] = { "dequeue", true },
};

static void show(FILE *report, const void *operation, const void *result)
{
	const struct ulinear_operation *o = operation;
	const struct ulinear_result *r = result;

	fprintf(report, kinds[o->o_kind].k_call, o->o_value, o->o_expected);
	if (r && r->r_done && kinds[o->o_kind].k_gives)
		fprintf(report, " -> %" PRId64, r->r_value);
	else if (r)
		fputs(r->r_done ? " -> done" : " -> nothing", report);
}

/*
 * Compares a result with the right result, and returns what m_apply returns. An operation
 * that is not done only reads.
 */
static int compare(const struct ulinear_operation *o, const struct ulinear_result *r,
		   bool done, int64_t value)
{
	if (r && (r->r_done != done
		  || (done && kinds[o->o_kind].k_gives && r->r_value != value)))
		return 0;
	return o->o_kind == ULINEAR_GET || (r && !done) ? 2 : 1;
}

static int apply_value(void *state, size_t *size, const void *operation,
		       const void *result)
{
	const struct ulinear_operation *o = operation;
	struct value v;
	bool done = true;

	memcpy(&v, state, *size);
	switch (o->o_kind) {
	case ULINEAR_GET:
		done = v.v_there;
		break;
	case ULINEAR_SET:
		v = (struct value){ o->o_value, 1 };
		break;
	case ULINEAR_SWAP:
		done = v.v_there && v.v_value == o->o_expected;
		v.v_value = done ? o->o_value : v.v_value;
		break;
	case ULINEAR_ADD:               /* modulo 2^64 */
		v.v_value = (int64_t)((uint64_t)v.v_value + (uint64_t)o->o_value);
		v.v_there = 1;
		break;
	case ULINEAR_DELETE:
		done = v.v_there;
		v = (struct value){ 0, 0 };
		break;
	default:
		return -EINVAL;
	}
	memcpy(state, &v, *size);
	return compare(o, result, done, v.v_value);
}

static int apply_queue(void *state, size_t *size, const void *operation,
		       const void *result)
{
	const struct ulinear_operation *o = operation;
	int64_t value = 0;
	char *values = state;
	bool done = *size > 0;

	if (o->o_kind == ULINEAR_ENQUEUE) {
		if (*size == ULINEAR_QUEUE * sizeof value)
			return -EOVERFLOW;
		memcpy(values + *size, &o->o_value, sizeof value);
		*size += sizeof value;
		return compare(o, result, true, 0);
	}
	if (o->o_kind != ULINEAR_DEQUEUE)
		return -EINVAL;
	if (done) {
		*size -= sizeof value;
		memcpy(&value, values, sizeof value);
		memmove(values, values + sizeof value, *size);
	}
	return compare(o, result, done, value);
}

static uint64_t key_of(const void *operation)
{
	return ((const struct ulinear_operation *)operation)->o_key;
}

static const struct value zero = { 0, 1 }, absent = { 0, 0 };

#define OPERATIONS sizeof(struct ulinear_operation), sizeof(struct ulinear_result)

const struct ulinear_model ulinear_register = {
	OPERATIONS, sizeof zero, &zero, sizeof zero, apply_value, NULL, show
};
const struct ulinear_model ulinear_map = {
	OPERATIONS, sizeof absent, &absent, sizeof absent, apply_value, key_of, show
};
const struct ulinear_model ulinear_queue = {
	OPERATIONS, ULINEAR_QUEUE * sizeof(int64_t), "", 0, apply_queue, NULL, show
};
