package lab

import (
	"context"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/liqotech/liqo/pkg/consts"
)

// kubelets runs the virtual kubelets that Liqo makes Deployments for: one process for each, as its
// template says.
type kubelets struct {
	*Cluster
	mu      sync.Mutex
	running map[string]*kubelet // by namespace/name
	ended   bool
}

type kubelet struct {
	template corev1.PodTemplateSpec
	process  *process
	port     int
}

// runKubelets runs virtual kubelets until ctx ends.
func (c *Cluster) runKubelets(ctx context.Context) {
	k := &kubelets{Cluster: c, running: map[string]*kubelet{}}
	factory := informers.NewSharedInformerFactoryWithOptions(c.client,
		0, informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.LabelSelector = "offloading.liqo.io/component=virtual-kubelet"
		}))
	_, err := factory.Apps().V1().Deployments().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { k.run(o.(*appsv1.Deployment)) },
		UpdateFunc: func(_, o any) { k.run(o.(*appsv1.Deployment)) },
		DeleteFunc: func(o any) { k.end(ctx, o) },
	})
	if err != nil {
		c.lab.end(err)
		return
	}
	factory.Start(ctx.Done())
	<-ctx.Done()
	factory.Shutdown()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ended = true
	for _, one := range k.running {
		one.process.kill()
	}
}

// run makes the process of a Deployment what its template says. One with replicas has pods of its own.
func (k *kubelets) run(d *appsv1.Deployment) {
	if *d.Spec.Replicas > 0 {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	id, old := d.Namespace+"/"+d.Name, k.running[d.Namespace+"/"+d.Name]
	if k.ended || old != nil && reflect.DeepEqual(old.template, d.Spec.Template) {
		return
	}
	next := &kubelet{template: d.Spec.Template}
	if old != nil {
		old.process.kill()
		next.port = old.port
	}
	if next.port == 0 {
		port, err := FreePort()
		if err != nil {
			k.lab.end(err)
			return
		}
		next.port = port
	}
	if err := k.exec(d, next, id); err != nil {
		k.lab.end(fmt.Errorf("cluster %q: %w", k.name, err))
	}
}

func (k *kubelets) exec(d *appsv1.Deployment, one *kubelet, id string) error {
	container := d.Spec.Template.Spec.Containers[0]
	args := []string{"--home-kubeconfig=" + k.Kubeconfig(), fmt.Sprintf("--listen-port=%d", one.port)}
	for _, arg := range container.Args {
		args = append(args, strings.ReplaceAll(arg, "$(POD_IP)", "127.0.0.1"))
	}
	env := []string{"POD_IP=127.0.0.1", "POD_NAME=" + d.Name + "-0",
		"POD_NAMESPACE=" + d.Namespace, "KUBECONFIG=" + k.Kubeconfig()}
	for _, e := range container.Env {
		if e.Value != "" {
			env = append(env, e.Name+"="+e.Value)
		}
	}
	crashed := func(cause error) { k.again(d, one, id, cause) }
	var err error
	one.process, err = run(k.liqo.bin.Path(LiqoVirtualKubelet),
		args, k.dir, filepath.Join(k.dir, d.Name+".log"), crashed, env...)
	if err == nil {
		k.running[id] = one
	}
	return err
}

// again starts a virtual kubelet that ended untold: it does on most errors.
func (k *kubelets) again(d *appsv1.Deployment, one *kubelet, id string, cause error) {
	k.lab.say("cluster %s: %s is started again: %v", k.name, d.Name, cause)
	time.Sleep(time.Second)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ended || k.running[id] != one {
		return
	}
	if err := k.exec(d, &kubelet{template: one.template, port: one.port}, id); err != nil {
		k.lab.end(err)
	}
}

func (k *kubelets) end(ctx context.Context, o any) {
	if gone, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = gone.Obj
	}
	d, ok := o.(*appsv1.Deployment)
	if !ok {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	id := d.Namespace + "/" + d.Name
	one := k.running[id]
	if one == nil {
		return
	}
	delete(k.running, id)
	one.process.kill()
	// Liqo deletes the Node once no pod of the virtual kubelet is left. Here it has none, so that it may have made
	// the Node again while it still ran.
	err := k.await(ctx, "its deletion", func(ctx context.Context) error {
		err := k.client.CoreV1().Nodes().Delete(ctx, d.Labels[consts.VirtualNodeLabel], metav1.DeleteOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
	if err != nil {
		k.lab.say("cluster %s: the node of %s: %v", k.name, d.Name, err)
	}
}
