#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
check.py [OPTION]... PROGRAM: disassembles a program and looks at each function that hands
over to another thread in the middle.

A hand-over is an instruction that loads SP, with an indirect jump a few instructions
later; the last address of this function's code that was computed before is the place of
resumption. There, all registers are the other thread's. In a function with a hand-over

  below     nothing is read or written below SP: no red zone;
  live      no register but SP is read from a place of resumption on
            before it is written, on any way through the function. A return reads what a
            function preserves for its caller. A call reads the arguments that the called
            function, if it is in the program, looks at;
  tail      it does not jump to the slow way, SLOW, which must be a call;
  landing   places of resumption are landing pads, with --landing.

Functions of the library's assembly, usched__*, are left out.

  --objdump NAME   default objdump
  --landing        indirect jumps need landing pads
  --carried LIST   registers that have the resumed thread's values, as the statement sets
                   them before its jump
  --at-least N     this many hand-overs must be there
  --quiet          prints failures only
"""
import argparse
import re
import struct
import subprocess
import sys

SMALL_INDEX = 16        # bytes: array[i - 1] is written as a place before the array
NEAR = 24               # instructions from the address of resumption to the jump, at most


class Insn:
    __slots__ = ('addr', 'op', 'args', 'text', 'target', 'symbol', 'next', 'comment')

    def __init__(self, addr, op, args, text, target, symbol, comment):
        self.addr, self.op, self.args, self.text = addr, op, args, text
        self.target, self.symbol, self.comment = target, symbol, comment
        self.next = None


class Function:
    """The instructions of a function and of its cold parts."""

    def __init__(self, name):
        self.name = name
        self.insns = {}
        self.order = []
        self.entry = None
        self.pads = {}          # address of a call: of its landing pad

    def add(self, insn):
        if self.entry is None:
            self.entry = insn.addr
        self.insns[insn.addr] = insn
        self.order.append(insn)


# ---------------------------------------------------------------- disassembly

SPLIT = re.compile(r'\.(cold|unlikely|__part)(\.\d+)?$')
HEAD = re.compile(r'^([0-9a-f]+) <(.*)>:$')
LINE = re.compile(r'^ *([0-9a-f]+):\t(\S.*)$')
PLACE = re.compile(r'\b([0-9a-f]+) <([^>]*)>')
PREFIXES = {'notrack', 'bnd', 'lock', 'rep', 'repz', 'repnz', 'repe', 'repne', 'data16',
            'cs', 'ds', 'es', 'fs', 'gs', 'xacquire', 'xrelease', 'rex.W', 'addr32',
            '{evex}', '{vex}', '{vex3}', 'ss'}


def operands(text):
    """Splits at commas that are not in brackets."""
    parts, depth, last = [], 0, 0
    for i, c in enumerate(text):
        if c in '([{':
            depth += 1
        elif c in ')]}':
            depth -= 1
        elif c == ',' and depth == 0:
            parts.append(text[last:i].strip())
            last = i + 1
    parts.append(text[last:].strip())
    return [p for p in parts if p]


def parse(lines):
    """All functions, by names that are made unique, and the machine."""
    functions, machine, current, last, parts = {}, None, None, None, []
    for line in lines:
        if machine is None and 'file format' in line:
            machine = 'aarch64' if 'aarch64' in line else 'x86_64'
        head = HEAD.match(line)
        if head:
            name = head.group(2)
            current = Function(name)
            last = None
            if SPLIT.search(name):
                parts.append(current)
                continue
            if name in functions:
                name = '%s@%s' % (name, head.group(1).lstrip('0'))
            current.name = name
            functions[name] = current
            continue
        match = LINE.match(line)
        if not match or current is None:
            continue
        insn = decode(int(match.group(1), 16), match.group(2))
        if insn is None:
            continue
        if last is not None:
            last.next = insn.addr
        last = insn
        current.add(insn)
    return functions, machine, parts


def attach(functions, parts, pads):
    """Gives cold parts to the functions of that name that go there."""
    by_name = {}
    for function in functions.values():
        by_name.setdefault(function.name.split('@')[0], []).append(function)
    for part in parts:
        name = part.name
        while SPLIT.search(name):
            name = SPLIT.sub('', name)
        owners = by_name.get(name, [])
        going = [f for f in owners if any(i.target in part.insns for i in f.order)]
        if not going:
            going = [f for f in owners for start, end, pad in pads
                     if pad in part.insns and any(start <= a < end for a in f.insns)]
        for function in going[:1] or owners[:1]:
            for insn in part.order:
                function.add(insn)


def decode(addr, text):
    text = text.replace('\t', ' ')
    code, comment = text, ''
    for mark in ('#', '//'):
        at = code.find(' ' + mark) if mark == '//' else code.find(mark + ' ')
        if at >= 0:
            code, comment = code[:at], code[at:]
    words = code.split(None, 1)
    prefix = []
    while words and (words[0] in PREFIXES or words[0].startswith('rex')) and len(words) > 1:
        prefix.append(words[0])
        words = words[1].split(None, 1)
    if not words or words[0].startswith('.') or words[0] in ('(bad)', '...'):
        return None
    op = words[0]
    rest = words[1] if len(words) > 1 else ''
    place = PLACE.search(rest) or PLACE.search(comment)
    target = symbol = None
    if place:
        target, symbol = int(place.group(1), 16), place.group(2)
        rest = PLACE.sub(place.group(1), rest)
    if op.endswith((',pt', ',pn')):
        op = op[:-3]
    insn = Insn(addr, op, operands(rest), text.strip(), target, symbol, comment)
    if prefix:
        insn.comment += ' ' + ' '.join(prefix)
    return insn


# ---------------------------------------------------------------- x86-64

class X86:
    SP = 'rsp'
    CALLER_RESULT = {'rax', 'rdx', 'v0', 'v1', 'st0', 'st1'}
    ARGUMENTS = ['rdi', 'rsi', 'rdx', 'rcx', 'r8', 'r9'] + ['v%d' % i for i in range(8)]
    PRESERVED = {'rbx', 'rbp', 'r12', 'r13', 'r14', 'r15'}
    ALL = ({'rax', 'rbx', 'rcx', 'rdx', 'rsi', 'rdi', 'rbp'}
           | {'r%d' % i for i in range(8, 16)} | {'v%d' % i for i in range(32)}
           | {'k%d' % i for i in range(8)} | {'st%d' % i for i in range(8)})
    REG = re.compile(r'%([a-z]+\d*[a-z]*)(\(\d\))?')
    NAMES = {}
    for _full, _low in (('rax', 'a'), ('rbx', 'b'), ('rcx', 'c'), ('rdx', 'd')):
        for _n in (_full, 'e' + _full[1:], _full[1:], _low + 'l', _low + 'h'):
            NAMES[_n] = _full
    for _full in ('rsi', 'rdi', 'rbp', 'rsp'):
        for _n in (_full, 'e' + _full[1:], _full[1:], _full[1:] + 'l'):
            NAMES[_n] = _full
    for _i in range(8, 16):
        for _s in ('', 'd', 'w', 'b', 'l'):
            NAMES['r%d%s' % (_i, _s)] = 'r%d' % _i
    for _i in range(32):
        for _s in 'xyz':
            NAMES['%smm%d' % (_s, _i)] = 'v%d' % _i
    for _i in range(8):
        NAMES['k%d' % _i] = 'k%d' % _i
        NAMES['mm%d' % _i] = 'st%d' % _i

    READ_ONLY = re.compile(r'^(cmp[bwlq]?|test[bwlq]?|v?u?comis[sd]|bt[wlq]?|push[wlqf]*|'
                           r'v?ptest|vtest.*|k(or)?test[bwdq]|prefetch.*|nop[wl]?|'
                           r'ldmxcsr|vldmxcsr|out.*|hlt|ud2|int3|endbr64|mfence|lfence|'
                           r'sfence|pause|fxrstor.*|xrstor.*|clflush.*)$')
    ONLY_WRITES = re.compile(
        r'^(mov([bwlq]|abs|ap[sd]|up[sd]|dq[au]|d|q2dq|dq2q|s[sdbwl].*|z[bw].*|be.*|ddup|'
        r'shdup|sldup|hlps|lhps|nt.*|msk.*)?|movs[sd]|lea[wlq]?|pop[wlq]?|set[a-z]+|cvt.*|sqrts[sd]|'
        r'sqrtp[sd]|rcp.*|rsqrt.*|round.*|pshuf(d|lw|hw)|pabs.*|pmov.*|pext.*|extract.*|'
        r'tzcnt.*|lzcnt.*|popcnt.*|bs[fr][wlq]?|lddqu|stmxcsr|fnst[cs]w|fstcw|vstmxcsr|'
        r'andn|bextr|bzhi|pdep|pext|rorx|sarx|shlx|shrx|bls.*|in[bwl]|rd[a-z]*seed.*|'
        r'rdrand.*|rdssp.*|k(mov|and|andn|or|xor|xnor|not|shift[lr]|add|unpck..)[bwdq])$')
    READS_TARGET = re.compile(r'^(vfn?m(add|sub)\w*|vpternlog.*|vperm[it]2.*|vpdp.*|'
                              r'vpmadd52.*|vp?gather.*|vfixup.*|vpsh[lr]dv.*)$')
    # The operand before the last has the upper half of the result: any will do.
    KEEPS_REST = re.compile(r'^v(cvtu?si2s[sd][lq]?|cvts[sd]2s[sd]|sqrts[sd]|r(sq)?rcp.*s[sd]|'
                            r'rounds[sd]|rndscales[sd])$')
    IDIOM = re.compile(r'^(xor[bwlq]?|sub[bwlq]?|sbb[bwlq]?|p?xor.*|psub.*|pcmpeq.|pcmpgt.|'
                       r'v?pxor[dq]?|v?xorp[sd]|vpsub.|vpcmpeq.|k?xn?or.|kxor.|andnp.)$')
    LOADS_X87 = re.compile(r'^f(ld([slt1z]|cw|l2.|pi|lg2|ln2|)?|ild[sl]*l?|bld)$')

    def regs(self, text):
        found = []
        for match in self.REG.finditer(text):
            name = match.group(1)
            if name == 'st':
                found.append('st%d' % int((match.group(2) or '(0)')[1]))
            elif name in self.NAMES:
                found.append(self.NAMES[name])
        return found

    @staticmethod
    def is_memory(arg):
        return '(' in arg and not arg.startswith('%st') or (
            not arg.startswith(('%', '$', '{')) and not arg.startswith('*%')) or ':' in arg

    @staticmethod
    def is_jump(insn):
        return insn.op.startswith('j') or insn.op.startswith('loop')

    @staticmethod
    def is_plain_jump(insn):
        return insn.op in ('jmp', 'jmpq')

    @staticmethod
    def is_indirect(insn):
        return insn.op in ('jmp', 'jmpq') and bool(insn.args) and insn.args[0][0] == '*'

    @staticmethod
    def is_call(insn):
        return insn.op in ('call', 'callq')

    @staticmethod
    def is_return(insn):
        return insn.op in ('ret', 'retq', 'iretq')

    @staticmethod
    def is_end(insn):
        return insn.op in ('ud2', 'ud1', 'hlt', 'ud2a', 'ud2b', 'ud1l')

    def loads_sp(self, insn):
        return (insn.op in ('mov', 'movq') and len(insn.args) == 2
                and insn.args[1] == '%rsp' and '%rbp' not in insn.args[0]
                or insn.op == 'xchg' and '%rsp' in insn.args)

    def jump_is_near(self, load):
        """A register may be loaded for other reasons, as at the end of an array."""
        return NEAR if self.is_memory(load.args[0]) else 4

    @staticmethod
    def code_address(insn):
        """The address that it computes, if it is one of code."""
        if insn.op in ('lea', 'leaq') and '(%rip)' in insn.args[0]:
            return insn.target
        if insn.op in ('mov', 'movq', 'movl', 'movabs') and re.match(r'\$0x', insn.args[0]):
            return int(insn.args[0][1:], 16)
        if insn.op == 'movq' or insn.op == 'push':
            return None
        return None

    @staticmethod
    def is_landing(insn, jump):
        return insn.op == 'endbr64' or 'notrack' in jump.comment

    def effect(self, insn):
        """Registers that it reads, and writes; the x87 apart."""
        op, args = insn.op, insn.args
        reads, writes = [], []
        if self.is_jump(insn):
            return (self.regs(args[0]) if args else []), []
        if op in ('leave', 'leaveq'):
            return ['rbp'], ['rbp']
        if op in ('cltq', 'cwtl', 'cbtw'):
            return ['rax'], ['rax']
        if op in ('cqto', 'cltd', 'cwtd'):
            return ['rax'], ['rdx']
        if op in ('cpuid',):
            return ['rax'], ['rax', 'rbx', 'rcx', 'rdx']
        if op in ('rdtsc', 'xgetbv', 'rdtscp'):
            return [], ['rax', 'rdx']
        if op == 'syscall':
            return ['rax'], ['rax', 'rcx', 'r11']
        if op == 'vzeroall':
            return [], ['v%d' % i for i in range(16)]
        if op in ('vzeroupper', 'emms', 'fninit'):
            return [], []
        if op[0] == 'f' and op not in ('fxsave', 'fxrstor'):
            for arg in args:
                if not arg.startswith('%st'):
                    reads += self.regs(arg)
            if op in ('fnstsw', 'fstsw') and args and args[0] == '%ax':
                return [], ['rax']
            return [r for r in reads if r[:2] != 'st'], []
        if re.match(r'^(i?mul|i?div)[bwlq]?$', op) and len(args) == 1:
            return self.regs(args[0]) + ['rax'] + (['rdx'] if 'div' in op else []), ['rax', 'rdx']
        if op.startswith('cmpxchg'):
            reads.append('rax')
            writes.append('rax')
            if op.startswith('cmpxchg16') or op.startswith('cmpxchg8'):
                reads += ['rbx', 'rcx', 'rdx']
                writes.append('rdx')
        if ' rep' in insn.comment and re.match(r'(stos|movs|lods|cmps|scas)', op):
            reads.append('rcx')
            writes.append('rcx')
        if op == 'mulx':
            reads += ['rdx'] + self.regs(args[0])
            return reads, self.regs(args[1]) + self.regs(args[2])
        if not args:
            return reads, writes
        if op in ('xor', 'sub', 'sbb') or self.IDIOM.match(op):
            names = [a for a in args if a.startswith('%')]
            if len(names) >= 2 and len(set(names)) == 1:
                return [], self.regs(names[0])
        if re.match(r'^vpternlog', op) and args[0] == '$0xff':
            return [], self.regs(args[-1])
        if re.match(r'^or[wlq]?$', op) and args[0] in ('$0xffffffff', '$0xffffffffffffffff'):
            return self.regs(args[1]) if self.is_memory(args[1]) else [], self.regs(args[1])
        for arg in args[:-2] if self.KEEPS_REST.match(op) and len(args) == 3 else args[:-1]:
            reads += self.regs(arg)
            if op.startswith(('xchg', 'xadd')) and not self.is_memory(arg):
                writes += self.regs(arg)
        last = args[-1]
        mask = re.findall(r'\{%(k\d)\}', last)
        reads += mask
        bare = re.sub(r'\{[^}]*\}', '', last)
        if self.is_memory(bare):
            reads += self.regs(bare)
            return reads, writes
        target = self.regs(bare)
        if self.READ_ONLY.match(op):
            return reads + target, writes
        merging = bool(mask) and '{z}' not in last
        if op[0] == 'v':
            pure = not self.READS_TARGET.match(op) and not merging
        elif re.match(r'^imul', op):
            pure = len(args) == 3
        else:
            pure = bool(self.ONLY_WRITES.match(op)) and not merging
        if not pure:
            reads += target
        return reads, writes + target

    def x87(self, insn, dead, complain):
        """The stack of the x87: positions from the top in `dead' are not of this thread."""
        op, args = insn.op, insn.args
        if op[0] != 'f' or op in ('fxsave', 'fxrstor', 'fnstcw', 'fldcw', 'fnstsw', 'fstcw',
                                  'fwait', 'fnclex', 'femms', 'fnstenv', 'fldenv', 'fxam'):
            return dead
        mine = {int(r[2]) for r in dead if r[:2] == 'st'}
        rest = {r for r in dead if r[:2] != 'st'}
        if op in ('fninit', 'emms'):
            return rest
        named = {int((m.group(1) or '0')) for a in args
                 for m in re.finditer(r'%st(?:\((\d)\))?', a)}
        loads = bool(self.LOADS_X87.match(op)) and not op.startswith('fldcw')
        needs = set(named)
        if not loads:
            needs.add(0)
        if op in ('fyl2x', 'fpatan', 'fprem', 'fscale', 'fcompp', 'fucompp', 'fprem1'):
            needs.add(1)
        if op in ('ffree', 'ffreep'):
            needs = set()
        if op.startswith('fst') and args and args[0].startswith('%st('):
            needs = {0}
            mine -= named
        for position in sorted(needs & mine):
            complain('st(%d)' % position)
        if loads:
            mine = {i + 1 for i in mine if i < 7}
        pops = 2 if op.endswith('pp') else 1 if (
            op.endswith('p') or re.match(r'^f(i?stpl?[lst]*|stp[slt]|istp[slq]*|isttp.*|'
                                         r'comp[sl]|ucomp[i]?|comip|ucomip)$', op)) else 0
        for _ in range(pops):
            mine = {i - 1 for i in mine if i > 0}
        return rest | {'st%d' % i for i in mine}


# ---------------------------------------------------------------- AArch64

class Arm:
    SP = 'sp'
    CALLER_RESULT = ({'x%d' % i for i in range(9)} | {'v%d' % i for i in range(8)})
    ARGUMENTS = ['x%d' % i for i in range(9)] + ['v%d' % i for i in range(8)]
    PRESERVED = {'x%d' % i for i in range(19, 30)} | {'v%d' % i for i in range(8, 16)}
    ALL = ({'x%d' % i for i in range(31)} | {'v%d' % i for i in range(32)}
           | {'p%d' % i for i in range(16)})
    REG = re.compile(r'(?<![#\w.])([xwvqdshbz])([12]?\d|3[01])(?!\w)|'
                     r'(?<![#\w.])(p)(\d\d?)(?!\w)')
    READ_ONLY = re.compile(r'^(st[a-z]*\d?[bhpdw]?|cmp|cmn|tst|ccmp|ccmn|fcmpe?|fccmpe?|'
                           r'cbn?z|tbn?z|b|b\.\w+|br|blr|bl|ret\w*|prfm|prfum|hint|bti|nop|'
                           r'dmb|dsb|isb|msr|svc|brk|ptest|dc|ic|yield|udf|'
                           r'autiasp|paciasp|xpaclri)$')
    READS_TARGET = re.compile(r'^(movk|bfi|bfxil|bfc|fml[as].*|ml[as]|[su]ml[as]l.*|bsl|bit|'
                              r'bif|ins|tbx|sri|sli|[su]ab[al]+.*|[su]sra|.*n2|aes[ed]|sha.*|'
                              r'[su]dot|fcadd|fcmla|fml.*|cas.*)$')

    def regs(self, text):
        found = []
        for match in self.REG.finditer(text):
            kind, number = match.group(1) or match.group(3), int(match.group(2) or match.group(4))
            if kind in 'xw':
                found.append('x%d' % number)
            elif kind == 'p':
                found.append('p%d' % number)
            else:
                found.append('v%d' % number)
        # {v0.16b-v3.16b}
        for match in re.finditer(r'\b([vz])(\d+)\.\w+-[vz](\d+)\.', text):
            found += ['v%d' % i for i in range(int(match.group(2)), int(match.group(3)) + 1)]
        for match in re.finditer(r'\b[vz](\d+)\.', text):
            found.append('v%d' % int(match.group(1)))
        for match in re.finditer(r'\bp(\d+)[./]', text):
            found.append('p%d' % int(match.group(1)))
        return found

    @staticmethod
    def is_memory(arg):
        return arg.startswith('[')

    @staticmethod
    def is_jump(insn):
        return bool(re.match(r'^(b|b\.\w+|bc\.\w+|br|braa\w*|cbn?z|tbn?z)$', insn.op))

    @staticmethod
    def is_plain_jump(insn):
        return insn.op in ('b', 'br', 'braa', 'braaz')

    @staticmethod
    def is_indirect(insn):
        return insn.op in ('br', 'braa', 'braaz')

    @staticmethod
    def is_call(insn):
        return insn.op in ('bl', 'blr', 'blraa', 'blraaz')

    @staticmethod
    def is_return(insn):
        return insn.op in ('ret', 'retaa', 'retab')

    @staticmethod
    def is_end(insn):
        return insn.op in ('brk', 'udf', 'hlt')

    @staticmethod
    def loads_sp(insn):
        return (insn.op == 'mov' and len(insn.args) == 2 and insn.args[0] == 'sp'
                and insn.args[1] not in ('x29',))

    @staticmethod
    def jump_is_near(_load):
        return NEAR

    @staticmethod
    def code_address(insn):
        return insn.target if insn.op in ('adr', 'add', 'ldr') and insn.target else None

    @staticmethod
    def is_landing(insn, jump):
        if insn.op == 'bti':
            kind = insn.args[0] if insn.args else ''
        elif insn.op == 'hint' and insn.args:
            kind = {'#0x24': 'j', '#0x26': 'jc', '#0x22': 'c', '#36': 'j', '#38': 'jc',
                    '#34': 'c'}.get(insn.args[0], '')
        else:
            return False
        return 'j' in kind or kind == 'c' and jump.args[0] in ('x16', 'x17')

    def effect(self, insn):
        op, args = insn.op, insn.args
        reads, writes = [], []
        if op in ('paciasp', 'autiasp', 'pacibsp', 'autibsp'):
            return ['x30'], ['x30']
        if op in ('hint',) or not args:
            return [], []
        if self.is_jump(insn):          # the last operand is a place
            return self.regs(args[0]) if op[0] in 'ct' or self.is_indirect(insn) else [], []
        if op == 'mrs':
            return [], self.regs(args[0])
        for arg in args:        # writeback
            if arg.startswith('[') and arg.endswith('!'):
                writes += [r for r in self.regs(arg)[:1] if r[0] == 'x']
        if len(args) > 1 and args[-2].startswith('[') and op[:2] in ('ld', 'st'):
            writes += [r for r in self.regs(args[-2])[:1] if r[0] == 'x']
        if op.startswith(('ldadd', 'ldset', 'ldclr', 'ldeor', 'swp')) and len(args) == 3:
            return self.regs(args[0]) + self.regs(args[2]), self.regs(args[1])
        if re.match(r'^(stxr|stlxr|stxp|stlxp)', op):
            for arg in args[1:]:
                reads += self.regs(arg)
            return reads, self.regs(args[0])
        if self.READ_ONLY.match(op):
            for arg in args:
                reads += self.regs(arg)
            return reads, writes
        dests = 2 if re.match(r'^(ldn?p|ldpsw|ldxp|ldaxp|casp.*)$', op) else 1
        for arg in args[dests:]:
            reads += self.regs(arg)
        for arg in args[:dests]:
            target = self.regs(arg)
            lane = re.search(r'\]\[?|\.\w\[\d+\]|\}\[\d+\]', arg)
            if (self.READS_TARGET.match(op) or lane
                    or any(re.search(r'p\d+/m', a) for a in args)):
                reads += target
            writes += target
        if op == 'eor' and len(args) == 3 and args[1] == args[2]:
            reads = []
        return reads, writes

    @staticmethod
    def x87(_insn, dead, _complain):
        return dead


# ---------------------------------------------------------------- ELF, for jump tables

class Elf:
    """What jump tables and landing pads are found by. Without a file: nothing."""

    def __init__(self, path):
        self.sections = []
        try:
            with open(path, 'rb') as f:
                self.data = f.read()
        except (OSError, TypeError):
            self.data = b''
        if self.data[:4] != b'\x7fELF':
            return
        shoff, = struct.unpack_from('<Q', self.data, 0x28)
        size, count, names = struct.unpack_from('<HHH', self.data, 0x3a)
        raw = [struct.unpack_from('<IIQQQQIIQQ', self.data, shoff + i * size)
               for i in range(count)]
        strings = raw[names][4]
        for s in raw:
            end = self.data.index(b'\0', strings + s[0])
            self.sections.append((self.data[strings + s[0]:end].decode(), s[1], s[3], s[4], s[5]))

    def read(self, addr, size):
        for _, kind, start, offset, length in self.sections:
            if kind == 1 and start and start <= addr and addr + size <= start + length:
                at = offset + addr - start
                return self.data[at:at + size]
        return None

    def words(self):
        """All words of data, and what the loader adds to."""
        for name, kind, start, offset, length in self.sections:
            if kind == 1 and start and re.match(r'^\.(rodata|data)', name):
                for at in range(-start % 8, length - 7, 8):
                    yield struct.unpack_from('<Q', self.data, offset + at)[0]
            elif kind == 4 and start:
                for at in range(0, length, 24):
                    yield struct.unpack_from('<QQq', self.data, offset + at)[2]


# ---------------------------------------------------------------- exception tables

class Reader:
    def __init__(self, data, base, at):
        self.data, self.base, self.at = data, base, at

    def uleb(self):
        result = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            result |= (byte & 0x7f) << shift
            shift += 7
            if byte < 0x80:
                return result

    def encoded(self, how):
        if how == 0xff:
            return None
        place = self.base + self.at
        formats = {0x00: '<Q', 0x02: '<H', 0x03: '<I', 0x04: '<Q', 0x0a: '<h', 0x0b: '<i',
                   0x0c: '<q'}
        if how & 0xf == 1:
            value = self.uleb()
        else:
            form = formats[how & 0xf]
            value, = struct.unpack_from(form, self.data, self.at)
            self.at += struct.calcsize(form)
        if how & 0x70 == 0x10 and value:
            value += place
        return value


def landing_pads(elf):
    """(start, end of a range of calls, landing pad) of all functions."""
    pads = []
    section = [s for s in elf.sections if s[0] == '.eh_frame']
    table = [s for s in elf.sections if s[0] == '.gcc_except_table']
    if not section or not table:
        return pads
    _, _, base, offset, length = section[0]
    data = elf.data[offset:offset + length]
    at, cies = 0, {}
    while at + 4 <= length:
        size, = struct.unpack_from('<I', data, at)
        if size == 0:
            at += 4
            continue
        start, number = at + 4, struct.unpack_from('<I', data, at + 4)[0]
        r = Reader(data, base, at + 8)
        if number == 0:
            cies[at] = read_cie(r, data)
        else:
            pointer, lsda = cies.get(start - number, (0xff, None))
            if lsda is not None and pointer != 0xff:
                first = r.encoded(pointer)
                r.encoded(pointer & 0xf)
                r.uleb()
                where = r.encoded(lsda)
                if where:
                    pads += read_lsda(elf, table[0], where, first)
        at = start + size
    return pads


def read_cie(r, data):
    version = data[r.at]
    end = data.index(b'\0', r.at + 1)
    letters = data[r.at + 1:end].decode()
    r.at = end + 1
    r.uleb(), r.uleb()
    if version == 1:
        r.at += 1
    else:
        r.uleb()
    pointer, lsda = 0, None
    if letters.startswith('z'):
        r.uleb()
        for letter in letters[1:]:
            if letter in 'LR':
                how = data[r.at]
                r.at += 1
                if letter == 'L':
                    lsda = how
                else:
                    pointer = how
            elif letter == 'P':
                how = data[r.at]
                r.at += 1
                r.encoded(how)
    return pointer, lsda


def read_lsda(elf, table, where, first):
    _, _, base, offset, length = table
    r = Reader(elf.data[offset:offset + length], base, where - base)
    how = r.data[r.at]
    r.at += 1
    pad_base = r.encoded(how) if how != 0xff else first
    how = r.data[r.at]
    r.at += 1
    if how != 0xff:
        r.uleb()
    how = r.data[r.at]
    r.at += 1
    end = r.uleb()
    end += r.at
    pads = []
    while r.at < end:
        start, size, pad = r.encoded(how & 0xf), r.encoded(how & 0xf), r.encoded(how & 0xf)
        r.uleb()
        if pad:
            pads.append((first + start, first + start + size, pad_base + pad))
    return pads


# ---------------------------------------------------------------- the checks

NO_RETURN = re.compile(r'^(abort|__stack_chk_fail|_Unwind_Resume|\w*__cxa_(re)?throw\w*|exit|'
                       r'_exit|__assert_fail|\w*longjmp\w*|'
                       r'__cxa_bad_\w+|_ZSt9terminatev|__clang_call_terminate|__chk_fail|'
                       r'__fortify_fail|_ZSt\d+__throw_\w+|__asan_report_(?!exp)\w+|'
                       r'__ubsan_handle_\w+_abort|__cxa_call_unexpected|'
                       r'__cxa_call_terminate)(@|$)')
EXTERNAL = {'memcpy': 3, 'memset': 3, 'memmove': 3, 'strlen': 1, 'strcat': 2, 'malloc': 1,
            '__memcpy_chk': 4, '__memset_chk': 4, '__strcat_chk': 3, '_setjmp': 1,
            'longjmp': 2, '__longjmp_chk': 2, '__cxa_allocate_exception': 1,
            '__cxa_throw': 3, '__cxa_begin_catch': 1, '_Unwind_Resume': 1, 'printf': 1,
            'corpus_note_format': 1}


SLOW = re.compile(r'^usched__handover')
FAR = re.compile(r'^usched__far')         # part of the statement


class Checker:
    def __init__(self, functions, machine, elf, pads, landing, carried):
        self.functions, self.elf, self.pads = functions, elf, pads
        self.landing, self.carried = landing, set(carried)
        self.isa = Arm() if machine == 'aarch64' else X86()
        self.by_entry = {f.entry: f for f in functions.values()}
        self.errors = []
        self.count = self.checked = 0
        self.arguments, self.returns = {}, {}
        self.words = None
        self.jumps = set()

    def error(self, function, insn, what):
        line = '%s: %x: %s: %s' % (function.name, insn.addr, what, insn.text)
        if line not in self.errors:
            self.errors.append(line)

    # ---- the hand-overs of a function: {address of the load: (resume, jump)}

    def switches(self, function):
        found = {}
        for at, insn in enumerate(function.order):
            if not self.isa.loads_sp(insn):
                continue
            jump = None
            for later in function.order[at + 1:at + self.isa.jump_is_near(insn)]:
                if self.isa.is_indirect(later):
                    jump = later
                    break
                if (self.isa.is_jump(later) and self.isa.is_plain_jump(later)
                        or self.isa.is_call(later) or self.isa.is_return(later)):
                    break
            if jump is None:
                continue
            resume = None
            for earlier in reversed(function.order[max(0, at - NEAR):at]):
                place = self.isa.code_address(earlier)
                if place in function.insns:
                    resume = (place, earlier.addr)
                    break
            found[insn.addr] = (resume, jump)
        return found

    def check(self, function):
        switches = self.switches(function)
        if not switches:
            return
        self.checked += 1
        self.count += len(switches)
        regions, jumps, resumes, starts = set(), set(), set(), {}
        for load, (resume, jump) in switches.items():
            insn = function.insns[load]
            jumps.add(jump.addr)
            if resume is None:
                self.error(function, insn, 'no place of resumption is found')
                continue
            resumes.add(resume[0])
            starts[resume[0]] = self.isa.ALL - self.carried - self.kept(
                function, resume[1], jump.addr)
            regions |= {i.addr for i in function.order if resume[1] <= i.addr <= jump.addr
                        or load <= i.addr <= jump.addr}
            if self.landing and not self.isa.is_landing(function.insns[resume[0]], jump):
                self.error(function, function.insns[resume[0]], 'landing: no landing pad')
        self.jumps = jumps
        edges = self.edges(function, jumps)
        if isinstance(self.isa, X86):
            Depth(self, function, edges, regions, resumes).check()
        else:
            self.below_arm(function, regions)
        self.live(function, edges, starts)

    def kept(self, function, first, jump):
        """Registers that a statement stores, and loads from the same place of a record."""
        saved, restored = set(), set()
        for insn in function.order:
            if not first <= insn.addr < jump or not insn.args:
                continue
            reads, writes = self.isa.effect(insn)
            if insn.op.startswith('push'):
                saved |= {(reg, 'stack') for reg in reads}
            elif insn.op.startswith('pop'):
                restored |= {(reg, 'stack') for reg in writes}
            else:
                memory = [a for a in insn.args if self.isa.is_memory(a)]
                place = re.sub(r'%?[a-z]+\d*', '', re.sub('0x', '#', memory[0])) if memory else ''
                if memory and not writes:
                    saved |= {(reg, place) for reg in reads}
                elif memory:
                    restored |= {(reg, place) for reg in writes}
        return {reg for reg, _ in saved & restored} & self.isa.PRESERVED

    # ---- control flow

    def edges(self, function, jumps, quiet=False):
        """{address: [addresses]}; `jumps' leave."""
        edges = {}
        indirect = None
        for insn in function.order:
            out = []
            if insn.addr in jumps or self.isa.is_return(insn) or self.isa.is_end(insn):
                pass
            elif self.isa.is_indirect(insn):
                if indirect is None:
                    indirect = self.indirect_targets(function)
                out = list(indirect)
            elif self.isa.is_jump(insn):
                if insn.target in function.insns:
                    out.append(insn.target)
                elif not quiet and SLOW.search(insn.symbol or ''):
                    self.error(function, insn, 'tail: the slow way is not called')
                if not self.isa.is_plain_jump(insn) and insn.next:
                    out.append(insn.next)
            elif self.isa.is_call(insn):
                if insn.next and not self.never_returns(insn):
                    out.append(insn.next)
                pad = self.pad_of(insn)
                if pad in function.insns:
                    out.append(pad)
            elif insn.next:
                out.append(insn.next)
            edges[insn.addr] = out
        return edges

    def pad_of(self, insn):
        for start, end, pad in self.pads:
            if start <= insn.addr < end:
                return pad
        return None

    def indirect_targets(self, function):
        """Where jump tables and computed gotos of a function may lead."""
        if self.words is None:
            self.words = set(self.elf.words())
        targets = {a for a in function.insns if a in self.words and a != function.entry}
        for insn in function.order:
            place = self.isa.code_address(insn)
            if place is None:
                match = re.search(r'\$?(0x[0-9a-f]+)[,(]', ' '.join(insn.args))
                place = int(match.group(1), 16) if match else None
            if place in function.insns:
                targets.add(place)
            elif place and place not in self.by_entry:
                targets |= self.table(function, place)
        return targets - {function.entry}

    def table(self, function, base):
        """Entries of four bytes, relative to the table."""
        targets, at = set(), base
        while True:
            entry = self.elf.read(at, 4)
            if entry is None:
                return targets
            place = base + struct.unpack('<i', entry)[0]
            if place not in function.insns:
                return targets
            targets.add(place)
            at += 4

    def never_returns(self, insn):
        if insn.symbol is None or self.isa.is_indirect(insn):
            return False
        if NO_RETURN.match(insn.symbol):
            return True
        callee = self.by_entry.get(insn.target)
        if callee is None:
            return False
        if callee.name not in self.returns:
            self.returns[callee.name] = True        # for recursion
            self.returns[callee.name] = self.can_return(callee)
        return not self.returns[callee.name]

    def can_return(self, function):
        edges = self.edges(function, set(), quiet=True)
        seen, todo = set(), [function.entry]
        while todo:
            addr = todo.pop()
            insn = function.insns.get(addr)
            if addr in seen or insn is None:
                continue
            seen.add(addr)
            if self.isa.is_return(insn):
                return True
            if self.isa.is_jump(insn) and (not edges[addr] or insn.target is not None
                                           and insn.target not in function.insns):
                return True             # a tail call, which may return
            todo += edges[addr]
        return False

    # ---- registers that are another thread's

    def live(self, function, edges, start):
        states = {addr: set(dead) for addr, dead in start.items()}
        todo = list(states)
        while todo:
            addr = todo.pop()
            insn = function.insns[addr]
            after = self.step(function, insn, set(states[addr]), not edges[addr] and
                              addr not in self.jumps or self.goes_out(function, insn))
            for follower in edges[addr]:
                into = after | start.get(follower, set())
                if follower not in states:
                    states[follower] = set(into)
                    todo.append(follower)
                elif not into <= states[follower]:
                    states[follower] |= into
                    todo.append(follower)

    def goes_out(self, function, insn):
        return (self.isa.is_jump(insn) and insn.target is not None
                and insn.target not in function.insns)

    def step(self, function, insn, dead, out):
        def bad(reg):
            self.error(function, insn, 'live: %s is not of this thread' % reg)

        isa = self.isa
        if isa.is_call(insn):
            if insn.symbol is None or insn.args[0].startswith('*'):
                self.reads(isa.regs(insn.args[0]), dead, bad)
            self.reads(self.callee_reads(insn), dead, bad)
            return dead - isa.CALLER_RESULT - {'x30'}
        if isa.is_jump(insn) and out and not FAR.match(insn.symbol or ''):  # another function returns for this one
            self.reads(isa.PRESERVED, dead, bad)
            self.reads(self.callee_reads(insn), dead, bad)
        if isa.is_return(insn):
            self.reads(isa.PRESERVED, dead, bad)
            if isinstance(isa, Arm) and 'x30' in dead:
                bad('x30')
            return dead
        reads, writes = isa.effect(insn)
        self.reads(reads, dead, bad)
        dead = isa.x87(insn, dead, bad)
        return dead - set(writes)

    @staticmethod
    def reads(regs, dead, bad):
        for reg in sorted(set(regs)):
            if reg in dead:
                bad(reg)

    def callee_reads(self, insn):
        """The arguments that a called function looks at, as far as can be seen."""
        if insn.symbol is None:
            return []
        name = insn.symbol.split('@')[0]
        if name in EXTERNAL:
            return self.isa.ARGUMENTS[:EXTERNAL[name]]
        callee = self.by_entry.get(insn.target)
        if callee is None or name.startswith('usched__'):
            return []
        if callee.name not in self.arguments:
            self.arguments[callee.name] = []        # for recursion
            self.arguments[callee.name] = self.entry_reads(callee)
        return self.arguments[callee.name]

    def entry_reads(self, function):
        """Arguments that are read before they are written."""
        if function.entry not in function.insns:
            return []
        found = set()
        arguments = set(self.isa.ARGUMENTS)
        jumps = {jump.addr for _, jump in self.switches(function).values()}
        edges = self.edges(function, jumps, quiet=True)
        states, todo = {function.entry: arguments}, [function.entry]
        while todo:
            addr = todo.pop()
            insn = function.insns.get(addr)
            if insn is None:
                continue
            dead = states[addr]
            if self.isa.is_call(insn):
                found |= set(self.callee_reads(insn)) & dead
                after = set()
            else:
                reads, writes = self.isa.effect(insn)
                if not self.stores_all(insn):
                    found |= set(reads) & dead
                after = dead - set(writes)
            for follower in edges[addr]:
                if follower not in states or not after <= states[follower]:
                    states[follower] = states.get(follower, set()) | after
                    todo.append(follower)
        return sorted(found)

    def stores_all(self, insn):
        """
        Functions with variable arguments store all registers, used or not; and a push
        may be there for the alignment of SP.
        """
        return insn.op == 'push' or bool(re.match(r'^(v?mova?[pdu][sqadu]*|str|stp|movq?)$', insn.op)
                    and self.isa.is_memory(insn.args[-1])
                    and re.search(r'\b[rs]?sp\b|rbp|x29', insn.args[-1]))

    # ---- below SP on AArch64

    def below_arm(self, function, regions):
        for insn in function.order:
            if insn.addr in regions:
                continue
            for arg in insn.args:
                if re.match(r'^\[sp, #-\w+\]$', arg):
                    self.error(function, insn, 'below: below SP')
            if insn.op == 'sub' and len(insn.args) >= 3 and insn.args[1] == 'sp' and \
                    insn.args[0] != 'sp' and insn.args[2].startswith('#'):
                if not self.becomes_sp(function, insn):
                    self.error(function, insn, 'below: an address below SP')

    def becomes_sp(self, function, insn):
        """sub x9, sp, #N; ...; mov sp, x9, or compared with SP; or add x9, x9, #more."""
        at = function.order.index(insn)
        reg = insn.args[0]
        for later in function.order[at + 1:at + NEAR]:
            if later.op in ('mov', 'cmp', 'and') and 'sp' in later.args and reg in later.args:
                return True
            if later.op == 'add' and later.args[:2] == [reg, reg] and (
                    later.args[2].startswith('#')
                    and int(later.args[2][1:], 0) >= int(insn.args[2][1:], 0)):
                return True
        return False


