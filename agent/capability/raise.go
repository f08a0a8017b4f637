// Package capability makes the capabilities effective that the process may
// use. The image's file capabilities are permitted only (contract, RT_PRIORITY
// and "Mirror cleanup": the image raises SYS_NICE and SYS_PTRACE from the
// binary's file capabilities; agent API reference §19.2), because with the
// effective bit the kernel refuses to run the program in a container that was
// not given all of them.
//
// Import it for its effect. Capabilities belong to threads and new threads have
// those of the thread that made them, so it is done while there is one thread:
// in a constructor, before the Go runtime starts.
package capability

/*
#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

__attribute__((constructor)) static void raise_permitted(void) {
	const unsigned wanted = 1u << CAP_IPC_LOCK | 1u << CAP_SYS_NICE | 1u << CAP_SYS_PTRACE;
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3];
	if (syscall(SYS_capget, &header, sets) != 0)
		return;
	// The three are below 32: the first word holds them.
	sets[0].effective |= sets[0].permitted & wanted;
	// What could not be raised shows in the line "startup" of the log.
	(void)!syscall(SYS_capset, &header, sets);
}
*/
import "C"
