// A provider copies from and to the memory of flows, which belongs to whoever owns
// the MXL root: a file that was truncated, or that a full tmpfs cannot back, raises
// SIGBUS in the middle of the library. The Go runtime turns faults in Go code into
// panics, but not those in C: it would end the process. A page that is gone is
// replaced by one of zeroes, the call goes on, and the thread learns at its next poll
// that what it holds is no longer the file.
//
// A handler that is there before the runtime starts gets the faults that happen in C
// code (os/signal, "Go programs that use cgo"; sigfwdgo in runtime/signal_unix.go).

#define _GNU_SOURCE
#include "mappings.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

static _Thread_local volatile uint32_t faults;
static uintptr_t page_size;

static void replace_page(int number, siginfo_t *info, void *context)
{
	(void)context;
	if (info->si_code == BUS_ADRERR) {
		void *page = (void *)((uintptr_t)info->si_addr & ~(page_size - 1));

		if (mmap(page, page_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == page) {
			faults++;
			return;
		}
	}
	// Broken hardware memory, or no memory: the fault comes again and ends the process.
	static const char last[] = "SIGBUS in C code\n";
	ssize_t written = write(STDERR_FILENO, last, sizeof last - 1);
	(void)written;
	signal(number, SIG_DFL);
}

void ofi_guard_mappings(void)
{
	struct sigaction handler = {.sa_sigaction = replace_page, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART};

	page_size = (uintptr_t)sysconf(_SC_PAGESIZE);
	sigemptyset(&handler.sa_mask);
	sigaction(SIGBUS, &handler, NULL);
}

uint32_t ofi_mapping_faults(void) { return faults; }
