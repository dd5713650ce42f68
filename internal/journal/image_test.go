package journal

import "testing"

func TestVerifyFindsForgery(t *testing.T) {
	for name, forge := range map[string]func(*Image){
		"lineage":       func(i *Image) { i.Base.Lineage = "" },
		"base":          func(i *Image) { i.Base.Hash[0] ^= 1 },
		"head":          func(i *Image) { i.Head.Hash[0] ^= 1 },
		"event":         func(i *Image) { i.Records[0].Events[0][0] ^= 1 },
		"empty event":   func(i *Image) { i.Records[0].Events[0] = nil },
		"revision":      func(i *Image) { i.Records[0].Revision++ },
		"no first":      func(i *Image) { i.Records = i.Records[1:] },
		"no last":       func(i *Image) { i.Records = i.Records[:1] },
		"another order": func(i *Image) { i.Records[0], i.Records[1] = i.Records[1], i.Records[0] },
	} {
		image := NewImage()
		for _, event := range []string{"a", "b"} {
			if err := image.Append(image.Head, [][]byte{[]byte(event)}); err != nil {
				t.Fatal(err)
			}
		}
		if err := image.Verify(); err != nil {
			t.Fatal(err)
		}
		forge(&image)
		if err := image.Verify(); err == nil {
			t.Errorf("forged %s: not found", name)
		}
	}
}
