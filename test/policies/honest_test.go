package policies

import (
	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	offv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"
)

// honest are what Liqo's virtual kubelet and its replicator write, by resource:
// pkg/virtualKubelet/forge and internal/crdReplicator of Liqo v1.2.0, and what a lab showed. Each
// is as rich as it gets, so that what the policies refuse is not refused for something else.
func honest(resource, name string) kube.Object {
	mappedMeta := metav1.ObjectMeta{Namespace: mapped, Name: name, Labels: map[string]string{
		"app": "web", "app.kubernetes.io/name": "web", "offloading.liqo.io/origin": "rome", "offloading.liqo.io/destination": "oslo",
	}, Annotations: map[string]string{"liqo.io/allow-reflection": "true", "kubectl.kubernetes.io/last-applied-configuration": "{}", "team": "blue"}}
	tenantMeta := metav1.ObjectMeta{Namespace: tenant, Name: name, Labels: map[string]string{
		"app.kubernetes.io/managed-by": "bourse", "liqo.io/originID": "rome", "liqo.io/remote-cluster-id": "rome", "liqo.io/remoteID": "oslo",
		"liqo.io/replicated": "true", "liqo.io/replication": "false",
	}}
	rome := "rome"
	switch resource {
	case "configmaps":
		return &corev1.ConfigMap{ObjectMeta: mappedMeta, Data: map[string]string{"a": "b"}}
	case "secrets":
		mappedMeta.Labels["offloading.liqo.io/nodename"], mappedMeta.Labels["offloading.liqo.io/service-account-name"] = slice, "default"
		mappedMeta.Annotations["offloading.liqo.io/service-account-for-pod-name"] = "work"
		mappedMeta.Annotations["offloading.liqo.io/service-account-for-pod-uid"] = "1"
		mappedMeta.Annotations["offloading.liqo.io/service-account-expiration"] = "2026-11-23T00:00:00Z"
		return &corev1.Secret{ObjectMeta: mappedMeta, Data: map[string][]byte{"a": []byte("b")}}
	case "services":
		mappedMeta.Annotations["lb.example/kind"], mappedMeta.Annotations["prometheus.io/scrape"] = "small", "true"
		policy := corev1.IPFamilyPolicySingleStack
		return &corev1.Service{ObjectMeta: mappedMeta, Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, Selector: map[string]string{"app": "web"}, IPFamilyPolicy: &policy, SessionAffinity: corev1.ServiceAffinityNone,
			Ports: []corev1.ServicePort{{Name: "http", Port: 80, Protocol: corev1.ProtocolTCP}}, PublishNotReadyAddresses: true,
		}}
	case "persistentvolumeclaims":
		mappedMeta.Annotations["liqo.io/remote-storage-class"], mappedMeta.Annotations["liqo.io/remote-access-modes"] = "fast", "ReadWriteOnce"
		return &corev1.PersistentVolumeClaim{ObjectMeta: mappedMeta, Spec: claim()}
	case "events":
		return &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: mapped, Name: name},
			InvolvedObject: corev1.ObjectReference{Namespace: mapped}}
	case "ingresses":
		class, prefix := "nginx", networkingv1.PathTypePrefix
		backend := networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: "web",
			Port: networkingv1.ServiceBackendPort{Number: 80}}}
		return &networkingv1.Ingress{ObjectMeta: mappedMeta, Spec: networkingv1.IngressSpec{
			IngressClassName: &class, DefaultBackend: &backend, TLS: []networkingv1.IngressTLS{{Hosts: []string{"web.example"},
				SecretName: "tls"}},
			Rules: []networkingv1.IngressRule{{Host: "web.example",
				IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{
					Paths: []networkingv1.HTTPIngressPath{{Path: "/", PathType: &prefix, Backend: backend}},
				}}}},
		}}
	case "shadowpods":
		mappedMeta.Labels["offloading.liqo.io/nodename"], mappedMeta.Labels["liqo.io/managed-by"] = slice, "shadowpod"
		mappedMeta.Labels["liqo.io/creator-user"] = user
		mappedMeta.Annotations["liqo.io/anti-affinity-preset"] = "soft"
		return &offv1beta1.ShadowPod{ObjectMeta: mappedMeta, Spec: offv1beta1.ShadowPodSpec{Pod: pod()}}
	case "shadowendpointslices":
		mappedMeta.Labels["endpointslice.kubernetes.io/managed-by"] = "endpointslice.reflection.liqo.io"
		mappedMeta.Labels["kubernetes.io/service-name"], mappedMeta.Labels["liqo.io/managed-by"] = "web", "shadowendpointslice"
		mappedMeta.Annotations["endpoints.kubernetes.io/last-change-trigger-time"] = "2026-11-23T00:00:00Z"
		ready, port := true, int32(80)
		return &offv1beta1.ShadowEndpointSlice{ObjectMeta: mappedMeta,
			Spec: offv1beta1.ShadowEndpointSliceSpec{Template: offv1beta1.EndpointSliceTemplate{
				AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Port: &port}},
				Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.1.0.7"},
					Conditions: discoveryv1.EndpointConditions{Ready: &ready}, NodeName: &rome}},
			}}}
	case "resourceslices":
		tenantMeta.Name = slice
		return &authv1beta1.ResourceSlice{ObjectMeta: tenantMeta, Spec: authv1beta1.ResourceSliceSpec{Class: "bourse"}}
	case "renews":
		tenantMeta.Name = "controlplane-oslo"
		return &authv1beta1.Renew{ObjectMeta: tenantMeta,
			Spec: authv1beta1.RenewSpec{ConsumerClusterID: "rome", IdentityType: authv1beta1.ControlPlaneIdentityType}}
	case "namespacemaps":
		tenantMeta.Name = "oslo"
		return &offv1beta1.NamespaceMap{ObjectMeta: tenantMeta,
			Spec: offv1beta1.NamespaceMapSpec{DesiredMapping: map[string]string{"demo": "demo-rome"}}}
	}
	return nil
}

