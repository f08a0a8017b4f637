package doctor

import (
	"context"
	"strings"

	"github.com/mxl-stack/mxl-fabrics-agent/mirror"
)

// readers says whether the reader check of mirrors would see every process: it is
// the check itself, looking for what nobody has.
func (e *examination) readers(ctx context.Context) {
	known, why := e.sys.Readers(ctx)
	if known {
		e.ok("reader_sight", "Every process of the host can be looked at: readers of mirrors will be seen.")
		return
	}
	remedy := "Give it CAP_SYS_PTRACE and no AppArmor confinement (appArmorProfile: Unconfined), and mount /proc without hidepid."
	if strings.Contains(why, "PID namespace") {
		remedy = "Run it in the host's PID namespace: hostPID: true in Kubernetes, pid: host in Compose; CAP_SYS_PTRACE and no AppArmor confinement are needed too."
	}
	e.found("reader_sight", Warn, remedy, "Not every process can be looked at, so mirrors whose removal needs a reader check stay: %s.", why)
}

func readers(ctx context.Context) (known bool, why string) {
	// A file that nobody has: the check looks at no process when it has nothing to
	// look for.
	nothing := map[mirror.FileID]mirror.Key{{}: {}}
	report := mirror.NewReaderCheck(mirror.ReaderCheckConfig{}).Scan(ctx, mirror.Watched{Files: nothing})
	return report.Known, report.Why
}
