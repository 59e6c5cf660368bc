package jobfile

import (
	"bytes"
	"fmt"
	"strconv"
	"text/template"
	"text/template/parse"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

func (p *parser) template(where string, b *hclsyntax.Block) Template {
	s := p.open(where+": template", b.Body, templateRules)
	t := Template{Perms: 0o644, Left: "{{", Right: "}}", ChangeMode: "restart", Pos: posOf(b.DefRange())}
	for _, sb := range b.Body.Attributes {
		if sb.Name == "source" {
			return t // refused already; data is rightly missing
		}
	}
	if !s.required(b, "destination") || !s.required(b, "data") {
		return t
	}
	s.read("destination", &t.Destination)
	s.read("env", &t.Env)
	s.read("left_delimiter", &t.Left)
	s.read("right_delimiter", &t.Right)
	s.read("error_on_missing_key", &t.ErrorOnMissingKey)
	s.owner("uid", &t.UID)
	s.owner("gid", &t.GID)
	s.oneOf("change_mode", &t.ChangeMode, "restart", "noop", "signal", "script")
	signal := ""
	if s.read("change_signal", &signal); t.ChangeMode == "signal" && signal == "" {
		p.fault(b.DefRange(), `%s: change_mode = "signal" needs a change_signal`, s.where)
	}
	perms := ""
	if s.read("perms", &perms) {
		n, err := strconv.ParseUint(perms, 8, 12)
		if err != nil {
			p.fault(s.attrs["perms"].Range(), `%s: perms = %q is no octal file mode such as "0644"`, s.where, perms)
		}
		t.Perms = uint32(n)
	}
	if s.read("data", &t.Data) {
		p.checkTemplate(s, t)
	}
	return t
}

// owner reads a numeric user or group; -1 means the client's own, as unset does.
func (s section) owner(name string, into **int) {
	n := -1
	s.whole(name, &n, -1)
	if n >= 0 {
		*into = &n
	}
}

// checkTemplate parses a template and names every function that it could not
// call when it is rendered.
func (p *parser) checkTemplate(s section, t Template) {
	e := s.attrs["data"].Expr
	at := func(line int) hcl.Range {
		r := e.Range()
		if bytes.HasPrefix(r.SliceBytes(p.src), []byte("<<")) {
			r.Start.Line += line // the text starts on the line after the marker
		}
		return r
	}
	tree := parse.New("data")
	tree.Mode = parse.SkipFuncCheck
	if _, err := tree.Parse(t.Data, t.Left, t.Right, map[string]*parse.Tree{}); err != nil {
		line, text := templateError(err)
		p.fault(at(line), "%s: data: %s", s.where, text)
		return
	}
	p.checkFunctions(s, tree.Root, at)
}

func (p *parser) checkFunctions(s section, root parse.Node, at func(line int) hcl.Range) {
	seen, missing := map[string]bool{}, map[string]int{}
	in := Inputs{NomadVars: p.options.NomadVars, Namespace: p.namespace}
	walkFunctions(root, 1, func(name string, args []parse.Node, line int) {
		if unset := in.unset(name, args); unset != "" && missing[unset] == 0 {
			missing[unset] = line
		}
		if callable(name) || seen[name] {
			seen[name] = true
			return
		}
		seen[name] = true
		why, ok := serverFunctions[name]
		if !ok {
			why = "it is not among the template functions offered here"
		}
		p.refuse(at(line), "%s: data: the function %s is not supported by run: %s", s.where, name, why)
	})
	for _, name := range sortedKeys(missing) {
		if !seen["nomadVarExists"] { // else the template knows what to do without
			p.refuse(at(missing[name]), "%s: data: there is no Nomad variable %q; %s", s.where, name, setVariable(name))
		}
	}
}

// templateError takes text/template's "template: data:3: text" apart.
func templateError(err error) (int, string) {
	text := err.Error()
	var line int
	if _, scan := fmt.Sscanf(text, "template: data:%d:", &line); scan == nil {
		text = text[len(fmt.Sprintf("template: data:%d: ", line)):]
	}
	return line, text
}

// walkFunctions calls f for every function a template names, with its arguments
// and its line.
func walkFunctions(n parse.Node, line int, f func(name string, args []parse.Node, line int)) {
	branch := func(b *parse.BranchNode) {
		walkFunctions(b.Pipe, b.Line, f)
		walkFunctions(b.List, b.Line, f)
		if b.ElseList != nil {
			walkFunctions(b.ElseList, b.Line, f)
		}
	}
	switch n := n.(type) {
	case *parse.ListNode:
		for _, inner := range n.Nodes {
			walkFunctions(inner, line, f)
		}
	case *parse.ActionNode:
		walkFunctions(n.Pipe, n.Line, f)
	case *parse.IfNode:
		branch(&n.BranchNode)
	case *parse.RangeNode:
		branch(&n.BranchNode)
	case *parse.WithNode:
		branch(&n.BranchNode)
	case *parse.TemplateNode:
		if n.Pipe != nil {
			walkFunctions(n.Pipe, n.Line, f)
		}
	case *parse.PipeNode:
		for _, c := range n.Cmds {
			walkFunctions(c, n.Line, f)
		}
	case *parse.CommandNode:
		rest := n.Args
		if head, ok := rest[0].(*parse.IdentifierNode); ok {
			rest = rest[1:]
			f(head.Ident, rest, line)
		}
		for _, a := range rest {
			walkFunctions(a, line, f)
		}
	case *parse.ChainNode:
		walkFunctions(n.Node, line, f)
	case *parse.IdentifierNode:
		f(n.Ident, nil, line)
	}
}

// Render executes the template.
func (t Template) Render(in Inputs) ([]byte, error) {
	missing := "missingkey=zero"
	if t.ErrorOnMissingKey {
		missing = "missingkey=error"
	}
	tmpl, err := template.New("data").Delims(t.Left, t.Right).Option(missing).
		Funcs(localFunctions).Funcs(envFunctions(in.Lookup)).Funcs(variableFunctions(in)).Parse(t.Data)
	if err != nil {
		return nil, fmt.Errorf("%s: template %s: %w", t.Pos, t.Destination, err)
	}
	var out bytes.Buffer
	if err := tmpl.Execute(&out, nil); err != nil {
		return nil, fmt.Errorf("%s: template %s: %s", t.Pos, t.Destination, in.hide(err.Error()))
	}
	return out.Bytes(), nil
}
