package ui

import (
	"encoding/json"
	"fmt"

	"github.com/mxl-stack/mxl-fabrics-agent/agent/config"
)

// settingsName is the file below /assets/ that describes the settings.
const settingsName = "settings.json"

// setting is a configuration key for the page's form.
type setting struct {
	Name        string `json:"name"`
	Alias       string `json:"alias,omitempty"`
	Default     string `json:"default"`
	Values      string `json:"values"` // in words; literal values stand between backticks
	Live        bool   `json:"live"`
	Description string `json:"description"`
}

// settings lists what GET /api/v1/config shows, from the table of the keys
// itself: a new key needs no new page.
func settings() []byte {
	list := []setting{}
	for _, k := range config.Keys() {
		if k.EnvironmentOnly {
			continue
		}
		s := setting{Name: k.Name, Alias: k.Alias, Default: k.Default, Values: k.Values, Live: k.Runtime, Description: k.Description}
		if s.Default == "" {
			s.Default = k.DefaultText
		}
		list = append(list, s)
	}
	body, err := json.Marshal(list)
	if err != nil {
		panic(fmt.Sprintf("the settings cannot be encoded: %v", err)) // texts and booleans
	}
	return body
}
