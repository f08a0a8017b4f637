package agent

import "testing"

func FuzzParseReplicationRequest(f *testing.F) {
	f.Add([]byte(`{"domain_id":"d","flow_id":"0d9f6c3a-2b71-4f5e-8a64-1c2d3e4f5a01","dest_host_id":"b","target_info":"{}"}`))
	f.Add([]byte(`{"domain_id":null}`))
	f.Add([]byte(`[1`))
	f.Fuzz(func(t *testing.T, body []byte) {
		req, err := parseReplicationRequest(body)
		if err == nil && (req.DomainID == "" || req.FlowID == "" || req.DestHostID == "" || req.TargetInfo == "") {
			t.Errorf("%q was taken with an empty member: %+v", body, req)
		}
	})
}
