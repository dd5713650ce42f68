package api

// Offload says which namespaces may run pods on a reservation. It concerns only the consumer's own
// cluster: the broker does not receive it.
type Offload struct {
	// Namespaces are offloaded once the virtual node is Ready. They are the request's own
	// namespace, or namespaces whose label bourse.dev/requests-from names the request's namespace.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=63
	Namespaces []string `json:"namespaces"`
	// Strategy says where pods of these namespaces may run. Default LocalAndRemote.
	// +optional
	Strategy OffloadStrategy `json:"strategy,omitempty"`
	// Others does nothing any more. Deprecated: a namespace consents for itself, by the label
	// bourse.dev/offload-to-any.
	// +optional
	Others bool `json:"others,omitempty"`
	// Data is the rule for a namespace that has volumes at a provider. `Stay`: it gets no other
	// provider. `Move`: it may, and the volumes stay behind. Default Stay.
	// +optional
	Data DataPolicy `json:"data,omitempty"`
	// Reflect says what Liqo copies to the provider besides pods. All namespaces at a provider share
	// it: other values than the defaults need the verb reflect of ResourceRequests.
	// +optional
	Reflect *Reflect `json:"reflect,omitempty"`
}

// Check reports whether the namespaces can get a name at a provider. It accepts a nil Offload.
// Errors: Invalid at offload.namespaces.
func (o *Offload) Check(cluster string) error {
	if o == nil {
		return nil
	}
	for _, name := range o.Namespaces {
		if err := CheckNamespace(name, cluster); err != nil {
			return err
		}
	}
	return nil
}

// MaxConsumerID is the largest number of characters of a cluster ID with which a namespace, of one character, can
// still be offloaded.
const MaxConsumerID = maxRemoteName - len("n-")

const maxRemoteName = 63 // a namespace is a DNS label

// CheckNamespace reports whether a namespace can get a name at a provider. Liqo appends the cluster
// ID to it there. Errors: Invalid at offload.namespaces.
func CheckNamespace(name, cluster string) error {
	if remote := name + "-" + cluster; len(remote) > maxRemoteName {
		return Invalid("offload.namespaces",
			"%s would be named %s at the provider, which is longer than %d characters", name, remote, maxRemoteName).
			Fix("offload a namespace with a shorter name")
	}
	return nil
}

// DataPolicy is the rule for a namespace that has volumes at a provider.
//
// +kubebuilder:validation:Enum=Stay;Move
type DataPolicy string

const (
	DataStay DataPolicy = "Stay"
	DataMove DataPolicy = "Move"
)

// OffloadStrategy is Liqo's podOffloadingStrategy.
//
// +kubebuilder:validation:Enum=Local;Remote;LocalAndRemote
type OffloadStrategy string

// Where the pods of an offloaded namespace may run.
const (
	OffloadRemote         OffloadStrategy = "Remote"
	OffloadLocalAndRemote OffloadStrategy = "LocalAndRemote"
)

// Reflect says what Liqo copies of an offloaded namespace to the provider, besides pods.
type Reflect struct {
	// Secrets are copied by default only with the annotation liqo.io/allow-reflection. ConfigMaps
	// and Services are copied by default.
	// +optional
	Secrets ReflectPolicy `json:"secrets,omitempty"`
	// +optional
	ConfigMaps ReflectPolicy `json:"configMaps,omitempty"`
	// +optional
	Services ReflectPolicy `json:"services,omitempty"`
}

// ReflectPolicy says which objects of a kind are copied.
//
// +kubebuilder:validation:Enum=All;AllowList;None
type ReflectPolicy string

// Which objects of a kind are copied.
const (
	ReflectAll       ReflectPolicy = "All"
	ReflectAllowList ReflectPolicy = "AllowList" // with the annotation liqo.io/allow-reflection: "true"
	ReflectNone      ReflectPolicy = "None"
)

// OffloadToAnyLabel with the value "true" on a namespace says that its own NamespaceOffloading may take it to virtual
// nodes of any provider, also of those that requests of others bring.
const OffloadToAnyLabel = Group + "/offload-to-any"

// RequestsFromLabel on a namespace names the namespace whose requests may offload it.
const RequestsFromLabel = Group + "/requests-from"