func claim() corev1.PersistentVolumeClaimSpec {
	fast, mode := "fast", corev1.PersistentVolumeFilesystem
	return corev1.PersistentVolumeClaimSpec{
		StorageClassName: &fast, VolumeMode: &mode, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
	}
}

// pod is one of a user who uses all that there is.
func pod() corev1.PodSpec {
	no, yes, id, five := false, true, int64(1000), int64(5)
	always, nvidia := corev1.RestartPolicyAlways, "nvidia"
	probe := func(h corev1.ProbeHandler) *corev1.Probe { return &corev1.Probe{ProbeHandler: h, PeriodSeconds: 10} }
	amounts := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"),
		corev1.ResourceMemory: resource.MustParse("64Mi")}
	container := func(name string) corev1.Container {
		return corev1.Container{
			Name: name, Image: "localhost/c", Command: []string{"run"}, Args: []string{"it"}, WorkingDir: "/", Ports: []corev1.ContainerPort{{ContainerPort: 80}},
			Env: []corev1.EnvVar{{Name: "A",
				Value: "b"}}, EnvFrom: []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "s"}}}},
			Resources: corev1.ResourceRequirements{Requests: amounts,
				Limits: amounts}, VolumeMounts: []corev1.VolumeMount{{Name: "empty", MountPath: "/empty"}},
			VolumeDevices: []corev1.VolumeDevice{{Name: "claim",
				DevicePath: "/dev/x"}}, TerminationMessagePath: "/dev/termination-log",
			TerminationMessagePolicy: corev1.TerminationMessageReadFile, ImagePullPolicy: corev1.PullAlways, Stdin: true, StdinOnce: true, TTY: true,
			ResizePolicy: []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceCPU, RestartPolicy: corev1.NotRequired}},
			SecurityContext: &corev1.SecurityContext{
				RunAsUser: &id, RunAsNonRoot: &yes, AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes, Privileged: &no,
				Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"},
					Add: []corev1.Capability{"CHOWN"}}, SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
		}
	}
	main := container("c")
	main.LivenessProbe = probe(corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"true"}}})
	main.ReadinessProbe = probe(corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/",
		HTTPHeaders: []corev1.HTTPHeader{{Name: "Host", Value: "web.example"}}}})
	main.StartupProbe = probe(corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{}})
	main.Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 1}}}
	s := corev1.PodSpec{
		Containers: []corev1.Container{main}, InitContainers: []corev1.Container{container("i")}, RestartPolicy: always, RuntimeClassName: &nvidia,
		TerminationGracePeriodSeconds: &five, ActiveDeadlineSeconds: &five, DNSPolicy: corev1.DNSClusterFirst, DNSConfig: &corev1.PodDNSConfig{Searches: []string{"web.example"}},
		// Liqo after 1.2 writes one alias for each address of the consumer's API server.
		EnableServiceLinks: &no, HostAliases: []corev1.HostAlias{{IP: "10.0.0.1", Hostnames: []string{"kubernetes.default"}},
			{IP: "10.0.0.2", Hostnames: []string{"kubernetes.default"}}}, Hostname: "h", Subdomain: "s", SetHostnameAsFQDN: &no,
		ImagePullSecrets: []corev1.LocalObjectReference{{Name: "s"}}, ReadinessGates: []corev1.PodReadinessGate{{ConditionType: "x"}}, ShareProcessNamespace: &yes,
		AutomountServiceAccountToken: &no, NodeSelector: map[string]string{"a": "b"}, SecurityContext: &corev1.PodSecurityContext{RunAsUser: &id, FSGroup: &id, Sysctls: []corev1.Sysctl{{Name: "net.ipv4.tcp_syncookies", Value: "1"}}},
		Tolerations: []corev1.Toleration{{Key: corev1.TaintNodeNotReady,
			Operator: corev1.TolerationOpExists, TolerationSeconds: &five}},
		Affinity: &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{
			Weight: 1, PodAffinityTerm: corev1.PodAffinityTerm{TopologyKey: corev1.LabelHostname,
				LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
		}}}, NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "x", Operator: corev1.NodeSelectorOpExists}},
		}}}}},
		TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{MaxSkew: 1,
			TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway}},
	}
	ref := corev1.LocalObjectReference{Name: "x"}
	spec := claim()
	for name, source := range map[string]corev1.VolumeSource{
		"empty": {EmptyDir: &corev1.EmptyDirVolumeSource{}}, "secret": {Secret: &corev1.SecretVolumeSource{SecretName: "x"}}, "config": {ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: ref}},
		"down": {DownwardAPI: &corev1.DownwardAPIVolumeSource{}}, "claim": {PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "x"}},
		"own": {Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{Spec: spec}}},
		"projected": {Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{Secret: &corev1.SecretProjection{LocalObjectReference: ref}}, {ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: ref}},
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "p"}}, {DownwardAPI: &corev1.DownwardAPIProjection{}},
		}}},
	} {
		s.Volumes = append(s.Volumes, corev1.Volume{Name: name, VolumeSource: source})
	}
	return s
}
