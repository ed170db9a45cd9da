/* SPDX-License-Identifier: MIT */
/* Shared by the programs: arguments, clock, memory, and errors. */
#ifndef PEER_H
#define PEER_H

#include <cerrno>
#include <chrono>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <unistd.h>

namespace peer {

[[noreturn]] inline void usage(const char *names)
{
	std::fprintf(stderr, "usage: %s %s\n", program_invocation_short_name, names);
	std::exit(2);
}

[[noreturn]] inline void fail(const char *what)
{
	std::fprintf(stderr, "%s: %s\n", program_invocation_short_name, what);
	std::_Exit(1);
}

/* The arguments, one for each word of names, each at least 1. */
template <int count>
void arguments(int argc, char **argv, const char *names, std::size_t (&number)[count])
{
	if (argc != 1 + count)
		usage(names);
	for (int i = 0; i < count; i++) {
		const char *text = argv[1 + i];
		char *end;

		errno = 0;
		number[i] = std::strtoull(text, &end, 10);
		if (*text < '0' || *text > '9' || *end || errno || number[i] < 1)
			usage(names);
	}
}

/* Ends the program if a * b * bytes exceed the memory: the system would kill it. */
inline void check_memory(std::size_t a, std::size_t b, std::size_t bytes)
{
	std::FILE *file = std::fopen("/proc/meminfo", "r");
	std::size_t all, have = SIZE_MAX, kib;
	char line[128];

	while (file && std::fgets(line, sizeof line, file))
		if (std::sscanf(line, "MemAvailable: %zu kB", &kib) == 1)
			have = kib * 1024;
	if (file)
		std::fclose(file);
	if (__builtin_mul_overflow(a, b, &all) || __builtin_mul_overflow(all, bytes, &all)
	    || all > have)
		fail("not enough memory");
}

/* The resident memory of the process, in bytes. */
inline std::size_t resident()
{
	std::FILE *file = std::fopen("/proc/self/statm", "r");
	std::size_t pages;

	if (!file || std::fscanf(file, "%*u %zu", &pages) != 1)
		fail("no /proc/self/statm");
	std::fclose(file);
	return pages * sysconf(_SC_PAGESIZE);
}

class stopwatch {
	std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();

public:
	double seconds() const
	{
		std::chrono::duration<double> passed =
			std::chrono::steady_clock::now() - start;

		return passed.count();
	}
};

/* Prints the seconds and the answer, if the answer is right. */
inline void print_answer(double seconds, std::uint64_t answer, unsigned __int128 right)
{
	if (answer != right)
		fail("the answer is wrong");
	std::printf("%f\n%" PRIu64 "\n", seconds, answer);
}

inline void print_growth(std::size_t before, std::size_t threads)
{
	std::size_t now = resident();

	std::printf("%zu\n", now > before ? (now - before) / threads : 0);
}

/* Runs work. Ends the program if it throws. */
template <typename Work>
int run(Work work)
{
	try {
		work();
	} catch (const std::bad_alloc &) {
		fail("not enough memory");
	} catch (const std::exception &e) {
		fail(e.what());
	}
	return 0;
}

}

#endif
