package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/bourse-dev/bourse/test/e2e/federation"
	"github.com/bourse-dev/bourse/test/lab"
)

// What the lab does not run is refused with the names of what it runs.
func TestDoorNamesWhatTheLabRuns(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "door")
	milan := &federation.Member{ClusterOptions: lab.ClusterOptions{Name: "milan"}}
	f := &federation.Federation{Members: []*federation.Member{milan}}
	if err := openDoor(t.Context(), socket, &door{federation: f}); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"":                        "lab kill|start CLUSTER PROCESS",
		"open milan agent":        "lab kill|start CLUSTER PROCESS",
		"kill oslo agent":         `"oslo" is no cluster of the lab: choose one of [milan], or broker`,
		"kill milan":              `"" is no process of a cluster`,
		"start milan nosuch":      "choose agent, or one of [etcd kube-apiserver",
		"kill milan liqo-webhook": `"liqo-webhook" is no process`,
		"get milan demo/here":     `"" is no URL`,
		"get milan a/b http://h":  "run make lab NETWORK=1",
	} {
		if err := knock(t.Context(), socket, strings.Fields(args)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("lab %s: %v, want %s", args, err, want)
		}
	}
}
