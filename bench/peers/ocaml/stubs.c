/* SPDX-License-Identifier: MIT */
/* OCaml's library has no monotonic clock and no page size. */
#include <caml/alloc.h>
#include <caml/mlvalues.h>
#include <time.h>
#include <unistd.h>

double peer_now(value unit)
{
	struct timespec t;

	(void)unit;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

value peer_now_boxed(value unit)
{
	return caml_copy_double(peer_now(unit));
}

value peer_page_size(value unit)
{
	(void)unit;
	return Val_long(sysconf(_SC_PAGESIZE));
}
