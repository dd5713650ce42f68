package offload

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// SelectedNode is Kubernetes' annotation on a claim whose volume was made on the node of its first pod.
// For an offloaded pod that is the virtual node.
const SelectedNode = "volume.kubernetes.io/selected-node"

// Claim is a PersistentVolumeClaim, by NAMESPACE/NAME and UID, with the node where its volume is.
type Claim struct {
	Name string
	UID  types.UID
	Node string
}

// BoundClaims lists the bound claims of namespaces whose volumes are at a node, at any if it is empty.
func BoundClaims(ctx context.Context, r client.Reader, node string, namespaces []string) (claims []Claim, err error) {
	for _, namespace := range namespaces {
		var list corev1.PersistentVolumeClaimList
		if err := r.List(ctx, &list, client.InNamespace(namespace)); err != nil {
			return nil, err
		}
		for _, c := range list.Items {
			if selected := c.Annotations[SelectedNode]; (selected == node || node == "" && selected != "") &&
				c.Status.Phase == corev1.ClaimBound {
				claims = append(claims, Claim{c.Namespace + "/" + c.Name, c.UID, selected})
			}
		}
	}
	return claims, nil
}

// SortClaims returns the names of claims in order, and a digest of names and UIDs. A claim that was
// deleted and made again with the same name changes the digest. Without claims, both are empty.
func SortClaims(claims []Claim) (names []string, digest string) {
	if len(claims) == 0 {
		return nil, ""
	}
	lines := make([]string, len(claims))
	for i, c := range claims {
		lines[i] = c.Name + " " + string(c.UID)
	}
	slices.Sort(lines)
	sum := sha256.New()
	for _, line := range lines {
		fmt.Fprintln(sum, line)
		name, _, _ := strings.Cut(line, " ")
		names = append(names, name)
	}
	return names, hex.EncodeToString(sum.Sum(nil)[:8])
}
