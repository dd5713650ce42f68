package main

import (
	"context"
	"fmt"
	"strings"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"

	"github.com/bourse-dev/bourse/test/lab"
)

const (
	podMillis   = 100 // of CPU, that a pod requests
	podsPerNode = 30
	// atOnce is how many objects are created at the same time.
	atOnce = 64
)

func nodeName(i int) string { return fmt.Sprintf("node-%04d", i) }

func (s *scale) addNodes(ctx context.Context, n int) error {
	nodes := make([]lab.Node, n)
	for i := range nodes {
		nodes[i] = lab.Node{Name: nodeName(i), Labels: map[string]string{
			corev1.LabelTopologyRegion: "eu", corev1.LabelTopologyZone: fmt.Sprintf("eu-%c",
				'a'+i%3), "node.kubernetes.io/instance-type": "m6i.2xlarge",
		}}
	}
	return s.cluster.AddNodes(ctx, nodes...)
}

// addPods creates pods that are already on their nodes.
func (s *scale) addPods(ctx context.Context, n int) error {
	config := s.cluster.Config()
	config.ContentType = runtime.ContentTypeProtobuf
	k, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for i := range n {
		group.Go(func() error {
			_, err := k.CoreV1().Pods("default").Create(ctx, podNumber(i), metav1.CreateOptions{})
			return err
		})
	}
	return group.Wait()
}

// podNumber is a pod as large as they come from a usual chart: about 4 KiB, with a text in place of the
// status that nobody writes here.
func podNumber(i int) *corev1.Pod {
	app := fmt.Sprintf("app-%03d", i%300)
	probe := &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/healthz",
		Port: intstr.FromInt32(8080)}}}
	container := corev1.Container{
		Name: app, Image: "registry.example/team/" + app + ":v1.2.3", Args: []string{"--listen=:8080", "--log=json"},
		Resources: corev1.ResourceRequirements{
			Requests: resources("cpu", fmt.Sprintf("%dm", podMillis), "memory", "128Mi"), Limits: resources("memory", "256Mi"),
		},
		LivenessProbe: probe, ReadinessProbe: probe,
		VolumeMounts: []corev1.VolumeMount{{Name: "config", MountPath: "/etc/app"}, {Name: "data", MountPath: "/data"}},
	}
	for e := range 10 {
		container.Env = append(container.Env, corev1.EnvVar{Name: fmt.Sprintf("SETTING_%d", e),
			Value: "a value of usual length"})
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("%s-7d9c5b8f6d-%05d", app, i),
			Labels: map[string]string{"app.kubernetes.io/name": app,
				"app.kubernetes.io/instance": app, "pod-template-hash": "7d9c5b8f6d"},
			Annotations: map[string]string{"bench/status": strings.Repeat("x", 1500)},
		},
		Spec: corev1.PodSpec{
			NodeName: nodeName(i / podsPerNode), Containers: []corev1.Container{container},
			Volumes: []corev1.Volume{
				{Name: "config",
					VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: app}}}},
				{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			},
		},
	}
}
