package arch

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/payload"
)

// An API server accepts the amounts of our kinds that the decoder does: controller-gen writes the same
// pattern in other words.
func TestAmountsOfCRDs(t *testing.T) {
	files, err := filepath.Glob("../../config/crd/bourse.dev_*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	ours, found := regexp.MustCompile(api.QuantityPattern), 0
	length := fmt.Sprintf("maxLength: %d", api.QuantityLength)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(string(text), "\n")
		for i, line := range lines {
			if strings.TrimSpace(line) != "x-kubernetes-int-or-string: true" {
				continue
			}
			found++
			if strings.TrimSpace(lines[i-2]) != length {
				t.Errorf("%s:%d: an amount is not bounded: want %s", file, i+1, length)
			}
			pattern, has := strings.CutPrefix(strings.TrimSpace(lines[i-1]), "pattern: ")
			if !has {
				t.Fatalf("%s:%d: an amount has no pattern", file, i+1)
			}
			theirs := regexp.MustCompile(pattern)
			for _, amount := range amounts() {
				if want := ours.MatchString(amount); theirs.MatchString(amount) != want || payload.IsQuantity(amount) != want {
					t.Fatalf("%s:%d: %q: %t by the CRD, %t by the decoder, %t by api.QuantityPattern", file, i+1, amount,
						theirs.MatchString(amount), payload.IsQuantity(amount), want)
				}
			}
		}
	}
	if found == 0 {
		t.Error("no CRD has an amount")
	}
}

// A column of kubectl get that shows the sum of an account says so, and one of the reservation is that of its row.
func TestColumnsOfAnAccount(t *testing.T) {
	files, err := filepath.Glob("../../config/crd/bourse.dev_*instructions.yaml")
	if err != nil || len(files) != 2 {
		t.Fatal(files, err)
	}
	column := regexp.MustCompile(`jsonPath: \.status\.(account\.)?(granted|used|sharedBy)[^\n]*\n +name: ([^\n]*)`)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		found := column.FindAllStringSubmatch(string(text), -1)
		for _, one := range found {
			if strings.HasPrefix(one[3], "Account ") != (one[1] != "") {
				t.Errorf("%s: column %s shows %s%s", file, one[3], one[1], one[2])
			}
		}
		if len(found) != 4 {
			t.Errorf("%s has %d columns of the account and the reservation", file, len(found))
		}
	}
}

// amounts are texts of at most 32 characters, of all forms that an amount can and cannot have.
func amounts() (all []string) {
	for _, sign := range []string{"", "+", "-", "--"} {
		for _, number := range []string{"", "0", "12", "1.", "1.5", ".5", ".", "1.5.5", "١"} {
			for _, suffix := range []string{"", "n", "u", "m", "k", "K", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "ki",
				"mi", "i", "KiB", "e", "e3", "E3", "e+3", "e-12", "E99", "e123", "e-999999999", "e1.5", "e.5", " ", "\n"} {
				all = append(all, sign+number+suffix)
			}
		}
	}
	return all
}
