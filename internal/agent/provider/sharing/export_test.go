package sharing

import ctrl "sigs.k8s.io/controller-runtime"

// CardOf is showPolicy.
var CardOf = showPolicy

// ReconcileDefault asks for a look at the SharingPolicy.
var ReconcileDefault = ctrl.Request{NamespacedName: policyKey}
