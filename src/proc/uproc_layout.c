/* SPDX-License-Identifier: MIT */
/* uproc_layout.c: usched__layout, the constant that layout.h describes. */
#include "../../arch/arch.h"
#include "layout.h"
#include "proc.h"
#include "../../uwait.h"

/* The values of IDLE and WAKING in uwait.c. In other states a wait is not granted. */
enum { UWAITER_IDLE = 0, UWAITER_WAKING = 2 };

/* The bit w_scoped, in the byte before w_state. */
enum { UWAITER_SCOPED = 2 };

/* Bits of u_deep, which has bit fields. The ABIs of x86-64 and AArch64 place them so. */
enum { USTACK_CANCELLED = 1, USTACK_ATTACHED = 2, USTACK_OUTSIDE = 4 };

/* The attribute "used" keeps the constant, which no code of the program reads. */
__attribute__((used, aligned(16)))
const struct usched__layout usched__layout = {
	.l_magic     = L_MAGIC,
	.l_version   = L_VERSION,
	.l_self      = { &usched__layout },
	.l_list      = { &uproc__schedulers },
	.l_names     = { uproc__names },
	.l_parked    = { PARKED },
	.l_resumed   = { .function = usched__resumed },
	.l_return_at = { &usched__return_at },
	.l_trace     = { &uproc__observer.po_layout },
	.l_lists     = { uproc__lists },
	.l_name = {
		MEMBER(uprocs, r_other), MEMBER(uprocs, r_proc), MEMBER(uprocs, r_stride),
		MEMBER(uprocs, r_moving),
		PART(uprocs, "c_processors", r_made),
		PART(uprocs, "cl_arenas", r_images.ip_class[0].cl_arenas),

		SIZE(uimage_arena),
		MEMBER(uimage_arena, ar_next), MEMBER(uimage_arena, ar_size),
		MEMBER(uimage_arena, ar_carved),
		NUMBER(UIMAGE_CHUNK), NUMBER(UIMAGE_HEAD),
		MEMBER(uimage_chunk, ik_first), MEMBER(uimage_chunk, ik_size),
		MEMBER(uimage_chunk, ik_rest), MEMBER(uimage_chunk, ik_count),

		MEMBER(uproc_rest, re_joiner),
		MEMBER(uproc, p_inbox), MEMBER(uproc, p_ring),
		MEMBER(uproc, p_queue), MEMBER(uproc, p_mask),

		SIZE(usched),
		MEMBER(usched, s_home), MEMBER(usched, s_current), MEMBER(usched, s_room),
		MEMBER(usched, s_native), MEMBER(usched, s_new),

		MEMBER(usched_stack, k_bottom), MEMBER(usched_stack, k_resident),
		MEMBER(usched_stack, k_sched), MEMBER(usched_stack, k_size),

		SIZE(ustack),
		MEMBER(ustack, u_top), MEMBER(ustack, u_pc), MEMBER(ustack, u_stack),
		MEMBER(ustack, u_fp), MEMBER(ustack, u_bp), MEMBER(ustack, u_func),
		MEMBER(ustack, u_deep), MEMBER(ustack, u_tokens), MEMBER(ustack, u_image),
		MEMBER(ustack, u_mail),
		PART(ustack, "i_frames", u_image.i_frames),
		PART(ustack, "i_size", u_image.i_size),
		NUMBER(USTACK_CANCELLED), NUMBER(USTACK_ATTACHED), NUMBER(USTACK_OUTSIDE),
		NUMBER(USCHED_NEAR),
		NUMBER(UPROC_WAITING), NUMBER(UPROC_JOINING), NUMBER(UPROC_NEWS),

		SIZE(uwaiter),
		PART(uwaiter, "a_func", w_attachment.a_func),
		MEMBER(uwaiter, w_thread), MEMBER(uwaiter, w_deadline),
		MEMBER(uwaiter, w_kind), MEMBER(uwaiter, w_object),
		MEMBER(uwaiter, w_where), MEMBER(uwaiter, w_state),
		MEMBER(uwaiter, w_joins),
		NUMBER(UWAITER_IDLE), NUMBER(UWAITER_WAKING), NUMBER(UWAITER_SCOPED),
		MEMBER(uwait_kind, kd_name), MEMBER(uwait_kind, kd_how),
		MEMBER(uwait_kind, kd_number), MEMBER(uwait_kind, kd_held),

		SIZE(uproc_name),
		MEMBER(uproc_name, nm_thread), MEMBER(uproc_name, nm_text),
		MEMBER(uproc_name, nm_next), NUMBER(UPROC_NAME_LISTS),
	},
};
