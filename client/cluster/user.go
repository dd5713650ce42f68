package cluster

import (
	"context"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// UserName returns the name by which the API server knows a kubeconfig's user; "you" if it does not say it.
func UserName(ctx context.Context, config *rest.Config) string {
	c, err := kubernetes.NewForConfig(config)
	if err != nil {
		return "you"
	}
	review, err := c.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{},
		metav1.CreateOptions{})
	if err != nil || review.Status.UserInfo.Username == "" {
		return "you"
	}
	return review.Status.UserInfo.Username
}
