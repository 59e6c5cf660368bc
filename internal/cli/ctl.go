package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/control"
	"github.com/wardyn/nomad-driver-wardyn/internal/datadir"
	"github.com/wardyn/nomad-driver-wardyn/plugin"
	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

var ctlCommand = &command{
	name:    "ctl",
	args:    "[FLAGS] pending | approve ID | deny ID | revoke ID",
	summary: "decide about first uses of hosts, as root on the node",
	text: "Tasks whose egress.first_use asks for a review wait here. An approval is for one\n" +
		"host and port. It is named by its id, by at least four characters of the id's\n" +
		"beginning, or by HOST:PORT. It holds for the session: the task of one allocation,\n" +
		"also when it is restarted. A denial is final for the session. Revoking cuts what an\n" +
		"approval let through within two seconds.",
	flags: func(fs *flag.FlagSet) { (&ctlOptions{}).bind(fs) },
	run: func(ctx context.Context, e Env, c *command, args []string) int {
		var o ctlOptions
		fs := flag.NewFlagSet(c.name, flag.ContinueOnError)
		o.bind(fs)
		words, ok, code := c.parseMixed(e, fs, args)
		if !ok {
			return code
		}
		return e.report(o.carryOut(ctx, e.Stdout, words))
	},
}

type ctlOptions struct {
	dataDir, pluginConfig, scope, note string
	duration                           time.Duration
	all, json                          bool
}

func (o *ctlOptions) bind(fs *flag.FlagSet) {
	installationFlag(fs, &o.pluginConfig)
	fs.StringVar(&o.dataDir, "data-dir", "", "the installation's data_dir, a `FOLDER`, in the place of -plugin-config; "+datadir.Default+" by default")
	fs.DurationVar(&o.duration, "for", 0, "how long an approval holds, such as 30m; without it there is no end")
	fs.StringVar(&o.scope, "scope", string(control.ScopeSession), "of an approval: session, or attempt for this attempt of the task only")
	fs.StringVar(&o.note, "note", "", "a `TEXT` to keep with the decision")
	fs.BoolVar(&o.all, "all", false, "pending: show decided ones too")
	fs.BoolVar(&o.json, "json", false, "print JSON")
}

// verdicts are the words that decide, with what they make of an approval.
var verdicts = map[string]egress.ApprovalState{
	"approve": egress.ApprovalApproved, "deny": egress.ApprovalDenied, "revoke": egress.ApprovalDenied,
}

func (o ctlOptions) carryOut(ctx context.Context, w io.Writer, args []string) error {
	if len(args) == 0 {
		return usageError("ctl: say pending, approve, deny or revoke")
	}
	where, err := o.installation()
	if err != nil {
		return err
	}
	dir, err := datadir.Open(where)
	if err != nil {
		return err
	}
	c := control.NewCtl(filepath.Join(dir.RunRoot(), control.CtlSocket))
	to, decides := verdicts[args[0]]
	switch {
	case args[0] == "pending" && len(args) == 1:
		return o.pending(ctx, w, c)
	case decides && len(args) == 2:
		return o.decide(ctx, w, c, control.Order{Ref: args[1], To: to})
	case decides:
		return usageError("ctl " + args[0] + ": want one ID")
	}
	return usageError(fmt.Sprintf("ctl: %q is not pending, approve ID, deny ID or revoke ID", strings.Join(args, " ")))
}

// installation is the data dir that the flags name; it is there.
func (o ctlOptions) installation() (string, error) {
	if o.dataDir != "" && o.pluginConfig != "" {
		return "", usageError("ctl: -data-dir and -plugin-config both name an installation; give one")
	}
	config, err := loadPluginConfig(o.pluginConfig)
	if err != nil {
		return "", err
	}
	h, err := plugin.ParseHostConfig(config)
	if err != nil {
		return "", err
	}
	where := cmp.Or(o.dataDir, h.DataDir, datadir.Default)
	if _, err := os.Stat(where); err != nil {
		return "", fmt.Errorf("there is no installation here; -plugin-config or -data-dir says where it is: %w", err)
	}
	return where, nil
}

func (o ctlOptions) pending(ctx context.Context, w io.Writer, c *control.Ctl) error {
	all, err := c.Approvals(ctx)
	if err != nil {
		return err
	}
	list := []control.Listed{}
	for _, a := range all {
		if o.all || a.Open() {
			list = append(list, a)
		}
	}
	if o.json {
		return printJSON(w, list)
	}
	if len(list) == 0 {
		fmt.Fprintln(w, "nothing waits for approval")
	}
	for _, a := range list {
		fmt.Fprintf(w, "%s  %s  %s  %s  %s/%s task %s of allocation %s\n", a.ID.String()[:8], printable(target(a.Approval)),
			strings.ToLower(string(a.State)), a.RequestedAt.UTC().Format(time.RFC3339), printable(a.Namespace), printable(a.Job), printable(a.Task), printable(a.Alloc))
	}
	return nil
}

func (o ctlOptions) decide(ctx context.Context, w io.Writer, c *control.Ctl, order control.Order) error {
	order.Note = o.note
	if order.To == egress.ApprovalApproved {
		order.Scope, order.ForSeconds = control.Scope(o.scope), int64(o.duration/time.Second)
		if o.duration != 0 && order.ForSeconds < 1 {
			return usageError("ctl: -for: want at least a second")
		}
	}
	a, err := c.Decide(ctx, order)
	if err != nil {
		return err
	}
	if o.json {
		return printJSON(w, a)
	}
	word := strings.ToLower(string(a.State))
	if a.Revoked {
		word = "revoked"
	}
	fmt.Fprintf(w, "%s: %s (id %s)\n", word, printable(target(a)), a.ID.String()[:8])
	return nil
}

func target(a control.Approval) string { return net.JoinHostPort(a.Host, strconv.Itoa(a.Port)) }

func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}
