package plugin

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/cast"
)

// mainRecording is the name by which verbs call that of the main process.
const mainRecording = "main"

// recordings answers the verb recording.
func recordings(c verbCall) error {
	words := c.args
	if len(words) == 0 {
		words = []string{"list"}
	}
	name := mainRecording
	if len(words) == 2 {
		name = words[1]
	}
	switch {
	case words[0] == "list" && len(words) == 1:
		return c.listRecordings()
	case words[0] == "cat" && len(words) <= 2:
		return c.showRecording(name, false, cast.Plain)
	case words[0] == "export" && len(words) <= 2:
		return c.showRecording(name, true, func(w io.Writer, r io.Reader) error {
			_, err := io.Copy(w, r)
			return err
		})
	}
	return &useError{"recording: want list, cat [NAME] or export [NAME]; -part N chooses one of several parts, -all lists earlier runs too"}
}

// recordingView is a recording as list shows it.
type recordingView struct {
	cast.Recording
	Seconds float64 `json:"seconds"`
}

func (c verbCall) listRecordings() error {
	run := c.task.state.Run.String()
	prefix := run
	if c.all {
		prefix = ""
	}
	list, err := cast.List(c.task.records, prefix)
	if err != nil {
		return err
	}
	views := []recordingView{}
	for _, r := range list {
		r.Name = shortName(run, r.Name)
		views = append(views, recordingView{r, r.Length.Seconds()})
	}
	if c.json {
		return writeJSON(c.out, views)
	}
	if len(views) == 0 {
		fmt.Fprintln(c.out, "nothing is recorded; a job asks for it with record = true")
	}
	for _, v := range views {
		end := v.End
		if end == "" {
			end = "no end yet"
		}
		if v.Made == cast.MadeSandbox {
			end += " (reported by the sandbox)"
		}
		fmt.Fprintf(c.out, "%-32s %s  %8s %7.1f MiB  %s  %s\n", safeText(v.Name), v.Start.UTC().Format(time.RFC3339),
			v.Length.Round(time.Second), float64(v.Bytes)/(1<<20), safeText(end), safeText(v.Title))
	}
	return nil
}

// shortName leaves out the run, where it is this one.
func shortName(run, name string) string {
	if name == run {
		return mainRecording
	}
	if short, ok := strings.CutPrefix(name, run+"."); ok {
		return short
	}
	return name
}

// showRecording shows the parts of a recording, or one of them. With single,
// one of several has to be chosen: their files do not make one together.
func (c verbCall) showRecording(name string, single bool, show func(io.Writer, io.Reader) error) error {
	run := c.task.state.Run.String()
	list, err := cast.List(c.task.records, "")
	if err != nil {
		return err
	}
	i := slices.IndexFunc(list, func(r cast.Recording) bool { return r.Name == name || shortName(run, r.Name) == name })
	if i < 0 {
		return fmt.Errorf("there is no recording %s; see wardyn recording list -all", safeText(name))
	}
	part := 0
	if text, given := c.flags["part"]; given {
		if part, err = strconv.Atoi(text); err != nil || part < 1 {
			return &useError{fmt.Sprintf("-part %q: want a positive number", safeText(text))}
		}
	}
	if single && part == 0 && len(list[i].Parts) > 1 {
		return &useError{fmt.Sprintf("recording %s has the parts %v; choose one with -part", safeText(name), list[i].Parts)}
	}
	shown := false
	err = cast.OpenParts(c.task.records, list[i].Name, func(n int, r io.Reader) error {
		if part > 0 && n != part {
			return nil
		}
		shown = true
		return show(c.out, r)
	})
	switch {
	case errors.Is(err, fs.ErrNotExist) || err == nil && !shown:
		return fmt.Errorf("recording %s has the parts %v", safeText(name), list[i].Parts)
	case err != nil:
		return err
	}
	return nil
}
