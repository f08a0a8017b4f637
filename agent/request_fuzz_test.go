package agent

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/mxl-stack/mxl-fabrics-agent/fabrics"
)

// FuzzParseReplicationRequest: what is taken is whole and reads the same again; what
// is not has a reason that names a member and is no longer than a line.
func FuzzParseReplicationRequest(f *testing.F) {
	f.Add([]byte(`{"domain_id":"d","flow_id":"0d9f6c3a-2b71-4f5e-8a64-1c2d3e4f5a01","dest_host_id":"b","target_info":"{}"}`))
	f.Add([]byte(`{"domain_id":null}`))
	f.Add([]byte(`[1`))
	files, err := filepath.Glob("../tests/fixtures/mxl/targetinfo-*tcp*.json")
	if err != nil || len(files) == 0 {
		f.Fatalf("no fixtures of TargetInfo: %v", err)
	}
	for _, file := range files {
		info, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		body, err := json.Marshal(map[string]string{
			"domain_id": "studio", "flow_id": "0d9f6c3a-2b71-4f5e-8a64-1c2d3e4f5a01", "dest_host_id": "b", "target_info": string(info), "dest_boot_id": "x",
		})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		req, err := parseReplicationRequest(body)
		if err != nil {
			named := strings.HasPrefix(err.Error(), "body ")
			for _, member := range []string{"domain_id", "flow_id", "dest_host_id", "target_info", "dest_boot_id"} {
				named = named || strings.HasPrefix(err.Error(), member)
			}
			if !named || len(err.Error()) > 400 {
				t.Errorf("%q: the reason is %q", body, err)
			}
			return
		}
		if req.DomainID == "" || req.FlowID == "" || req.DestHostID == "" || req.TargetInfo == "" || uuid.Validate(req.FlowID) != nil {
			t.Errorf("%q was taken with an empty member: %+v", body, req)
		}
		text, err := json.Marshal(req)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := parseReplicationRequest(text); err != nil || again != req {
			t.Errorf("%+v reads back as %+v, %v", req, again, err)
		}
		if _, err := fabrics.ParseTargetInfo(req.TargetInfo); err != nil && len(err.Error()) > 400 {
			t.Errorf("a reason of %d bytes", len(err.Error()))
		}
	})
}
