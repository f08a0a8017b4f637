package ofi

/*
#include <signal.h>
#include <stddef.h>
#include "mappings.h"

// libinfinipath, which libfabric brings along, puts handlers on these signals when
// it is loaded, and then waits some 200 ms for a device: a SIGTERM during that time
// ended the process with 1, and a crash was reported by it and not by the Go
// runtime. The signals are held back while libraries are set up; then they are what
// the process was given, and the Go runtime takes over.
static const int taken[] = {SIGINT, SIGTERM, SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
static struct sigaction given[sizeof taken / sizeof *taken];
static sigset_t mask;
static int held;

static void hold_signals(void)
{
	sigset_t ends;

	sigemptyset(&ends);
	sigaddset(&ends, SIGINT);
	sigaddset(&ends, SIGTERM);
	for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
		if (sigaction(taken[i], NULL, &given[i]) != 0)
			return;
	held = sigprocmask(SIG_BLOCK, &ends, &mask) == 0;
}

// Before the constructors of all libraries.
__attribute__((section(".preinit_array"), used)) static void (*const hold)(void) = hold_signals;

// After them.
__attribute__((constructor)) static void give_signals_back(void)
{
	if (held) {
		held = 0;
		for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
			sigaction(taken[i], &given[i], NULL);
		sigprocmask(SIG_SETMASK, &mask, NULL);
	}
	ofi_guard_mappings();
}
*/
import "C"