class Depth:
    """
    Follows SP, and registers that hold addresses of the frame, through a function of
    x86-64. An address is (base, offset). `bound' says for a base how far below it SP is
    known to be: SP <= base + bound[base]. What is accessed must not be below.
    """

    def __init__(self, checker, function, edges, regions, resumes):
        self.checker, self.function, self.edges = checker, function, edges
        self.regions, self.resumes = regions, resumes

    def check(self):
        start = ({'rsp': ('entry', 0)}, {'entry': 0}, {})
        states = {self.function.entry: start}
        todo, rounds = [self.function.entry], 0
        while todo and rounds < 40 * len(self.function.order):
            rounds += 1
            addr = todo.pop()
            if addr not in self.function.insns:
                continue
            insn = self.function.insns[addr]
            after = self.step(insn, states[addr])
            followers = list(self.edges[addr])
            for resume in self.resumes_of(insn):
                followers.append(resume)
            for follower in followers:
                old = states.get(follower)
                new = after if old is None else self.join(old, after, follower)
                if new != old:
                    states[follower] = new
                    todo.append(follower)
        lowest = {}
        for _, bounds, _ in states.values():
            for base, bound in bounds.items():
                lowest[base] = min(bound, lowest.get(base, bound))
        for addr, state in states.items():
            if addr in self.function.insns and addr not in self.regions:
                self.look(self.function.insns[addr], state, lowest)

    def resumes_of(self, insn):
        """A place of resumption finds the frame as it was where its address was taken."""
        place = self.checker.isa.code_address(insn)
        return [place] if place in self.resumes else []

    @staticmethod
    def join(old, new, at):
        regs = {r: v for r, v in old[0].items() if new[0].get(r) == v}
        if 'rsp' not in regs:
            regs['rsp'] = (('join', at), 0)
        bounds = {b: max(v, new[1][b]) for b, v in old[1].items() if b in new[1]}
        bounds.setdefault(regs['rsp'][0], regs['rsp'][1])
        slots = {k: v for k, v in old[2].items() if new[2].get(k) == v}
        return regs, bounds, slots

    @staticmethod
    def memory(arg):
        """(offset, base, has an index) of an operand in memory."""
        match = re.match(r'^(?:%\w+:)?(-?0x[0-9a-f]+|-?\d+)?\((%\w+)?(?:,(%\w+),?\d?)?\)', arg)
        if not match or match.group(2) is None:
            return None
        offset = int(match.group(1), 16) if match.group(1) else 0
        return offset, match.group(2)[1:], match.group(3) is not None

    @staticmethod
    def number(arg):
        value = int(arg[1:], 16)
        return value - (1 << 64) if value >= 1 << 63 else value

    def step(self, insn, state):
        regs, bounds, slots = dict(state[0]), dict(state[1]), dict(state[2])
        op, args = insn.op.rstrip('q') if insn.op not in ('subq',) else 'sub', insn.args
        isa = self.checker.isa

        def move(delta):
            base, offset = regs['rsp']
            regs['rsp'] = (base, offset + delta)
            for b in bounds:
                bounds[b] += delta

        def set_sp(value):
            if value is None:
                value = (('at', insn.addr), 0)
            base, offset = value
            for b in list(bounds):
                if b != base:
                    del bounds[b]
            bounds[base] = offset
            regs['rsp'] = value

        if insn.addr in self.regions and isa.loads_sp(insn):
            return regs, bounds, slots
        if op.startswith('push'):
            move(-8)
            if args and args[0] in ('%rbp', '%rbx') and args[0][1:] in regs:
                slots[regs['rsp']] = regs[args[0][1:]]
        elif op in ('pop', 'popf'):
            value = slots.get(regs['rsp'])
            move(8)
            if args:
                self.assign(regs, args[0], value)
        elif op == 'leave':
            set_sp(regs.get('rbp'))
            value = slots.get(regs['rsp'])
            move(8)
            self.assign(regs, '%rbp', value)
        elif op in ('sub', 'add') and args[-1] == '%rsp':
            if args[0].startswith('$'):
                delta = self.number(args[0])
                move(-delta if op == 'sub' else delta)
            elif op == 'sub':           # alloca
                regs['rsp'] = (('at', insn.addr), 0)
                bounds[('at', insn.addr)] = 0
            else:
                set_sp(None)
        elif op == 'and' and args[-1] == '%rsp':
            regs['rsp'] = (('at', insn.addr), 0)
            bounds[('at', insn.addr)] = 0
        elif op == 'lea' and len(args) == 2:
            place = self.memory(args[0])
            value = None
            if place and not place[2] and place[1] in regs:
                base, offset = regs[place[1]]
                value = (base, offset + place[0])
            if args[1] == '%rsp':
                if place and place[1] == 'rsp' and not place[2]:
                    move(place[0])
                else:
                    set_sp(value)
            else:
                self.assign(regs, args[1], value)
        elif op in ('mov', 'movabs') and len(args) == 2 and args[1].startswith('%'):
            if args[0].startswith('%'):
                value = regs.get(args[0][1:])
            else:
                place = self.memory(args[0])
                value = None
                if place and not place[2] and place[1] in regs:
                    base, offset = regs[place[1]]
                    value = slots.get((base, offset + place[0]))
            if args[1] == '%rsp':
                if value is None and args[0].startswith('%'):
                    # A new address that was computed from SP: alloca, or its end.
                    set_sp(None)
                else:
                    set_sp(value)
            else:
                self.assign(regs, args[1], value)
        elif op == 'mov' and len(args) == 2 and isa.is_memory(args[1]):
            place = self.memory(args[1])
            if place and not place[2] and place[1] in regs:
                base, offset = regs[place[1]]
                key = (base, offset + place[0])
                slots.pop(key, None)
                if args[0].startswith('%') and args[0][1:] in regs:
                    slots[key] = regs[args[0][1:]]
        elif isa.is_call(insn):
            for reg in list(regs):
                if reg not in isa.PRESERVED and reg != 'rsp':
                    del regs[reg]
        elif not isa.is_jump(insn) and not isa.is_return(insn):
            if any('%rsp' == a for a in args[-1:]) and op not in ('cmp', 'test'):
                set_sp(None)
            else:
                for reg in isa.effect(insn)[1]:
                    if reg != 'rsp':
                        regs.pop(reg, None)
        return regs, bounds, slots

    def assign(self, regs, arg, value):
        reg = self.checker.isa.NAMES.get(arg[1:])
        if reg is None or reg == 'rsp':
            return
        if value is None or arg[1:] != reg:
            regs.pop(reg, None)
        else:
            regs[reg] = value

    def look(self, insn, state, lowest):
        regs, bounds, _ = state
        for arg in insn.args:
            place = self.memory(arg)
            if place is None or insn.op.startswith('nop'):
                continue
            offset, base, indexed = place
            if base not in regs:
                continue
            known, at = regs[base]
            at += offset
            if known not in bounds or at >= bounds[known]:
                continue
            if insn.op.startswith('lea'):
                # It may be computed before SP is moved there.
                if (at < lowest[known] and not indexed and insn.args[-1] != '%rsp'
                        and not self.is_limit(insn)):
                    self.checker.error(self.function, insn, 'below: an address below SP')
            elif not indexed or (at < lowest[known] - SMALL_INDEX
                                 and not self.is_copy(insn, arg)):
                self.checker.error(self.function, insn, 'below: below SP')

    @staticmethod
    def is_copy(insn, arg):
        """The last bytes of an array: vmovdqu -0x20(%rsp,%rsi,1), %ymm9."""
        return bool(re.match(r'^v?mov(dq|[au]p)', insn.op) and arg.endswith(',1)'))

    def is_limit(self, insn):
        """lea -N(%rsp), %r11; ...; cmp %r11, %rsp: the end of a loop of probes."""
        order = self.function.order
        at = order.index(insn)
        reg = insn.args[-1]
        for later in order[at + 1:at + 8]:
            if later.op in ('cmp', 'mov', 'and') and reg in later.args and (
                    '%rsp' in later.args or later.op == 'and'):
                return True
        return False


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument('program')
    parser.add_argument('--objdump', default='objdump')
    parser.add_argument('--landing', action='store_true')
    parser.add_argument('--carried', default='')
    parser.add_argument('--at-least', type=int, default=0)
    parser.add_argument('--quiet', action='store_true')
    args = parser.parse_args()
    out = subprocess.run([args.objdump, '-d', '--no-show-raw-insn', '-w', args.program],
                         stdout=subprocess.PIPE, check=True, text=True).stdout
    functions, machine, parts = parse(out.split('\n'))
    elf = Elf(args.program)
    pads = landing_pads(elf)
    attach(functions, parts, pads)
    carried = [r for r in args.carried.split(',') if r]
    checker = Checker(functions, machine, elf, pads, args.landing, carried)
    for name, function in functions.items():
        if not name.startswith('usched__'):
            checker.check(function)
    for line in checker.errors:
        print(line)
    if checker.count < args.at_least:
        print('%d hand-overs are found, not %d' % (checker.count, args.at_least))
    if not args.quiet:
        print('%d hand-overs in %d functions, %d errors' % (checker.count, checker.checked,
                                                            len(checker.errors)))
    return 1 if checker.errors or checker.count < args.at_least else 0


if __name__ == '__main__':
    sys.exit(main())
