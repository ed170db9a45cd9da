#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""tests/inline/check.py: what it refuses and what it accepts.

Each case is a function in assembly, with HAND for a hand-over. For x86-64 it is assembled
with $CC, for AArch64 with aarch64-linux-gnu-as or clang; without one the cases are skipped.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
CHECK = os.path.join(os.path.dirname(HERE), "inline", "check.py")

X86_HAND = """
	lea	1f(%rip), %rax
	push	%rbp
	push	%rax
	mov	%rsp, (%rsi)
	mov	(%rdi), %rsp
	pop	%rax
	pop	%rbp
	jmp	*%rax
1:	LANDING
	xor	%eax, %eax
"""
X86_SAVE = "push %rbx; push %r12; push %r13; push %r14; push %r15; sub $40, %rsp"
X86_LEAVE = "add $40, %rsp; pop %r15; pop %r14; pop %r13; pop %r12; pop %rbx; ret"

# Each is the body of a function; SAVE and LEAVE are its first and last instructions.
X86_RIGHT = {
    "nothing besides": "SAVE; HAND; LEAVE",
    "a local in the frame": "SAVE; mov %rdx, 8(%rsp); HAND; mov 8(%rsp), %rax; LEAVE",
    "a frame pointer": """push %rbp; mov %rsp, %rbp; SAVE; mov %rdx, -8(%rbp)
        HAND; mov -8(%rbp), %rax; add $40, %rsp; pop %r15; pop %r14; pop %r13; pop %r12
        pop %rbx; pop %rbp; ret""",
    "written before it is read": "SAVE; HAND; mov 8(%rsp), %r12; mov %r12, %rax; LEAVE",
    "cleared before it is read": "SAVE; HAND; xor %r12d, %r12d; mov %r12, %rax; LEAVE",
    "vectors are loaded again": """SAVE; movups %xmm7, (%rsp); HAND; movups (%rsp), %xmm7
        addpd %xmm7, %xmm7; LEAVE""",
    "a mask is loaded again": "SAVE; HAND; kmovw 8(%rsp), %k1; kmovw %k1, %eax; LEAVE",
    "the x87 is loaded again": "SAVE; HAND; fldt 8(%rsp); fld1; faddp; fstpt 8(%rsp); LEAVE",
    "a call gets new arguments": "SAVE; HAND; mov 8(%rsp), %rdi; call one_argument; LEAVE",
    "the result of a call": "SAVE; HAND; call no_argument; mov %rax, %rcx; LEAVE",
    "a loop": "SAVE; 5: mov 8(%rsp), %rdi; mov (%rsp), %rsi; HAND; decl 16(%rsp); jnz 5b; LEAVE",
    "alloca": """push %rbp; mov %rsp, %rbp; SAVE; sub %rdx, %rsp; mov %rsp, %rcx
        movb $1, (%rcx); HAND; lea -40(%rbp), %rsp; pop %r15; pop %r14; pop %r13; pop %r12
        pop %rbx; leave; ret""",
    "an aligned frame": """push %rbp; mov %rsp, %rbp; push %r15; push %r14; push %r13
        push %r12; push %rbx; and $-64, %rsp; sub $64, %rsp; movaps %xmm0, 16(%rsp); HAND
        lea -40(%rbp), %rsp; pop %rbx; pop %r12; pop %r13; pop %r14; pop %r15
        pop %rbp; ret""",
    "probes": """SAVE; lea -0x5000(%rsp), %r11; 6: sub $0x1000, %rsp; orq $0, (%rsp)
        cmp %r11, %rsp; jne 6b; HAND; add $0x5000, %rsp; LEAVE""",
    "a jump to another function": """SAVE; HAND; mov 8(%rsp), %rdi; add $40, %rsp; pop %r15
        pop %r14; pop %r13; pop %r12; pop %rbx; jmp one_argument""",
    "no hand-over, and the red zone": "mov %rdi, -8(%rsp); mov -8(%rsp), %rax; ret",
    "an address before SP is moved": """push %rbp; mov %rsp, %rbp; lea -0x40(%rbp), %r10
        push %rbx; push %r12; push %r13; push %r14; push %r15; sub $40, %rsp
        movq $1, (%r10); HAND; add $40, %rsp; pop %r15; pop %r14; pop %r13; pop %r12
        pop %rbx; pop %rbp; ret""",
    "an array's element before": "SAVE; mov -8(%rsp,%rdx,8), %rax; HAND; LEAVE",
    "in the cold part": """SAVE; HAND; test %eax, %eax; jne whole.cold; LEAVE
        .size whole, .-whole
        whole.cold: mov 8(%rsp), %r12; mov %r12, %rax; LEAVE""",
    "a jump table": """SAVE; HAND; mov 8(%rsp), %edx; lea table(%rip), %rcx
        movslq (%rcx,%rdx,4), %rax; add %rcx, %rax; jmp *%rax
        7: LEAVE
        8: mov 8(%rsp), %r12; mov %r12, %rax; LEAVE
        .section .rodata; .balign 4; table: .long 7b - table, 8b - table; .text""",
}
X86_WRONG = {
    "below SP before": ("below", "SAVE; mov %rdx, -8(%rsp); HAND; LEAVE"),
    "below SP after": ("below", "SAVE; HAND; mov -16(%rsp), %rax; LEAVE"),
    "below SP in another arm": (
        "below", "SAVE; test %rdx, %rdx; je 5f; HAND; 5: mov %ecx, -4(%rsp); LEAVE"),
    "below SP by the frame pointer": ("below", """push %rbp; mov %rsp, %rbp
        mov %edx, -4(%rbp); HAND; mov -4(%rbp), %eax; pop %rbp; ret"""),
    "below SP by another register": ("below", """SAVE; mov %rsp, %rdx; movl $1, -20(%rdx)
        HAND; LEAVE"""),
    "an array below SP": ("below", "SAVE; mov %ecx, -0x78(%rsp,%rdx,4); HAND; LEAVE"),
    "the address of an array below SP": ("below", """SAVE; lea -0x78(%rsp), %rdx
        mov %ecx, (%rdx,%rcx,4); HAND; LEAVE"""),
    "below SP after an aligned frame": ("below", """push %rbp; mov %rsp, %rbp; push %r15
        push %r14; push %r13; push %r12; push %rbx; and $-64, %rsp; movaps %xmm0, -16(%rsp)
        HAND; lea -40(%rbp), %rsp; pop %rbx; pop %r12; pop %r13; pop %r14; pop %r15
        pop %rbp; ret"""),
    "below SP in the cold part": ("below", """SAVE; HAND; test %eax, %eax; jne whole.cold
        LEAVE; .size whole, .-whole
        whole.cold: mov %eax, -8(%rsp); LEAVE"""),
    "r12 stays": ("r12", "SAVE; mov %rdx, %r12; HAND; mov %r12, %rax; LEAVE"),
    "half of r12 stays": ("r12", "SAVE; mov %rdx, %r12; HAND; movzbl %r12b, %eax; LEAVE"),
    "an address stays": ("r13", "SAVE; mov %rdx, %r13; HAND; mov 8(%r13), %rax; LEAVE"),
    "one way to a read": ("r12", """SAVE; HAND; test %eax, %eax; je 5f; mov 8(%rsp), %r12
        5: mov %r12, %rax; LEAVE"""),
    "not saved for the caller": ("r14", """push %rbx; push %r12; push %r13; push %r15
        HAND; pop %r15; pop %r13; pop %r12; pop %rbx; ret"""),
    "not saved, and another function returns": ("r12", "HAND; jmp no_argument"),
    "rbx is not saved": ("rbx", "SAVE; mov %rdx, %rbx; HAND; mov %rbx, %rax; LEAVE"),
    "xmm stays": ("v3", "SAVE; movq %rdx, %xmm3; HAND; movq %xmm3, %rax; LEAVE"),
    "ymm stays": ("v3", "SAVE; HAND; vaddpd %ymm3, %ymm1, %ymm2; LEAVE"),
    "zmm stays": ("v20", "SAVE; HAND; vmovups %zmm20, (%rsp); LEAVE"),
    "a merge with what stays": ("v5", """SAVE; HAND; kmovw 8(%rsp), %k1
        vmovaps (%rsp), %zmm5{%k1}; LEAVE"""),
    "a mask stays": ("k2", "SAVE; HAND; kmovw %k2, %eax; LEAVE"),
    "masked by what stays": ("k3", "SAVE; HAND; vmovaps (%rsp), %zmm5{%k3}{z}; LEAVE"),
    "the x87 stays": ("st(0)", "SAVE; fldt 8(%rsp); HAND; fstpt 8(%rsp); LEAVE"),
    "the x87 stays, below": ("st(1)", """SAVE; fldt 8(%rsp); HAND; fld1; faddp
        fstpt 8(%rsp); LEAVE"""),
    "an argument stays": ("rdi", "SAVE; HAND; call one_argument; LEAVE"),
    "a flag of cmov": ("r12", "SAVE; HAND; test %eax, %eax; cmovne %r12, %rax; LEAVE"),
    "after a call": ("r12", "SAVE; HAND; call no_argument; mov %r12, %rax; LEAVE"),
    "in a loop": ("r12", "SAVE; mov %rdx, %r12; 5: HAND; dec %r12; jnz 5b; LEAVE"),
    "in the cold part": ("r12", """SAVE; HAND; test %eax, %eax; jne whole.cold; LEAVE
        .size whole, .-whole
        whole.cold: mov %r12, %rax; LEAVE"""),
    "in a jump table": ("r12", """SAVE; HAND; mov 8(%rsp), %edx; lea table(%rip), %rcx
        movslq (%rcx,%rdx,4), %rax; add %rcx, %rax; jmp *%rax
        7: LEAVE
        8: mov %r12, %rax; LEAVE
        .section .rodata; .balign 4; table: .long 7b - table, 8b - table; .text"""),
    "a tail call of the slow way": ("tail", """test %rdx, %rdx; jne usched__handover_far
        SAVE; HAND; LEAVE"""),
    "no place of resumption": ("no place", """SAVE; mov (%rdi), %rsp; pop %rax; pop %rbp
        jmp *%rax; 1: xor %eax, %eax; LEAVE"""),
}
X86_REST = """
	.globl	one_argument, no_argument, usched__handover_far
	.type	one_argument, @function
one_argument:
	mov	%rdi, %rax
	ret
	.type	no_argument, @function
no_argument:
	xor	%eax, %eax
	ret
	.type	usched__handover_far, @function
usched__handover_far:
	ret
	.section .note.GNU-stack, "", @progbits
"""

