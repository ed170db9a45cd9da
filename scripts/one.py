#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""one.py DIRECTORY VERSION FILE...: make one. Writes the library as one file of C and one
header, usched-all.c and usched-all.h, to the directory. The files are usched-all.h, which
includes the public headers, uco.hh, and the modules, in any order. What lies in debug/ and
tls/ is compiled with -DUSCHED_DEBUG and -DUSCHED_TLS only.

The text of each file is kept. Only these things change:

  - A header is at the place where it is first included; its other includes go.
  - System headers that a file includes in any case come first, since C++ must not see them
    in its extern "C".
  - Macros that ask for features of the system are at the top, once.
  - The switch, arch/*.S, becomes statements __asm__, each machine's under the #if with
    which its file begins; setjmp.c is for the others. Constants become text. Notes to the
    linker and .fpu go: the compiler writes its own.
"""
import glob
import os
import re
import sys

C_HEAD = """\
/* SPDX-License-Identifier: MIT */
/*
 * usched-all.c: usched {version}, the whole library in one file, made by `make one' from
 * the files that its parts name. With it in DIR, and usched-all.h beside it:
 *
 *	cc -O2 server.c DIR/usched-all.c -IDIR -pthread
 *
 * These macros are for this file and for those that include usched-all.h:
 *
 *	USCHED_DEBUG    with reports of what threads do, traces, overflows, stalls
 *	USCHED_TLS      with TLS over OpenSSL 3; needs -lssl -lcrypto
 *
 * Not here, since they are libraries or tools of their own: POSIX threads (posix/), the
 * simulation (sim/), and ulocks.so (debug/ulocks.c). Machines whose switch is not in
 * assembly need -lm. Options that differ from the default: no -masm=intel; and where
 * shadow stacks are on, -fcf-protection=branch.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

/*
 * The library's own waits have the statement of uswitch.h. So calls that may have it are
 * static here, and have other names. The last lines define them for other files.
 */
#define USCHED_INLINE_SWITCH
{renames}
#ifdef __cplusplus
#define USCHED_INLINE __attribute__((used)) inline      /* defined for other files */
#endif

#include "usched-all.h"

#ifdef __cplusplus
#define _Static_assert static_assert
#define _Noreturn __attribute__((noreturn))
#define _Alignas alignas
#define _Bool bool
/* For C's rules: compound literals, members that are zeros, enumerators as numbers. */
#pragma GCC diagnostic ignored "-Wpedantic"
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#pragma GCC diagnostic ignored "-Wextra"
#ifdef __clang__
#pragma GCC diagnostic ignored "-Wc99-designator"
#endif
#endif

/* What private headers have for other modules, or for other builds. */
#pragma GCC diagnostic ignored "-Wunused-function"
"""

EMITTED = """
#undef {0}
int {0}({1});
int {0}({1})
{{
	return {0}_inlined({2});
}}
"""

H_HEAD = """\
/* SPDX-License-Identifier: MIT */
/*
 * usched-all.h: usched {version}, written out by `make one' for usched-all.c. With
 * USCHED_DEBUG also the headers of debug/, with USCHED_TLS that of tls/. The header of
 * C++, uco.hh, is beside it.
 */
