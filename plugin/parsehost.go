package plugin

import (
	"fmt"

	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/hclconf"
)

// ParseHostConfig decodes and checks the operator's options as a parser of
// agent files leaves them, the way an agent would: for commands that work
// beside a plugin.
func ParseHostConfig(config map[string]any) (HostConfig, error) {
	data, err := hclconf.Msgpack(configSpec(), config, nil)
	if err != nil {
		return HostConfig{}, fmt.Errorf("the plugin's config is refused: %w", err)
	}
	return ReadHostConfig(data)
}
