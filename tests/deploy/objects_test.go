package deploy

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/yaml"
)

// objects are the decoded documents of a manifest.
type objects struct {
	configMaps      []*corev1.ConfigMap
	daemonSets      []*appsv1.DaemonSet
	services        []*corev1.Service
	networkPolicies []*networkingv1.NetworkPolicy
	monitors        []*monitor
	rules           []*prometheusRule
}

// metadata is what a monitor or a rule may have of ObjectMeta.
type metadata struct {
	Name      string            `json:"name"`
	Namespace string            `json:"namespace,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`
}

type endpoint struct {
	Port        string `json:"port"`
	Path        string `json:"path"`
	Interval    string `json:"interval"`
	Relabelings []struct {
		SourceLabels []string `json:"sourceLabels"`
		TargetLabel  string   `json:"targetLabel"`
	} `json:"relabelings"`
}

// monitor is a ServiceMonitor or a PodMonitor of monitoring.coreos.com/v1, with
// the members that are used here.
type monitor struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Metadata   metadata `json:"metadata"`
	Spec       struct {
		JobLabel          string `json:"jobLabel"`
		NamespaceSelector struct {
			MatchNames []string `json:"matchNames"`
		} `json:"namespaceSelector"`
		Selector struct {
			MatchLabels map[string]string `json:"matchLabels"`
		} `json:"selector"`
		Endpoints           []endpoint `json:"endpoints,omitempty"`
		PodMetricsEndpoints []endpoint `json:"podMetricsEndpoints,omitempty"`
	} `json:"spec"`
}

type prometheusRule struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Metadata   metadata `json:"metadata"`
	Spec       ruleFile `json:"spec"`
}

// decode decodes every document strictly: an unknown, misspelt or doubled
// member is an error.
func decode(t testing.TB, name string, text []byte) objects {
	t.Helper()
	o, err := decodeStrict(text)
	if err != nil {
		t.Fatalf("%s: %v\n%s", name, err, text)
	}
	return o
}

func decodeStrict(text []byte) (objects, error) {
	var o objects
	for i, doc := range documents(text) {
		var head struct {
			APIVersion string `json:"apiVersion"`
			Kind       string `json:"kind"`
		}
		if err := yaml.Unmarshal(doc, &head); err != nil {
			return o, fmt.Errorf("document %d: %w", i, err)
		}
		var into any
		switch kind := head.APIVersion + " " + head.Kind; kind {
		case " ":
			// Comments only.
			continue
		case "v1 ConfigMap":
			into = grow(&o.configMaps)
		case "v1 Service":
			into = grow(&o.services)
		case "apps/v1 DaemonSet":
			into = grow(&o.daemonSets)
		case "networking.k8s.io/v1 NetworkPolicy":
			into = grow(&o.networkPolicies)
		case "monitoring.coreos.com/v1 ServiceMonitor", "monitoring.coreos.com/v1 PodMonitor":
			into = grow(&o.monitors)
		case "monitoring.coreos.com/v1 PrometheusRule":
			into = grow(&o.rules)
		default:
			return o, fmt.Errorf("document %d: %q is not an object that is expected here", i, kind)
		}
		if err := yaml.UnmarshalStrict(doc, into); err != nil {
			return o, fmt.Errorf("document %d, %s: %w", i, head.Kind, err)
		}
	}
	return o, nil
}

func grow[T any](list *[]*T) *T {
	v := new(T)
	*list = append(*list, v)
	return v
}

func TestDecodingIsStrict(t *testing.T) {
	for name, text := range map[string]string{
		"misspelt member": "apiVersion: v1\nkind: Service\nspec:\n  selectr: {}\n",
		"doubled member":  "apiVersion: v1\nkind: Service\nmetadata: {}\nmetadata: {}\n",
		"wrong type":      "apiVersion: apps/v1\nkind: DaemonSet\nspec:\n  template:\n    spec:\n      hostPID: \"yes\"\n",
		"unknown kind":    "apiVersion: apps/v1\nkind: DaemonSett\n",
		"old path":        "apiVersion: monitoring.coreos.com/v1\nkind: ServiceMonitor\nspec:\n  endpoint: []\n",
	} {
		if _, err := decodeStrict([]byte(text)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
