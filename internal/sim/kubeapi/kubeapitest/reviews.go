package kubeapitest

import (
	"slices"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// testReviews asks who the administrator of the suite is, and what it may do.
func testReviews(s *suite) {
	me, err := s.kube.AuthenticationV1().SelfSubjectReviews().Create(s.ctx, &authenticationv1.SelfSubjectReview{},
		metav1.CreateOptions{})
	s.ok(err)
	if user := me.Status.UserInfo; user.Username == "" || !slices.Contains(user.Groups, "system:authenticated") {
		s.Errorf("the administrator is %+v", user)
	}
	reviews := s.kube.AuthorizationV1().SelfSubjectAccessReviews()
	for _, spec := range []authorizationv1.SelfSubjectAccessReviewSpec{
		{ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "create", Namespace: s.ns, Resource: "pods"}},
		{ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "list", Resource: "nodes"}},
		{NonResourceAttributes: &authorizationv1.NonResourceAttributes{Verb: "get", Path: "/version"}},
	} {
		review, err := reviews.Create(s.ctx, &authorizationv1.SelfSubjectAccessReview{Spec: spec}, metav1.CreateOptions{})
		s.ok(err)
		s.equal(review.Status.Allowed, true, "what the administrator may do")
	}
	_, err = reviews.Create(s.ctx, &authorizationv1.SelfSubjectAccessReview{}, metav1.CreateOptions{})
	s.refused(err, apierrors.IsInvalid, "a review of nothing")
}
