#ifndef OFI_MAPPINGS_H
#define OFI_MAPPINGS_H

#include <stdint.h>

// ofi_guard_mappings makes SIGBUS at a mapped file, raised in C code, survivable: see
// mappings.c. To be called before the Go runtime takes the signals over.
void ofi_guard_mappings(void);

// ofi_mapping_faults counts the pages of this thread's files that were gone.
uint32_t ofi_mapping_faults(void);

#endif
