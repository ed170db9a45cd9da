/* SPDX-License-Identifier: MIT */
/*
 * layout.h: usched__layout, a constant that tells readers of a process's memory, or of a
 * core file, where threads are. So a reader, such as tools/uthreads, needs no debug
 * information of the library. Private.
 *
 * A reader finds the constant by its name. In stripped programs the reader searches what
 * the file maps, at multiples of 16, for the first 16 bytes. In memory the pointers are
 * relocated. There l_self is the address of the constant, so that a reader can tell the
 * constant from a copy.
 *
 *	offset  0  16 bytes, L_MAGIC
 *	       16  uint32_t, L_VERSION: the version of these rules; 12 bytes unused
 *	       32  eight pointers, in 8 bytes each
 *	       96  names, in 32 bytes each, and an empty one at the end: 24 bytes of text,
 *	           uint32_t offset, uint32_t size
 *
 * A name is that of a struct's member, with the member's offset and size. Or it is that
 * of a struct or of another number, with the value as the offset and with size 0.
 * Readers look names up, so a version can have more names.
 *
 * The rules. Schedulers are linked by r_other, from *l_list on. A scheduler has
 * c_processors processors. The first is at r_proc, and the next ones are r_stride bytes
 * apart. Each begins with a struct usched. Threads that are moving belong to r_moving.
 * The records are in arenas, linked by ar_next; uimage_pool_walk() and uimage_rest() say
 * where. A record whose u_func is NULL is free. The u_stack of a new thread is s_new. A
 * blocked thread goes on at u_pc. The thread's SP is u_top without the lowest bit; u_fp
 * and u_bp are its rbp and rbx, or x29 and x19. If u_pc is l_resumed, the other
 * registers are at that SP, as unwinding information says; but if *l_return_at is -1,
 * they are in a jmp_buf, and at that SP is a pointer to the jmp_buf. The frames of the
 * thread are the bytes from that SP up to k_bottom of u_stack. If k_resident of u_stack
 * is the thread, the frames are in place. Otherwise, without USTACK_OUTSIDE in u_deep,
 * they are at u_image. With USTACK_OUTSIDE they are at i_frames, unless USCHED_NEAR is 1.
 * Then the first bytes of the frames are behind i_size, up to the end of the s_room bytes
 * from u_image on, rounded down to 8 bytes, and only the rest is at i_frames. A processor
 * is parked if its p_inbox is l_parked. A thread's attachment is a struct uwaiter if
 * w_thread is that thread. Names are linked by nm_next, in UPROC_NAME_LISTS lists, whose
 * first pointers are at l_names.
 *
 * l_lists points to UPROC_LISTS structs layout_list: TLS blocks, and records of posix/.
 * Their links do not show that the program can reach a thread. A TLS block on a stack is
 * behind the frames of its thread.
 *
 * l_trace points to a pointer. In programs without debug/utrace.c that pointer is NULL;
 * otherwise it points to a struct usched__trace_layout: 8 bytes for a pointer to the
 * control word, 8 unused ones, and names like those above. debug/trace.h has the rules.
 */
#ifndef USCHED_LAYOUT_H
#define USCHED_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

#define L_MAGIC "usched layout\xa7\x1d"

/* The LAYOUT_NAMES and TRACE_NAMES have room for more names; an empty one is the end. */
enum { L_VERSION = 2, LAYOUT_NAMES = 104, TRACE_NAMES = 24 };

union layout_pointer {
	const void *p;
	void      (*function)(void);
	uint64_t    room;
};

/* A list of what belongs to threads. ll_head and each element begin with ll_links bytes
   of pointers. The first pointer leads to the next element, or at the end to ll_head or
   nowhere. ll_size is the size of elements that are on stacks if the word behind the
   links is not 0; otherwise 0. */
struct layout_list {
	const void *ll_head;
	uintptr_t   ll_links, ll_size;
};

/* ll_head is NULL if there is no such list. posix/ sets the second at the start. */
enum { UPROC_LISTS = 2 };
extern struct layout_list uproc__lists[UPROC_LISTS];

struct layout_name {
	char     ln_name[24];
	uint32_t ln_offset;
	uint32_t ln_size;
};

struct usched__layout {
	char                 l_magic[16];
	uint32_t             l_version;
	uint32_t             l_unused[3];
	union layout_pointer l_self, l_list, l_names, l_parked, l_resumed, l_return_at,
			     l_trace, l_lists;
	struct layout_name   l_name[LAYOUT_NAMES];
};

struct usched__trace_layout {
	union layout_pointer tl_control, tl_spare[1];
	struct layout_name   tl_name[TRACE_NAMES];
};

/* The constant is in every program with processors, since uprocs.c refers to it. */
extern const struct usched__layout usched__layout;

#define PART(type, name, m) \
	{ #type "." name, offsetof(struct type, m), sizeof ((struct type *)0)->m }
#define MEMBER(type, m) PART(type, #m, m)
#define SIZE(type)      { #type, sizeof(struct type), 0 }
#define NUMBER(name)    { #name, (uint32_t)(name), 0 }

#endif /* USCHED_LAYOUT_H */
