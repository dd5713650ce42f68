package kubeapitest

import (
	"context"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/dynamic/dynamicinformer"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func testInformer(s *suite) {
	s.create(widget("a", nil))
	factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(s.dynamic, 0, s.ns, nil)
	lister := factory.ForResource(widgetsResource()).Lister()
	ctx, stop := context.WithCancel(s.ctx)
	factory.Start(ctx.Done())
	s.Cleanup(func() { stop(); factory.Shutdown() })
	factory.WaitForCacheSync(ctx.Done())
	has := func(names ...string) func() bool {
		return func() bool {
			all, err := lister.List(labels.Everything())
			s.ok(err)
			found := map[string]bool{}
			for _, o := range all {
				found[o.(*unstructured.Unstructured).GetName()] = true
			}
			for _, name := range names {
				if !found[name] {
					return false
				}
			}
			return len(all) == len(names)
		}
	}
	if !has("a")() {
		s.Error("a synced cache lacks what was there before")
	}
	s.create(widget("b", nil))
	s.delete("a")
	s.eventually("the cache holds b alone", has("b"))
}

// start runs a manager of one namespace until the test ends or stop is called.
func (s *suite) start(o manager.Options, with func(manager.Manager)) (stop func()) {
	s.Helper()
	o.Metrics = server.Options{BindAddress: "0"}
	o.Cache = cache.Options{DefaultNamespaces: map[string]cache.Config{s.ns: {}}}
	// several tests in one process; the priority queue of v0.23 leaks goroutines when it shuts down
	yes, no := true, false
	o.Controller = config.Controller{SkipNameValidation: &yes, UsePriorityQueue: &no}
	m, err := ctrl.NewManager(s.cfg, o)
	s.ok(err)
	with(m)
	ctx, cancel := context.WithCancel(s.ctx)
	ended := make(chan error, 1)
	go func() { ended <- m.Start(ctx) }()
	var stopped atomic.Bool
	stop = func() {
		cancel()
		if stopped.CompareAndSwap(false, true) {
			if err := <-ended; err != nil {
				s.Errorf("the manager ended with: %v", err)
			}
		}
	}
	s.Cleanup(stop)
	return stop
}

// testReconciler writes the status of widgets as a controller of ours does.
func testReconciler(s *suite) {
	s.create(widget("before", object{"size": int64(1)}))
	s.start(manager.Options{}, func(m manager.Manager) {
		err := ctrl.NewControllerManagedBy(m).Named("widgets").For(widget("", nil)).Complete(reconcile.Func(
			func(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
				w := widget("", nil)
				if err := m.GetClient().Get(ctx, r.NamespacedName, w); err != nil {
					return reconcile.Result{}, client.IgnoreNotFound(err)
				}
				status := widget(r.Name, nil)
				status.SetNamespace(r.Namespace)
				status.Object["status"] = object{"observedGeneration": w.GetGeneration()}
				return reconcile.Result{}, m.GetClient().Status().Apply(ctx,
					client.ApplyConfigurationFromUnstructured(status), client.FieldOwner("test"), client.ForceOwnership)
			}))
		s.ok(err)
	})
	observed := func(name string, generation int64) {
		s.Helper()
		s.eventually("the status of "+name+" is written", func() bool {
			got, _, _ := unstructured.NestedInt64(s.get(name).Object, "status", "observedGeneration")
			return got == generation
		})
	}
	observed("before", 1)
	s.create(widget("after", object{"size": int64(1)}))
	observed("after", 1)
	w := s.get("after")
	w.Object["spec"] = object{"size": int64(2)}
	s.update(w)
	observed("after", 2)
}

func testLeaderElection(s *suite) {
	retry := 50 * time.Millisecond
	contend := func(leads *atomic.Bool) (stop func()) {
		o := manager.Options{
			LeaderElection: true, LeaderElectionID: "test", LeaderElectionNamespace: s.ns,
			LeaderElectionReleaseOnCancel: true, RetryPeriod: &retry,
		}
		return s.start(o, func(m manager.Manager) {
			s.ok(m.Add(manager.RunnableFunc(func(ctx context.Context) error {
				leads.Store(true)
				<-ctx.Done()
				leads.Store(false)
				return nil
			})))
		})
	}
	var first, second atomic.Bool
	stopFirst := contend(&first)
	s.eventually("the first leads", first.Load)
	contend(&second)
	lease, err := s.kube.CoordinationV1().Leases(s.ns).Get(s.ctx, "test", metav1.GetOptions{})
	s.ok(err)
	if second.Load() {
		s.Error("two lead at once")
	}
	stopFirst()
	s.eventually("the second leads", second.Load)
	after, err := s.kube.CoordinationV1().Leases(s.ns).Get(s.ctx, "test", metav1.GetOptions{})
	s.ok(err)
	if *after.Spec.HolderIdentity == *lease.Spec.HolderIdentity {
		s.Error("the lease's holder is still the first")
	}
}

func testRecorder(s *suite) {
	w := s.create(widget("a", nil))
	s.start(manager.Options{}, func(m manager.Manager) {
		s.ok(m.Add(manager.RunnableFunc(func(context.Context) error {
			m.GetEventRecorder("test").Eventf(w, nil, corev1.EventTypeNormal, "Tested", "Test", "size is %d", 1)
			return nil
		})))
	})
	s.eventually("the event is there", func() bool {
		list, err := s.kube.EventsV1().Events(s.ns).List(s.ctx, metav1.ListOptions{})
		s.ok(err)
		return len(list.Items) == 1 && list.Items[0].Reason == "Tested" && list.Items[0].Regarding.UID == w.GetUID()
	})
}
