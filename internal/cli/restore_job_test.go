package cli

import (
	"bytes"
	"os"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	"sigs.k8s.io/yaml"
)

// The Job that restores a backup is valid, and its command line too: what it lacks here is only the backup.
func TestRestoreJob(t *testing.T) {
	data, err := os.ReadFile("../../config/broker/restore.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(data), "---\n")
	var job batchv1.Job
	if err := yaml.UnmarshalStrict([]byte(text), &job); err != nil {
		t.Fatal(err)
	}
	var out, progress bytes.Buffer
	code := Main(job.Spec.Template.Spec.Containers[0].Args, &out, &progress)
	if code == 0 || !strings.Contains(progress.String(), "/backup/backup: no such file") {
		t.Errorf("exit code %d: %s", code, progress.String())
	}
}

// Help is as wide as the terminal.
func TestHelpFits(t *testing.T) {
	t.Setenv("COLUMNS", "80")
	t.Setenv("XDG_RUNTIME_DIR", "/run/user/1000") // the default of --socket is in it, or below a home of any length
	for _, command := range []string{"reserve", "extend", "broker", "trust"} {
		var out, progress bytes.Buffer
		Main([]string{command, "--help"}, &out, &progress)
		text, _, _ := strings.Cut(out.String(), "Usage:")
		if _, flags, ok := strings.Cut(out.String(), "\nFlags:"); ok {
			text += flags
		}
		for line := range strings.Lines(text) {
			if len(strings.TrimSuffix(line, "\n")) > 80 {
				t.Errorf("%s --help: %q has %d columns", command, line, len(line))
			}
		}
	}
}
