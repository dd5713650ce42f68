package lab

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"text/template"

	"sigs.k8s.io/yaml"
)

// chart renders templates of Liqo's own chart, with the few functions of Helm that they use.
type chart struct {
	dir    string
	root   *template.Template
	values map[string]any
}

// openChart reads the chart in a folder. values, in YAML, win over the chart's own.
func openChart(dir, values string) (*chart, error) {
	c := &chart{dir: dir}
	defaults, err := os.ReadFile(filepath.Join(dir, "values.yaml"))
	if err != nil {
		return nil, err
	}
	own := map[string]any{}
	if err := yaml.Unmarshal(defaults, &c.values); err != nil {
		return nil, fmt.Errorf("the chart's values: %w", err)
	}
	if err := yaml.Unmarshal([]byte(values), &own); err != nil {
		return nil, fmt.Errorf("values for the chart: %w", err)
	}
	override(c.values, own)
	c.root = template.New("").Funcs(c.functions())
	_, err = c.root.ParseFiles(filepath.Join(dir, "templates", "_helpers.tpl"))
	return c, err
}

// override writes the values of with into values, key by key.
func override(values, with map[string]any) {
	for key, value := range with {
		if deeper, ok := value.(map[string]any); ok {
			if has, ok := values[key].(map[string]any); ok {
				override(has, deeper)
				continue
			}
		}
		values[key] = value
	}
}

func (c *chart) functions() template.FuncMap {
	indent := func(n int, text string) string {
		pad := strings.Repeat(" ", n)
		return pad + strings.ReplaceAll(text, "\n", "\n"+pad)
	}
	return template.FuncMap{
		"include": func(name string, data any) (string, error) {
			var out strings.Builder
			err := c.root.ExecuteTemplate(&out, name, data)
			return out.String(), err
		},
		"fail":       func(why string) (string, error) { return "", fmt.Errorf("the chart: %s", why) },
		"contains":   func(part, text string) bool { return strings.Contains(text, part) },
		"indent":     indent,
		"int":        func(n any) int { f, _ := n.(float64); return int(f) },
		"nindent":    func(n int, text string) string { return "\n" + indent(n, text) },
		"quote":      func(v any) string { return fmt.Sprintf("%q", fmt.Sprint(v)) },
		"replace":    func(old, new, text string) string { return strings.ReplaceAll(text, old, new) },
		"toString":   func(v any) string { return fmt.Sprint(v) },
		"trimSuffix": func(end, text string) string { return strings.TrimSuffix(text, end) },
		"trunc":      func(n int, text string) string { return text[:min(n, len(text))] },
		"toYaml": func(v any) (string, error) {
			text, err := yaml.Marshal(v)
			return strings.TrimSuffix(string(text), "\n"), err
		},
		"mustRegexMatch": func(pattern, text string) (bool, error) { return regexp.MatchString(pattern, text) },
		"default": func(otherwise, v any) any {
			if v == nil || v == "" {
				return otherwise
			}
			return v
		},
		"dict": func(pairs ...any) map[string]any {
			out := map[string]any{}
			for i := 0; i+1 < len(pairs); i += 2 {
				out[pairs[i].(string)] = pairs[i+1]
			}
			return out
		},
		"merge": func(into, from map[string]any) map[string]any {
			for key, value := range from {
				if _, has := into[key]; !has {
					into[key] = value
				}
			}
			return into
		},
	}
}

// chartFiles are the files of a chart that its templates read.
type chartFiles string

// Get returns the content of a file; nothing, as Helm does, if there is none.
func (f chartFiles) Get(name string) (string, error) {
	text, err := os.ReadFile(filepath.Join(string(f), name))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return string(text), err
}

// render renders one template, named by its path in the folder templates.
func (c *chart) render(name string) ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(c.dir, "templates", name))
	if err != nil {
		return nil, err
	}
	t, err := c.root.New(name).Parse(string(text))
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = t.Execute(&out, map[string]any{
		"Chart":   map[string]any{"Name": "liqo", "AppVersion": LiqoVersion},
		"Release": map[string]any{"Name": "liqo", "Namespace": LiqoNamespace, "Service": "Helm"},
		"Values":  c.values,
		"Files":   chartFiles(c.dir),
	})
	return out.Bytes(), err
}
