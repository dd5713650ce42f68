package lab

import (
	"context"
	"fmt"
	"path/filepath"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Config is the way in for an admin (group system:masters), without a rate limit on the client's
// side. The caller may change it: it is a copy.
func (c *Cluster) Config() *rest.Config { return rest.CopyConfig(c.admin) }

// Kubeconfig is the path of the same as a file.
func (c *Cluster) Kubeconfig() string { return filepath.Join(c.dir, "kubeconfig") }

// ServiceAccount is the way in for an existing ServiceAccount, with just the rights that RBAC gives
// it. Its token lasts an hour.
func (c *Cluster) ServiceAccount(ctx context.Context, namespace, name string) (*rest.Config, error) {
	request, err := c.client.CoreV1().ServiceAccounts(namespace).
		CreateToken(ctx, name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("token for ServiceAccount %s/%s: %w", namespace, name, err)
	}
	config := c.Config()
	config.BearerToken = request.Status.Token
	config.UserAgent = ""
	return config, nil
}

// WriteKubeconfig writes a kubeconfig (mode 0600) with one context of the given name, from what
// Config or ServiceAccount returned.
func WriteKubeconfig(path, name string, config *rest.Config) error {
	return clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{
			name: {Server: config.Host, CertificateAuthorityData: config.CAData},
		},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{name: {Token: config.BearerToken}},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name}},
		CurrentContext: name,
	}, path)
}
