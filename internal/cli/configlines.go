package cli

import (
	"strings"

	"github.com/hashicorp/hcl/hcl/ast"
	hclparser "github.com/hashicorp/hcl/hcl/parser"
)

// configLines are the lines of a plugin's options, by their names with a dot
// into a block.
type configLines map[string]int

// find is the line of an option, or of the block it is in; 0 when unknown.
func (l configLines) find(field string) int {
	for {
		if line, ok := l[field]; ok {
			return line
		}
		i := strings.LastIndexByte(field, '.')
		if i < 0 {
			return 0
		}
		field = field[:i]
	}
}

// linesOf finds the options in the text of a file that parsePluginConfig reads.
func linesOf(src []byte) configLines {
	out := configLines{}
	file, err := hclparser.Parse(src)
	if err != nil {
		return out
	}
	list, ok := file.Node.(*ast.ObjectList)
	if !ok {
		return out
	}
	if plugins := list.Filter("plugin"); len(plugins.Items) > 0 {
		for _, item := range plugins.Filter(pluginName).Items {
			if body, ok := item.Val.(*ast.ObjectType); ok {
				for _, c := range body.List.Filter("config").Items {
					out.add("", c.Val)
				}
			}
		}
		return out
	}
	out.addList("", list)
	return out
}

func (l configLines) add(prefix string, n ast.Node) {
	if body, ok := n.(*ast.ObjectType); ok {
		l.addList(prefix, body.List)
	}
}

func (l configLines) addList(prefix string, list *ast.ObjectList) {
	for _, item := range list.Items {
		name := prefix
		for _, k := range item.Keys {
			name += strings.Trim(k.Token.Text, `"`)
			if _, earlier := l[name]; !earlier {
				l[name] = k.Pos().Line
			}
			name += "."
		}
		l.add(name, item.Val)
	}
}