"""

SPDX = '/* SPDX-License-Identifier: MIT */\n'
GUARDS = {'debug': 'USCHED_DEBUG', 'tls': 'USCHED_TLS'}
FEATURES = re.compile(r'#ifndef (_[A-Z]+_SOURCE)\n#define \1\b[^\n]*\n#endif\n')
INCLUDE = re.compile(r'#include ([<"])([^>"]*)[>"]')


def read(path):
    with open(path, encoding='utf-8') as f:
        return f.read().replace(SPDX, '', 1)


def macro_of(path):
    """The macro that a file is compiled with, or None."""
    return GUARDS.get(path.split('/')[0]) if not path.startswith('debug/watch/') else None


class Text:
    """Files behind each other, each header once. `done' are those that came before."""

    def __init__(self, done):
        self.done = set(done)
        self.system = {}            # macro: includes of system headers, if hoisted
        self.hoists = True
        self.parts = []

    def add(self, path):
        macro = macro_of(path)
        text = '\n'.join(self.lines(path, macro))
        self.parts.append(f'\n/* ==== {path} ==== */\n\n' + (
            f'#ifdef {macro}\n{text}\n#endif /* {macro} */\n' if macro else text + '\n'))

    def lines(self, path, macro, nested=0):
        self.done.add(path)
        text = FEATURES.sub('', read(path)).strip('\n')
        guarded = re.search(r'^#ifndef (\w+_H)\n#(define \1$|include)', text, re.M) is not None
        depth = 0
        lines = []
        for line in text.split('\n'):
            if re.match(r'# *if', line):
                depth += 1
            elif re.match(r'# *endif', line):
                depth -= 1
            found = INCLUDE.match(line)
            if not found:
                lines.append(line)
                continue
            always = not nested and depth <= guarded
            if found[1] == '<':
                if self.hoists and always:
                    self.system.setdefault(macro, set()).add(line.split('>')[0] + '>')
                else:
                    lines.append(line)
                continue
            name = os.path.normpath(os.path.join(os.path.dirname(path), found[2]))
            if name in self.done:
                continue
            lines += [f'/* ==== {name} ==== */']
            lines += self.lines(name, macro, 0 if always else 1)
            lines += [f'/* ==== {path} ==== */']
            if not always:
                self.done.discard(name)
        return re.sub(r'\n{3,}', '\n\n', '\n'.join(lines)).split('\n')

    def includes(self):
        for macro in sorted(self.system, key=str):
            lines = '\n'.join(sorted(self.system[macro])) + '\n'
            yield f'\n#ifdef {macro}\n{lines}#endif\n' if macro else f'\n{lines}'


class Assembly:
    """A file of arch/ as statements __asm__."""

    def __init__(self, path, machine):
        self.machine = machine      # macros that are defined there, for offsets.h
        self.constants = {}
        self.macros = []
        self.sections = '.text'
        self.chunks = []
        text = read(path)
        self.unless, text = re.search(r'\n#(if[^\n]*)\n#error [^\n]*\n#endif\n(.*)', text,
                                      re.S).groups()
        self.comment = read(path).split('*/')[0] + '*/\n'
        self.convert(text.split('\t.section .note.GNU-stack')[0])

    def condition(self):
        """The machine is this one: C's words for the opposite of its #error."""
        unless = re.sub(r'ifndef (\w+)', r'if !defined(\1)', self.unless)
        return f'!({unless.removeprefix("if ")})'

    def holds(self, line):
        words = re.sub(r'#(ifdef|ifndef) (\w+)', lambda m: (
            'not ' if m[1] == 'ifndef' else '') + f'defined({m[2]})', line)
        words = re.sub(r'#(el)?if ', '', words).replace('||', ' or ').replace('&&', ' and ')
        return eval(re.sub(r'defined\((\w+)\)',                     # of our own files
                           lambda m: str(m[1] in self.machine), words).replace('!', ' not '))

    def own_header(self, name):
        """Its lines that are not directives, and its constants."""
        taken = [True]
        lines = []
        for line in re.sub(r'/\*.*?\*/\n?', '', read('arch/' + name), flags=re.S).split('\n'):
            define = re.match(r'#define\s+(\w+)(?!\() *(.*)', line)
            if re.match('#if', line):
                self.machine.discard('USCHED_' + name.split('.')[0].upper() + '_H')
                taken += [taken[-1] and self.holds(line), ]
                if not taken[-2]:
                    taken[-1] = None                # no branch of it
            elif re.match('#el', line):
                was = taken.pop()
                again = was is False and taken[-1] and (
                    line.startswith('#else') or self.holds(line))
                taken.append(None if was or was is None else bool(again))
            elif line.startswith('#endif'):
                taken.pop()
            elif all(taken) and define:
                self.constants.setdefault(define[1], define[2])
                self.machine.add(define[1])
            elif all(taken):
                lines.append(line)
        return lines

    def constant_text(self, line):
        line = re.sub(r'\bL\((\w+)\)', r'.L\1', line)             # of macros.h, for ELF
        while True:
            new = re.sub(r'(?<![\w.])[A-Z]\w+\b',
                         lambda m: self.constants.get(m[0], m[0]), line)
            if new == line:
                return line
            line = new

    def convert(self, text):
        lines = []
        for line in re.sub(r' *\\\n\s*', ' ', text).split('\n'):
            define = re.match(r'#define\s+(\w+)\s+(.*?)\s*(/\*.*)?$', line)
            include = re.match(r'#include "(.*)"', line)
            if define:
                self.constants[define[1]] = define[2]
                self.machine.add(define[1])
            elif include:
                lines += self.own_header(include[1])
            else:
                lines.append(line)
        chunk = []
        inside = False                  # a function or a macro
        for line in lines:
            word = line.split()[0] if line.split() else ''
            if not word and not inside:
                self.flush(chunk)
                chunk = []
                continue
            if word in ('function', '.macro'):
                inside = True
            elif word in ('end', '.endm'):
                inside = False
            if word == '.macro':
                self.macros.append(line.split()[1])
            chunk.append(line)
        self.flush(chunk)
        self.flush(['\t.purgem\t' + name for name in self.macros])

    def flush(self, lines):
        """A statement of these lines. Comments before it stay so."""
        comment = []
        while lines and re.match(r'/\*| \*', lines[0]):
            comment.append(lines.pop(0))
        out = []
        length = 0
        section = self.sections
        for line in lines:
            word = re.match(r'\t(?:\.section )?(\.text|\.rodata)$', line)
            if word:
                section = word[1]
                continue
            if not line or line.startswith('#'):
                out.append(line)
                continue
            code, remark = re.match(r'(.*?)\s*(/\*.*\*/)?$', line).groups()
            if not code:
                out.append(f'\t{remark}')
                continue
            code = self.constant_text(code)
            if not code.strip() or code.startswith('\t.fpu'):
                continue
            code = code.replace('\\', '\\\\').replace('"', '\\"')
            length += len(code) + 1
            out.append(f'\t"{code}\\n"' + (f'  {remark}' if remark else ''))
        self.sections = section
        if comment:
            self.chunks.append('\n'.join(comment) + '\n')
        if not length:
            return
        assert length < 4000, 'the longest string of C has 4095 bytes'
        self.chunks.append('__asm__(\n' + f'\t".pushsection {section}\\n"\n'
                           + '\n'.join(out) + '\n\t".popsection\\n");\n')


def switches():
    """The switch of each machine, and the portable one for others."""
    word = 'if'
    for path in sorted(glob.glob('arch/*.S')):
        name = os.path.basename(path)[:-2]
        known = {'i386': {'__i386__'}, 'arm': {'__arm__'}}.get(name, {'__LP64__'})
        machine = Assembly(path, known)
        yield f'\n/* ==== {path} ==== */\n\n#{word} {machine.condition()}\n'
        yield machine.comment
        yield from ('\n' + chunk for chunk in machine.chunks)
        word = 'elif'


def switching(text):
    """The calls of headers that may have the statement: name, parameters, arguments."""
    for name, parameters in re.findall(r'^USCHED_SWITCHES int (\w+)\((.*)\)$', text, re.M):
        words = [re.search(r'\w+$', word)[0] for word in parameters.split(',')]
        yield name, parameters, ', '.join(word for word in words if word != 'void')


def ordered(names):
    """Those that are always there first, and parts of headers after headers."""
    return sorted(names, key=lambda name: (macro_of(name) or '', '/' in name, name))


def main():
    directory, version, *names = sys.argv[1:]
    os.makedirs(directory, exist_ok=True)
    header = Text([])
    header.hoists = False
    for _, name in INCLUDE.findall(read('usched-all.h')):
        if name not in header.done:
            header.add(name)
    with open(f'{directory}/uco.hh', 'w', encoding='utf-8') as f:
        f.write(SPDX + read('uco.hh').replace('"uco.h"', '"usched-all.h"'))
    with open(f'{directory}/usched-all.h', 'w', encoding='utf-8') as f:
        f.write(H_HEAD.format(version=version) + ''.join(header.parts))

    calls = list(switching(''.join(header.parts)))
    source = Text(header.done)
    for name in ordered(name for name in names if name.endswith('.c')):
        source.add(name)
    portable = Text(source.done)
    portable.add('arch/setjmp.c')
    for macro, includes in portable.system.items():
        source.system.setdefault(macro, set()).update(includes)
    with open(f'{directory}/usched-all.c', 'w', encoding='utf-8') as f:
        renames = '\n'.join(f'#define {call[0]} {call[0]}_inlined' for call in calls)
        f.write(C_HEAD.format(version=version, renames=renames) + ''.join(source.includes()))
        f.write('\n#ifdef __cplusplus\nextern "C" {\n#endif\n')
        f.writelines(source.parts)
        f.writelines(switches())
        f.write('\n#else\n' + ''.join(portable.parts) + '\n#endif\n')
        f.writelines(EMITTED.format(*call) for call in calls)
        f.write('\n#ifdef __cplusplus\n}\n#endif\n')


main()
