package plugin

import (
	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire"
	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/basepb"
	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/driverpb"
)

// Name is the driver's name in job files.
const Name = "wardyn"

// about is what the plugin says of itself before anything is configured.
func about(version string) *basepb.PluginInfoResponse {
	return &basepb.PluginInfoResponse{
		Type:              basepb.PluginType_DRIVER,
		PluginApiVersions: []string{wire.APIVersion},
		PluginVersion:     version,
		Name:              Name,
	}
}

// capabilities are what clients may rely on. Group networks are declared so
// that groups with a network are placed; the sandbox stands beside the group's
// namespace, not in it.
func capabilities() *driverpb.DriverCapabilities {
	return &driverpb.DriverCapabilities{
		SendSignals: true,
		Exec:        true,
		FsIsolation: driverpb.DriverCapabilities_IMAGE,
		NetworkIsolationModes: []driverpb.NetworkIsolationSpec_NetworkIsolationMode{
			driverpb.NetworkIsolationSpec_HOST,
			driverpb.NetworkIsolationSpec_GROUP,
		},
		MountConfigs: driverpb.DriverCapabilities_ANY_MOUNTS,
	}
}