ARM_HAND = """
	adr	x9, 1f
	stp	x29, x9, [x1, #8]
	mov	x10, sp
	str	x10, [x1]
	ldr	x10, [x0]
	mov	sp, x10
	ldp	x29, x9, [x0, #8]
	br	x9
1:	LANDING
	mov	w0, #0
"""
ARM_SAVE = """stp x29, x30, [sp, #-176]!; stp x19, x20, [sp, #16]; stp x21, x22, [sp, #32]
	stp x23, x24, [sp, #48]; stp x25, x26, [sp, #64]; stp x27, x28, [sp, #80]
	stp d8, d9, [sp, #96]; stp d10, d11, [sp, #112]; stp d12, d13, [sp, #128]
	stp d14, d15, [sp, #144]"""
ARM_LEAVE = """ldp x19, x20, [sp, #16]; ldp x21, x22, [sp, #32]; ldp x23, x24, [sp, #48]
	ldp x25, x26, [sp, #64]; ldp x27, x28, [sp, #80]; ldp d8, d9, [sp, #96]
	ldp d10, d11, [sp, #112]; ldp d12, d13, [sp, #128]; ldp d14, d15, [sp, #144]
	ldp x29, x30, [sp], #176; ret"""
ARM_RIGHT = {
    "nothing besides": "SAVE; HAND; LEAVE",
    "a local in the frame": "SAVE; str x2, [sp, #160]; HAND; ldr x0, [sp, #160]; LEAVE",
    "written before it is read": "SAVE; HAND; mov x20, #5; mov x0, x20; LEAVE",
    "a vector is loaded again": "SAVE; HAND; ldr q9, [sp, #160]; fadd v9.2d, v9.2d, v9.2d; LEAVE",
    "a call gets new arguments": "SAVE; HAND; ldr x0, [sp, #160]; bl one_argument; LEAVE",
}
ARM_WRONG = {
    "below SP": ("below", "SAVE; stur x2, [sp, #-8]; HAND; LEAVE"),
    "x20 stays": ("x20", "SAVE; mov x20, x2; HAND; mov x0, x20; LEAVE"),
    "w20 stays": ("x20", "SAVE; mov x20, x2; HAND; add w0, w20, #1; LEAVE"),
    "x19 is not saved": ("x19", "SAVE; mov x19, x2; HAND; ldr x0, [x19, #8]; LEAVE"),
    "a vector stays": ("v9", "SAVE; HAND; fadd v0.2d, v9.2d, v9.2d; LEAVE"),
    "a double stays": ("v8", "SAVE; HAND; fmov x0, d8; LEAVE"),
    "a lane is set": ("v3", "SAVE; HAND; ldr x0, [sp, #160]; mov v3.d[1], x0; LEAVE"),
    "not saved for the caller": ("x30", "HAND; ret"),
    "an argument stays": ("x0", "SAVE; HAND; mov x0, x1; bl one_argument; LEAVE"),
    "SVE stays": ("v17", "SAVE; HAND; add z0.d, z17.d, z17.d; LEAVE"),
    "a predicate stays": ("p4", "SAVE; HAND; cntp x0, p4, p4.d; LEAVE"),
}
ARM_REST = """
	.globl	one_argument
	.type	one_argument, %function
one_argument:
	add	x0, x0, #1
	ret
"""


