package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/client-go/util/jsonpath"
	"sigs.k8s.io/yaml"

	"github.com/bourse-dev/bourse/api"
)

// forms are the output formats of -o. Two more have paths: jsonpath=PATH, custom-columns=TITLE:PATH,...
var forms = []string{"table", "wide", "json", "yaml", "name"}

// moreForms is the annotation of a command that has one more form of -o.
const moreForms = "forms"

// field is what -o jsonpath or one of custom-columns prints.
type field struct {
	title, text string
	path        *jsonpath.JSONPath
}

// checkForm refuses an unknown -o. It reads the paths of those that have paths.
func (sh *shell) checkForm(cmd *cobra.Command, _ []string) error {
	kind, text, _ := strings.Cut(sh.output, "=")
	specs := []string{":" + text}
	switch {
	case slices.Contains(forms, sh.output), sh.output != "" && sh.output == cmd.Annotations[moreForms]:
		return nil
	case kind == "custom-columns" && text != "":
		specs = strings.Split(text, ",")
	case kind != "jsonpath" || text == "":
		return api.Invalid("--output", "%q is not an output format", sh.output).
			Fix("choose %s, jsonpath=PATH, custom-columns=TITLE:PATH,...", strings.Join(forms, ", "))
	}
	for _, spec := range specs {
		title, path, _ := strings.Cut(spec, ":")
		if !strings.HasPrefix(path, "{") {
			path = "{" + path + "}"
		}
		f := field{title, path, jsonpath.New(title).AllowMissingKeys(true)}
		if err := f.path.Parse(path); err != nil {
			return api.Invalid("--output", "%q is not a path: %s", path, err).Fix("write it as kubectl does: {.payload.state}")
		}
		sh.fields = append(sh.fields, f)
	}
	sh.output = kind
	return nil
}

// encodes reports whether -o wants the payload itself.
func (sh *shell) encodes() bool {
	return slices.Contains([]string{"json", "yaml", "jsonpath", "custom-columns"}, sh.output)
}

// encode writes a payload in the format of -o. It leaves signed documents out, unless
// --show-documents is given.
func (sh *shell) encode(v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	if !sh.documents {
		data = document.ReplaceAll(data, []byte(`$1"(signed: --show-documents)"`))
	}
	switch sh.output {
	case "yaml":
		data, err = yaml.JSONToYAML(data)
	case "jsonpath", "custom-columns":
		return sh.writeFields(data)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(sh.out, strings.TrimSuffix(string(data), "\n"))
	return err
}

// document matches a member of an object, or an item of a list, that is a signed document.
var document = regexp.MustCompile(`(?m)^( *(?:"\w+": )?)"eyJ[\w-]+\.[\w-]+\.[\w-]+"`)

// writeFields writes what the paths of -o find: jsonpath in the whole payload, custom-columns in each
// item of a list.
func (sh *shell) writeFields(data []byte) error {
	var whole any
	numbers := json.NewDecoder(bytes.NewReader(data))
	numbers.UseNumber()
	if err := numbers.Decode(&whole); err != nil {
		return err
	}
	find := func(f field, in any) (string, error) {
		var found bytes.Buffer
		if err := f.path.Execute(&found, in); err != nil {
			return "", api.Invalid("--output", "%s", err).Fix("see what there is: -o json")
		}
		return found.String(), nil
	}
	items, isList := whole.([]any)
	if sh.output == "jsonpath" {
		if isList && strings.HasPrefix(sh.fields[0].text, "{.") {
			return api.Invalid("--output", "%s reads a field, and the result is a list without items", sh.fields[0].text).
				Fix("write {[*].id}, or {range [*]}{.id}{\"\\n\"}{end}")
		}
		text, err := find(sh.fields[0], whole)
		if err == nil {
			_, err = fmt.Fprintln(sh.out, text)
		}
		return err
	}
	if !isList {
		items = []any{whole}
	}
	rows := make([][]string, len(items)+1)
	for _, f := range sh.fields {
		rows[0] = append(rows[0], f.title)
		for i, item := range items {
			text, err := find(f, item)
			if err != nil {
				return err
			}
			rows[i+1] = append(rows[i+1], text)
		}
	}
	return sh.table(rows)
}
