package api

// Offload says which namespaces' pods may run on what is borrowed. It concerns the consumer's own cluster:
// the broker is not told.
type Offload struct {
	// Namespaces are offloaded once the virtual node is Ready: the request's own, or such as carry the label
	// bourse.dev/requests-from with the name of the request's namespace.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=63
	Namespaces []string `json:"namespaces"`
	// Strategy says where pods of these namespaces may run. Default LocalAndRemote.
	// +optional
	Strategy OffloadStrategy `json:"strategy,omitempty"`
	// Others admits that namespaces which are offloaded already, and are not named here, also get the new
	// provider: their Secrets would go there. Default false: such a request stops (WouldOffloadOthers).
	// +optional
	Others bool `json:"others,omitempty"`
	// Data says what holds for a namespace that has volumes at a provider already: `Stay`, it gets no other provider; `Move`, it may,
	// and the volumes stay behind. Default Stay.
	// +optional
	Data DataPolicy `json:"data,omitempty"`
	// Reflect says what besides pods is copied to the provider.
	// +optional
	Reflect *Reflect `json:"reflect,omitempty"`
}

// Check says whether the namespaces can be named at a provider. A nil Offload can.
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

// CheckNamespace says whether a namespace can be named at a provider, where Liqo ends its name with the cluster's.
// Errors: Invalid at offload.namespaces.
func CheckNamespace(name, cluster string) error {
	if remote := name + "-" + cluster; len(remote) > 63 {
		return Invalid("offload.namespaces", "%s would be named %s at the provider, which is longer than 63 characters", name, remote).
			Fix("offload a namespace with a shorter name")
	}
	return nil
}

// DataPolicy is what becomes of a namespace that has volumes at a provider.
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

// Reflect says what of an offloaded namespace is copied to the provider, besides pods.
type Reflect struct {
	// Secrets by default only those with the annotation liqo.io/allow-reflection; the others all.
	// +optional
	Secrets ReflectPolicy `json:"secrets,omitempty"`
	// +optional
	ConfigMaps ReflectPolicy `json:"configMaps,omitempty"`
	// +optional
	Services ReflectPolicy `json:"services,omitempty"`
}

// ReflectPolicy is which objects of a kind are copied.
//
// +kubebuilder:validation:Enum=All;AllowList;None
type ReflectPolicy string

// Which objects of a kind are copied.
const (
	ReflectAll       ReflectPolicy = "All"
	ReflectAllowList ReflectPolicy = "AllowList" // with the annotation liqo.io/allow-reflection: "true"
	ReflectNone      ReflectPolicy = "None"
)

// RequestsFromLabel on a namespace names the namespace whose requests may offload it.
const RequestsFromLabel = Group + "/requests-from"