def text(body, arm, landing):
    hand, save, leave, rest = ((ARM_HAND, ARM_SAVE, ARM_LEAVE, ARM_REST) if arm else
                               (X86_HAND, X86_SAVE, X86_LEAVE, X86_REST))
    hand = hand.replace("LANDING", ("bti j" if arm else "endbr64") if landing else "nop")
    lines = body.replace("HAND", hand).replace("SAVE", save).replace("LEAVE", leave)
    return "%s\t.text\n\t.globl whole\n\t.type whole, %sfunction\nwhole:\n%s\n%s" % (
        ".arch armv8.5-a+sve\n" if arm else "", "%" if arm else "@",
        lines.replace(";", "\n"), rest)


class Examples(unittest.TestCase):
    compiler = os.environ.get("CC", "cc").split()
    objdump = "objdump"
    arm = False

    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory()

    @classmethod
    def tearDownClass(cls):
        cls.directory.cleanup()

    def check(self, body, *options, landing=False):
        source = os.path.join(self.directory.name, "whole.s")
        program = os.path.join(self.directory.name, "whole")
        with open(source, "w", encoding="ascii") as file:
            file.write(text(body, self.arm, landing))
        subprocess.run(self.compiler + ["-nostdlib", "-shared", "-Wl,-Bsymbolic", "-o",
                                        program, source], check=True)
        done = subprocess.run([sys.executable, "-B", CHECK, "--objdump", self.objdump, *options,
                               program], stdout=subprocess.PIPE, check=False, text=True)
        return done.returncode, done.stdout

    def accepts(self, cases):
        for name, body in cases.items():
            with self.subTest(name):
                status, out = self.check(body)
                self.assertEqual(status, 0, out)

    def refuses(self, cases):
        for name, (what, body) in cases.items():
            with self.subTest(name):
                status, out = self.check(body)
                self.assertEqual(status, 1, out)
                self.assertIn(what, out)

    def landing_pads(self, body):
        self.assertEqual(self.check(body, "--landing", landing=True)[0], 0)
        status, out = self.check(body, "--landing")
        self.assertEqual(status, 1)
        self.assertIn("landing", out)


