/* SPDX-License-Identifier: MIT */
/*
 * block.h: TLS blocks for threads, see uproc_block.c. Private, and for posix/. A block is
 * named by its thread pointer.
 */
#ifndef USCHED_BLOCK_H
#define USCHED_BLOCK_H

#include <pthread.h>
#include <stdbool.h>

struct uprocs;
struct ustack_how;

/* Finds out whether threads can have blocks here. Returns NULL, or why they cannot. */
const char *uproc__probe_blocks(void);

/*
 * Looks at the thread-local variables of all objects that are loaded, and keeps these
 * objects loaded. Does nothing after the first call. After uproc__probe_blocks().
 */
void uproc__use_blocks(void);

/*
 * Looks at the objects that were loaded since the last look. To be called when an object
 * is loaded, before its constructors run: then its variables have initial values in all
 * blocks. Otherwise the end of a thread with c_tls calls this.
 */
void uproc__look_at_loads(void);

/*
 * The first returns a block for a new thread of `r', or NULL. If `at' is not NULL, the
 * block is in the uproc__block_room() bytes behind *at, which reach to the end of a page.
 * Then *at is NULL, or the block that the last thread has left there. The second takes
 * back the block of a thread that never began. The third frees the block that a vacant
 * stack has. After uproc__use_blocks().
 */
__attribute__((visibility("hidden")))
char *uproc__new_block(const struct uprocs *r, char **at);
__attribute__((visibility("hidden"))) void uproc__drop_block(char *block);
__attribute__((visibility("hidden"))) void uproc__free_block(char *block);
__attribute__((visibility("hidden"))) size_t uproc__block_room(void);

/* Frees all blocks of threads of `r', which never run again. */
__attribute__((visibility("hidden"))) void uproc__drop_blocks(const struct uprocs *r);

/*
 * The first calls the destructors of the variables in the thread's block. The second does
 * that, makes the thread run on the native thread's block, and takes the other back. Both
 * may switch.
 */
void uproc__destroy_variables(void);
void uproc__leave_block(void);

/* Makes the start of a thread, which will run on the block: returns the argument for
   usched__wrapped(). */
__attribute__((visibility("hidden")))
void *uproc__begin_on(char *block, const struct ustack_how *how, void (*func)(void *),
		      void *arg, const void *where);

/* Returns call(mutex), made on the block of the caller's native thread, which the kernel
   knows as the owner of robust mutexes. */
int uproc__on_native(int (*call)(pthread_mutex_t *mutex), pthread_mutex_t *mutex);

/*
 * For posix/: uproc__hold_blocks() and uproc__blocks_forked() are as core.h says of such
 * functions. uproc__end_forked() ends the native thread that goes on as a thread in the
 * child.
 */
void uproc__hold_blocks(int on);
void uproc__blocks_forked(void);
_Noreturn void uproc__end_forked(void);

#endif /* USCHED_BLOCK_H */
