package host

import (
	"context"
	"errors"
	"fmt"
	"regexp"

	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire"
	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/basepb"
	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/hclconf"
	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/hclspec"
)

// versionPattern is a version number as agents can read it.
var versionPattern = regexp.MustCompile(`^v?\d+(\.\d+){0,2}([-+][0-9A-Za-z.+~-]+)?$`)

// load does what an agent does with every plugin when it starts: it asks one process who it is
// and what it takes, tries the configuration on a second, and keeps neither. Any error here
// keeps a real agent from starting.
func (p *Plugin) load(ctx context.Context) error {
	schema, err := p.introduce(ctx)
	if err != nil {
		return p.breaches.add(TrapLoad, "load", err.Error())
	}
	p.config, err = encodePluginConfig(schema, p.opts.PluginConfig)
	if err != nil || schema == nil {
		return err
	}
	return p.tryConfig(ctx)
}

// introduce is the first process.
func (p *Plugin) introduce(ctx context.Context) (*hclspec.Spec, error) {
	inst, err := p.launcher.start()
	if err != nil {
		return nil, err
	}
	defer inst.kill()
	if p.info, err = p.askInfo(ctx, inst); err != nil {
		return nil, err
	}
	answer, err := inst.Base.ConfigSchema(ctx, &basepb.ConfigSchemaRequest{})
	if err != nil {
		return nil, fmt.Errorf("ConfigSchema: %w", err)
	}
	if answer.GetSpec() == nil {
		return nil, nil //nolint:nilnil // a plugin may take no configuration
	}
	if trap, err := checkSchema(answer.GetSpec()); err != nil {
		p.breaches.add(trap, "ConfigSchema", err.Error())
	}
	return answer.GetSpec(), nil
}

func (p *Plugin) askInfo(ctx context.Context, inst *instance) (Info, error) {
	answer, err := inst.Base.PluginInfo(ctx, &basepb.PluginInfoRequest{})
	if err != nil {
		return Info{}, fmt.Errorf("PluginInfo: %w", err)
	}
	if err := checkInfo(answer); err != nil {
		return Info{}, fmt.Errorf("PluginInfo: %w", err)
	}
	return Info{
		Name: answer.GetName(), Version: answer.GetPluginVersion(), APIVersions: answer.GetPluginApiVersions(),
	}, nil
}

// encodePluginConfig decodes the operator's block without any variables. A missing block is an
// empty one, so that defaults arrive.
func encodePluginConfig(schema *hclspec.Spec, config map[string]any) ([]byte, error) {
	if schema == nil {
		if len(config) > 0 {
			return nil, errors.New("plugin config: the plugin takes none")
		}
		return nil, nil
	}
	if config == nil {
		config = map[string]any{}
	}
	data, err := hclconf.Msgpack(schema, config, nil)
	if err != nil {
		return nil, configError("plugin config", err)
	}
	return data, nil
}

// tryConfig is the second process: the same configuration twice, without word about the node.
func (p *Plugin) tryConfig(ctx context.Context) error {
	inst, err := p.launcher.start()
	if err != nil {
		return p.breaches.add(TrapLoad, "load", err.Error())
	}
	defer inst.kill()
	for range 2 {
		_, err := inst.Base.SetConfig(ctx, &basepb.SetConfigRequest{
			MsgpackConfig: p.config, PluginApiVersion: wire.APIVersion,
		})
		if err != nil {
			return fmt.Errorf("plugin refuses its configuration: %w", err)
		}
	}
	return nil
}

// nomadConfig is what the lasting process is told about the node.
func nomadConfig(o Options) *basepb.NomadConfig {
	driver := &basepb.NomadDriverConfig{ClientMinPort: o.Node.MinPort, ClientMaxPort: o.Node.MaxPort}
	if !o.Legacy {
		driver.Topology = topology(o.Node.Cores)
	}
	return &basepb.NomadConfig{Driver: driver}
}
