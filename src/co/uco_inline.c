/* SPDX-License-Identifier: MIT */
/* uco_inline.c: the inline functions of uco.h as functions, without the statement, which
   uco.c has in its own. */
#include "../../uco.h"

extern inline struct uco *uco__of(struct ustack *frames);
extern inline int uco__run(struct uco *co, void *value, void **result, uintptr_t by);
extern inline int uco_resume(struct uco *co, void *value, void **result);
extern inline int uco_yield(void *value, void **next);
