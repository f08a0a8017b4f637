package config

import "fmt"

// maxCPU is the highest CPU number taken (agent API reference §12.2).
const maxCPU = 1024

// CPUs is a list of CPU numbers; empty means all of them.
type CPUs []int

// UnmarshalText implements encoding.TextUnmarshaler.
func (c *CPUs) UnmarshalText(text []byte) error {
	var items List
	if err := items.UnmarshalText(text); err != nil {
		return err
	}
	*c = nil
	for _, item := range items {
		n, err := integer(item)
		if err != nil || n < 0 || n > maxCPU {
			return fmt.Errorf("%q is not a CPU number from 0 to %d", item, maxCPU)
		}
		*c = append(*c, int(n))
	}
	return nil
}
