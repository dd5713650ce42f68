package posture

import "strings"

// Render returns the policies for the agent of a ServiceAccount in a namespace. config/liqo/policies.yaml is what it
// returns for bourse-agent in namespace bourse.
func Render(namespace, account string) []byte { return RenderFor(manifest, namespace, account) }

// RenderFor puts another namespace and account into policies that are written for bourse-agent in namespace bourse: also
// into those of config/rbac.
func RenderFor(policies []byte, namespace, account string) []byte {
	return []byte(strings.NewReplacer(
		"system:serviceaccount:bourse:bourse-agent", "system:serviceaccount:"+namespace+":"+account,
		"namespace: bourse,", "namespace: "+namespace+",",
		"request.namespace == 'bourse'", "request.namespace == '"+namespace+"'",
		"? oldObject.metadata.name == 'bourse' :", "? oldObject.metadata.name == '"+namespace+"' :",
		"kubectl annotate namespace bourse ", "kubectl annotate namespace "+namespace+" ",
		"kubernetes.io/metadata.name: bourse}", "kubernetes.io/metadata.name: "+namespace+"}",
		".namespace('bourse')", ".namespace('"+namespace+"')",
	).Replace(string(policies)))
}
