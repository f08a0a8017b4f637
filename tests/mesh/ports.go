package mesh

import (
	"fmt"
	"math/rand/v2"
	"net"
)

// freePorts returns the first of n consecutive TCP ports that nobody listens
// on now. It looks below the ephemeral range (32768 up on Linux), where no
// outgoing connection can take one before the agent does.
func freePorts(n int) (int, error) {
	const low, high = 10000, 32000
	for range 200 {
		base := low + rand.IntN(high-low-n)
		if allFree(base, n) {
			return base, nil
		}
	}
	return 0, fmt.Errorf("no %d consecutive free ports between %d and %d", n, low, high)
}

func allFree(base, n int) bool {
	for port := base; port < base+n; port++ {
		listener, err := net.ListenTCP("tcp", &net.TCPAddr{Port: port})
		if err != nil {
			return false
		}
		_ = listener.Close()
	}
	return true
}

// hostAddress is the address an agent announces in NMOS documents, which must
// not be loopback: this host's first IPv4, or one of TEST-NET-1 where a
// sandbox has none. Nothing here connects to it.
func hostAddress() string {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return "192.0.2.1"
	}
	for _, address := range addresses {
		network, ok := address.(*net.IPNet)
		if ok && network.IP.To4() != nil && !network.IP.IsLoopback() {
			return network.IP.String()
		}
	}
	return "192.0.2.1"
}
