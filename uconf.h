/* SPDX-License-Identifier: MIT */
/* uconf.h: how to make a scheduler that runs on processors, as rr and ll do. */
#ifndef USCHED_CONF_H
#define USCHED_CONF_H

#include <stddef.h>

/* Zero means the default everywhere. */
struct usched_conf {
	unsigned c_processors;  /* 0: as many as the process may use of those on line */
	unsigned c_stacks;      /* for each processor, two mappings each, mapped at once;
				   0: 1024, with more than 16 processors fewer, mapped
				   as they are needed; USCHED_NATIVE: none but the native
				   stack, as always with the portable switch */
	size_t   c_stack_size;  /* bytes; 0: 256 KiB. With USCHED_NATIVE, of the native
				   stack, and never less than 8 MiB */
	size_t   c_image;       /* bytes of image next to each thread's record, which
				   deeper threads waste; 0: 128 */
	unsigned c_keep;        /* 0: a thread that is evicted and much less deep than it
				   was exchanges its image; 1: it keeps it */
	unsigned c_embed;       /* 1: no native thread is made; the one processor runs in
				   rr_run() or ll_run(), inside a loop of the caller's */
	void   (*c_log)(const char *line);      /* reports; NULL: standard error. May
				   not call the scheduler: it is locked */
};

#define USCHED_NATIVE ((unsigned)-1)

#endif /* USCHED_CONF_H */
