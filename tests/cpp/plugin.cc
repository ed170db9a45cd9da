/* SPDX-License-Identifier: MIT */
/* plugin.cc: for late.c to load: throws, and handles, in the thread that calls it. */
#include <exception>

extern "C" int plugin_work(int own, void (*block)(void));

extern "C" int plugin_work(int own, void (*block)(void))
{
	int wrong = 0;

	try {
		block();
		throw own;
	} catch (int outer) {
		block();
		try {
			throw own + 100;
		} catch (int inner) {
			block();
			wrong += inner != own + 100;
		}
		block();
		try {
			throw;
		} catch (int again) {
			wrong += again != own || outer != own;
		}
	}
	return wrong + std::uncaught_exceptions() + (std::current_exception() != nullptr);
}
