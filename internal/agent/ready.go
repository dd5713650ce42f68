package agent

import (
	"context"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	bourse "github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/internal/agent/federation/enrollment"
	"github.com/bourse-dev/bourse/internal/agent/scheme"
	"github.com/bourse-dev/bourse/internal/agent/settings"
	"github.com/bourse-dev/bourse/internal/liqo"
	"github.com/bourse-dev/bourse/internal/liqo/posture"
)

// This file has what an agent that leads makes before it is Ready.

// makeConsumerList makes the list of consumers, without which the admission policies refuse what they look at to
// all. It is nil without Liqo. It tries until the list is there, unless this agent cannot make it.
func makeConsumerList(ctx context.Context, m ctrl.Manager, s settings.Settings) (*posture.ConsumerList, error) {
	if s.Liqo.Off {
		return nil, nil
	}
	if there, err := liqo.Installed(m.GetRESTMapper()); err != nil || !there {
		return nil, err
	}
	kube, err := scheme.NewClientset(m.GetConfig())
	if err != nil {
		return nil, err
	}
	list := &posture.ConsumerList{
		Reader: m.GetAPIReader(), Writer: m.GetClient(), Namespace: s.Namespace,
		Watched: kube.CoreV1().ConfigMaps(s.Namespace), Events: m.GetEventRecorder("bourse-agent"), Log: s.Log,
	}
	for {
		err := list.Make(ctx)
		if posture.IsImpossible(err) {
			s.Log.Warn("nobody is listed as a consumer: apply config/liqo/peerings.yaml", "error", err)
			return list, nil
		}
		if err == nil {
			return list, nil
		}
		s.Log.Warn("the list of brokered consumers cannot be made yet", "error", err)
		select {
		case <-realClock.After(time.Second):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// makeRecord records this agent in its cluster, unless that is a clone, which may not stay.
func (w *wiring) makeRecord(ctx context.Context) error {
	kube, err := client.NewWithWatch(w.manager.GetConfig(), client.Options{
		HTTPClient: w.manager.GetHTTPClient(), Scheme: w.manager.GetScheme(), Mapper: w.manager.GetRESTMapper()})
	if err != nil {
		return err
	}
	w.record = enrollment.NewRecord(enrollment.RecordOptions{Client: kube, Former: w.member.Former(), Clock: realClock, Log: w.Log,
		Own: api.RecordedAgent{Fingerprint: w.key.Public().Fingerprint().String(), Ledger: w.market.Lineage(), Cluster: w.cluster,
			Namespace: w.Namespace, Version: bourse.Version()}})
	if w.member.IsCloned() {
		return nil
	}
	w.record.Make(ctx)
	w.stages.First = append(w.stages.First, w.record)
	return nil
}
