package main

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// options of one measurement.
type options struct {
	wardyn string
	rounds int
	n      int
	conns  int
	mib    int
	only   string
}

func main() {
	if len(os.Args) == 3 && peerMain(os.Args[1], os.Args[2]) {
		return
	}
	var o options
	flag.StringVar(&o.wardyn, "wardyn", "", "the wardyn-proxy program to measure")
	flag.IntVar(&o.rounds, "rounds", 3, "interleaved rounds; medians are printed")
	flag.IntVar(&o.n, "n", 20000, "plain requests a round; half as many tunnels, a tenth intercepted")
	flag.IntVar(&o.conns, "conns", 8, "connections at once")
	flag.IntVar(&o.mib, "mib", 2048, "MiB of one bulk transfer")
	flag.StringVar(&o.only, "only", "", "measure proxies whose name begins with one of these, separated by commas, and no others")
	flag.Parse()
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, "bench/proxy:", err)
		os.Exit(1)
	}
}

func run(o options) error {
	if o.wardyn == "" {
		return fmt.Errorf("give -wardyn, the program to measure")
	}
	origin, err := newOrigin(o.mib)
	if err != nil {
		return err
	}
	proxies, stop := start(o, origin)
	defer stop()
	results := map[string]map[string][]float64{}
	note := func(p, what string, v float64) {
		if results[p] == nil {
			results[p] = map[string][]float64{}
		}
		results[p][what] = append(results[p][what], v)
	}
	for _, p := range proxies {
		note(p.name, "RSS idle MB", p.rss())
	}
	for round := range o.rounds {
		for _, p := range proxies {
			fmt.Fprintf(os.Stderr, "round %d of %d: %s\n", round+1, o.rounds, p.name)
			measure(o, p, origin, func(what string, v float64) { note(p.name, what, v) })
		}
	}
	report(os.Stdout, proxies, results)
	return nil
}

// columns in the order in which they are printed.
var columns = []string{"plain us", "connect us", "intercept us", "bulk s/GiB", "p99 ms at 200", "RSS idle MB", "RSS loaded MB", "errors"}

func measure(o options, p *proxy, origin *origin, note func(string, float64)) {
	errs := 0
	perOp := func(what string, n int, conns int, op func() (func() error, func())) []time.Duration {
		before := p.cpu()
		times, failed := load(n, conns, op)
		errs += failed
		if n > failed {
			note(what, (p.cpu()-before)*1e6/float64(n))
		}
		return times
	}
	slowest := func(op func() (func() error, func())) {
		times, failed := paced(500, 4, 200, op)
		errs += failed
		slices.Sort(times)
		if len(times) > 0 {
			note("p99 ms at 200", float64(times[len(times)*99/100].Microseconds())/1000)
		}
	}
	if p.intercepts { // such a proxy is measured for that alone
		perOp("intercept us", o.n/10, o.conns, func() (func() error, func()) { return tlsClient(p, origin) })
		note("RSS loaded MB", p.rss())
		slowest(func() (func() error, func()) { return keptTLSClient(p, origin) })
		note("errors", float64(errs))
		return
	}
	perOp("plain us", o.n, o.conns, func() (func() error, func()) { return plainClient(p, origin) })
	perOp("connect us", o.n/2, o.conns, func() (func() error, func()) { return tunnelClient(p, origin) })
	before := p.cpu()
	if gib, err := bulk(p, origin); err != nil {
		errs++
	} else {
		note("bulk s/GiB", (p.cpu()-before)/gib)
	}
	note("RSS loaded MB", p.rss())
	slowest(func() (func() error, func()) { return plainClient(p, origin) })
	note("errors", float64(errs))
}

func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}

func report(out *os.File, proxies []*proxy, results map[string]map[string][]float64) {
	w := tabwriter.NewWriter(out, 2, 4, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "proxy\t"+strings.Join(columns, "\t")+"\t")
	for _, p := range proxies {
		fmt.Fprint(w, p.name, "\t")
		for _, c := range columns {
			v := results[p.name][c]
			switch {
			case len(v) == 0:
				fmt.Fprint(w, "-\t")
			default:
				fmt.Fprintf(w, "%.4g\t", median(v))
			}
		}
		fmt.Fprintln(w)
	}
	w.Flush()
}
