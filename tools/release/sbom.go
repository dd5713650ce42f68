package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
)

// component is a part of a program, in the words of CycloneDX.
type component struct {
	Type    string `json:"type"`
	Name    string `json:"name"`
	Version string `json:"version"`
	PURL    string `json:"purl"`
}

func newComponent(kind, module, version string) component {
	purl := "pkg:golang/" + module + "@" + strings.ReplaceAll(version, "+", "%2B")
	return component{Type: kind, Name: module, Version: version, PURL: purl}
}

// writeSBOM writes the list of the modules in the program (CycloneDX), which scanners look up in their databases.
func writeSBOM(dir string, p program) error {
	main := newComponent("application", p.info.Main.Path, p.info.Main.Version)
	parts := []component{newComponent("library", "stdlib", strings.TrimPrefix(p.info.GoVersion, "go"))}
	for _, module := range p.info.Deps {
		if module.Replace != nil {
			module = module.Replace
		}
		parts = append(parts, newComponent("library", module.Path, module.Version))
	}
	text, err := json.MarshalIndent(map[string]any{"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1,
		"metadata": map[string]any{"component": main}, "components": parts}, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, p.fileName()+".cdx.json"), append(text, '\n'), 0o644)
}
