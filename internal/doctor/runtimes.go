package doctor

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

func (x *examination) runtimes() {
	e := x.facts.Engine
	if !slices.ContainsFunc(e.Runtimes, func(r Runtime) bool { return r.Name == "runc" }) {
		x.add(Error, "no-runc", "runtimes", "the engine has no runtime named runc, under which every sidecar runs", "register runc with the engine under that name")
	}
	if e.DefaultRuntime != "runc" {
		x.add(Info, "default-runtime", "runtimes", fmt.Sprintf("the engine's default runtime is %s; sidecars and CC1 name runc and are not affected", known(e.DefaultRuntime)), "")
	}
	for _, r := range e.Runtimes {
		if r.Missing {
			x.add(Warning, "runtime-missing", "runtime "+r.Name, fmt.Sprintf("it is registered with %s, and no program is there", r.Path), "install it, or take it out of the engine's daemon.json")
		}
		if strings.HasPrefix(r.Name, "runsc") {
			x.gvisor(r)
		}
	}
}

// gvisor looks at the arguments with which a gVisor runtime is registered.
func (x *examination) gvisor(r Runtime) {
	subject := "runtime " + r.Name
	args := flags(r.Args)
	if v, ok := args["host-uds"]; ok && v != "none" {
		x.add(Error, "host-uds", subject, "it is registered with --host-uds, by which a sandbox connects to sockets of the host that lie in its mounts",
			"remove the argument from the engine's daemon.json and reload the engine")
	}
	if v, ok := args["fsgofer-host-uds"]; ok && v != "false" {
		x.add(Error, "host-uds", subject, "it is registered with --fsgofer-host-uds, by which a sandbox connects to sockets of the host that lie in its mounts",
			"remove the argument from the engine's daemon.json and reload the engine")
	}
	if v, ok := args["ignore-cgroups"]; ok && v != "false" {
		x.add(Error, "ignore-cgroups", subject, "it is registered with --ignore-cgroups, so no limit of a task would hold", "remove the argument from the engine's daemon.json and reload the engine")
	}
	if args["network"] == "host" {
		x.add(Warning, "gvisor-network", subject, "it is registered with --network=host: its sandboxes use the host kernel's network stack instead of gVisor's own",
			"install a newer runsc, which works with its own stack on this kernel, and remove the argument")
	}
	if v := args["overlay2"]; v != "none" {
		x.add(Warning, "overlay2", subject, "it is registered without --overlay2=none: what a sandbox writes is kept in a file beside its image, and a snapshot of it would lack all of that; such snapshots are refused",
			`add "--overlay2=none" to its runtimeArgs in the engine's daemon.json and reload the engine`)
	}
	if args["platform"] == "kvm" && !x.facts.Host.KVM {
		x.add(Warning, "gvisor-kvm", subject, "it is registered with --platform=kvm, and this host has no /dev/kvm; creating a sandbox may hang", "remove the argument, or enable virtualisation")
	}
}

// flags are command line flags, by name without dashes; one without a value is "".
func flags(args []string) map[string]string {
	out := map[string]string{}
	for _, a := range args {
		name, value, _ := strings.Cut(strings.TrimLeft(a, "-"), "=")
		out[name] = value
	}
	return out
}

// classes says of each class whether tasks can have it, and if not why.
func (x *examination) classes() {
	works := false
	for _, c := range x.facts.Classes {
		subject := "class " + c.Name
		switch {
		case !c.Offered:
			x.add(Info, "class-closed", subject, "the operator does not offer it", "set the plugin option confinement.classes or confinement.minimum to change that")
		case c.Works:
			works = true
			x.add(Info, "class", subject, fmt.Sprintf("works with runtime %s, as probed %s", c.Runtime, when(c.Probed)), "")
		case c.Runtime == "":
			x.absent(c)
		case c.Probed.IsZero():
			x.add(Info, "class-unprobed", subject, fmt.Sprintf("runtime %s would give it; nothing has been run under it yet", c.Runtime), "nomad-driver-wardyn doctor -deep runs its probe now")
		default:
			x.add(Warning, "class-broken", subject, fmt.Sprintf("runtime %s does not give it, as probed %s: %s", c.Runtime, when(c.Probed), c.Reason),
				"mend or replace the runtime, then run nomad-driver-wardyn doctor -deep; until then tasks that ask for the class are refused, and none is given a weaker one")
		}
	}
	if left := x.facts.ProbesLeft; left != "" {
		x.add(Warning, "probes-left", "classes", "what the probes of this examination made could not be removed: "+left,
			"a runtime that hangs has it: end its processes on the host, or restart the engine while no task runs; then remove the containers and networks named wardyn_probe_* with docker rm -f and docker network rm")
	}
	unprobed := slices.ContainsFunc(x.facts.Classes, func(c Class) bool { return c.Offered && c.Runtime != "" && c.Probed.IsZero() })
	if !works && !unprobed {
		x.add(Error, "no-class", "classes", "no class that the operator offers works on this node, so no task can run", "see the findings on the classes")
	}
}

// absent says which runtime a class lacks. Where the operator named one, they
// meant the class to be there.
func (x *examination) absent(c Class) {
	what, remedy, _ := strings.Cut(c.Reason, "; ")
	severity := Info
	if c.Pin != "" {
		severity, remedy = Warning, "register the runtime with the engine, or change the plugin option confinement.runtimes"
	}
	x.add(severity, "class-absent", "class "+c.Name, what, remedy)
}

func when(t time.Time) string {
	if t.IsZero() {
		return "at no time"
	}
	return t.UTC().Format("2006-01-02 15:04:05 UTC")
}
