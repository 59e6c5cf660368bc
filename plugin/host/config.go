package host

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/driverpb"
	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/hclconf"
	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/hclspec"
)

// ConfigError lists everything that is wrong with a config block.
type ConfigError struct {
	What     string // "task config" or "plugin config"
	Problems []string
}

func (e *ConfigError) Error() string {
	return fmt.Sprintf("failed to parse %s:\n  * %s", e.What, strings.Join(e.Problems, "\n  * "))
}

func configError(what string, err error) error {
	var bad *hclconf.Error
	if !errors.As(err, &bad) {
		return fmt.Errorf("failed to parse %s: %w", what, err)
	}
	out := &ConfigError{What: what}
	for _, d := range bad.Diagnostics {
		out.Problems = append(out.Problems, hclconf.Text(d))
	}
	return out
}

// Scope is what the templates of a config block may refer to: the task's environment by bare
// names and as env["name"], and node facts below node, attr and meta.
type Scope struct {
	Env  map[string]string
	Node Node
}

// EncodeTaskConfig asks the plugin for its schema and encodes a task's config block with it.
// config is what a job file parser leaves: nested blocks, and object literals, are lists of
// maps. The error is a [ConfigError] where the job is at fault.
func (p *Plugin) EncodeTaskConfig(ctx context.Context, config map[string]any, s Scope) ([]byte, error) {
	schema, err := p.taskSchema(ctx)
	if err != nil {
		return nil, err
	}
	attributes := p.NodeAttributes()
	vars := hclconf.Scope{Env: s.Env, Node: s.Node.Facts(), Attr: attributes, Meta: s.Node.Meta}.Variables()
	data, err := hclconf.Msgpack(schema, config, vars)
	if err != nil {
		return nil, configError("task config", err)
	}
	return data, nil
}

// taskSchema asks for the schema of config blocks, as a client does for every task.
func (p *Plugin) taskSchema(ctx context.Context) (*hclspec.Spec, error) {
	inst, err := p.instance(ctx)
	if err != nil {
		return nil, err
	}
	answer, err := inst.Driver.TaskConfigSchema(ctx, &driverpb.TaskConfigSchemaRequest{})
	if err != nil {
		return nil, p.settle(ctx, inst, "TaskConfigSchema", err)
	}
	if err := p.breaches.check("TaskConfigSchema", answer); err != nil {
		return nil, err
	}
	if trap, err := checkSchema(answer.GetSpec()); err != nil {
		p.breaches.add(trap, "TaskConfigSchema", err.Error())
	}
	return answer.GetSpec(), nil
}