class X86(Examples):
    def setUp(self):
        machine = subprocess.run(self.compiler + ["-dumpmachine"], stdout=subprocess.PIPE,
                                 check=True, text=True).stdout
        if not machine.startswith("x86_64") or not shutil.which("objdump"):
            self.skipTest("no compiler for x86-64 with objdump")

    def test_right(self):
        self.accepts(X86_RIGHT)

    def test_wrong(self):
        self.refuses(X86_WRONG)

    def test_landing_pads(self):
        self.landing_pads("SAVE; HAND; LEAVE")

    def test_notrack_needs_none(self):
        body = X86_HAND.replace("jmp", "notrack jmp").replace("LANDING", "nop")
        self.assertEqual(self.check("SAVE\n%s\nLEAVE" % body, "--landing")[0], 0)

    def test_counts(self):
        body = "SAVE; HAND; mov (%rsp), %rdi; mov 8(%rsp), %rsi; HAND; LEAVE"
        self.assertEqual(self.check(body, "--at-least", "2")[0], 0)
        self.assertEqual(self.check(body, "--at-least", "3")[0], 1)

    def test_carried(self):
        body = "SAVE; HAND; mov %rdi, %rax; LEAVE"
        self.assertEqual(self.check(body)[0], 1)
        self.assertEqual(self.check(body, "--carried", "rsi,rdi")[0], 0)


class Arm(Examples):
    compiler = ["aarch64-linux-gnu-gcc"]
    objdump = "aarch64-linux-gnu-objdump"
    arm = True

    def setUp(self):
        if not shutil.which(self.compiler[0]) or not shutil.which(self.objdump):
            self.skipTest("there is no aarch64-linux-gnu-gcc")

    def test_right(self):
        self.accepts(ARM_RIGHT)

    def test_wrong(self):
        self.refuses(ARM_WRONG)

    def test_landing_pads(self):
        self.landing_pads(ARM_RIGHT["nothing besides"])


del Examples            # has no tests of its own

if __name__ == "__main__":
    unittest.main()
