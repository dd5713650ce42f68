package health

import "github.com/bourse-dev/bourse/api"

const (
	bad  = api.SeverityError
	warn = api.SeverityWarning
	info = api.SeverityInfo
)

// The kinds of problems, by what has them.
var (
	// Liqo in this cluster.
	LiqoMissing        = Kind{"LiqoMissing", warn, "The cluster has no Liqo: reservations are agreed, and end at Reserved; nothing runs by them."}
	LiqoUntested       = Kind{"LiqoUntested", bad, "Bourse was not tested with this minor version of Liqo, which promises nothing between minor versions."}
	LiqoUnknown        = Kind{"LiqoUnknown", warn, "Which version of Liqo it is cannot be told, so that the broker cannot match it with that of others."}
	LiqoModuleOff      = Kind{"LiqoModuleOff", bad, "A module of Liqo without which nothing can be lent or borrowed is switched off: the cluster is taken for one without Liqo."}
	LiqoKeyUnusable    = Kind{"LiqoKeyUnusable", bad, "The key of the cluster's Liqo is not Ed25519: no provider takes it, because what it has certified cannot be bounded. The cluster can lend, and not borrow."}
	LiqoWebhookDown    = Kind{"LiqoWebhookDown", bad, "The API server does not get an answer from Liqo's webhook, and refuses everything that it should look at."}
	LimitsNotEnforced  = Kind{"LimitsNotEnforced", info, "What pods of peerings made by hand use is not held to what was granted. Brokered consumers are, by our own policies."}
	DefaultClassOpen   = Kind{"DefaultClassOpen", info, "Liqo's own class `default` grants whatever a consumer asks for. Brokered consumers cannot use it; peerings made by hand can."}
	APIServerLocal     = Kind{"ApiServerLocal", warn, "The address at which consumers are to reach this cluster's API server is one that only this machine has."}
	APIServerUnknown   = Kind{"ApiServerUnknown", warn, "Liqo does not know the address of the API server, and cannot tell consumers."}
	APIServerSilent    = Kind{"ApiServerUnreachable", bad, "The API server does not answer at the address that consumers are told."}
	TolerationSeconds  = Kind{"TolerationSeconds", info, "How long pods stay on a virtual node that is no longer Ready before Kubernetes replaces them elsewhere."}
	WouldOffloadOthers = Kind{"WouldOffloadOthers", warn, "A NamespaceOffloading that nobody narrowed would take in each new provider, and send it the namespace's Secrets."}

	// Lending.
	PoliciesMissing   = Kind{"PoliciesMissing", bad, "The admission policies that keep consumers to what they reserved are not in force: nothing is granted until they are."}
	ClusterIDCollides = Kind{"ClusterIDCollides", bad, "A consumer's cluster ID is a user or group that has rights here, which Liqo would give to that cluster, or ends the name of a namespace of the cluster itself. It is not peered with."}
	ConsumersCrowded  = Kind{"ConsumersCrowded", warn, "The list of brokered consumers, by which the admission policies know them, takes 60 % of its space or more: 1.3 MB, some 3,000 consumers of one pool. When it is full no further cluster is peered with."}
	SecretOfLiqo      = Kind{"SecretOfLiqo", bad, "A Secret in a namespace that was mapped for a consumer has a label on which Liqo acts, with its own rights. A consumer can have written it before the admission policies were there."}
	APIServerProxy    = Kind{"ApiServerProxyMissing", bad, "Consumers are to reach this cluster's API server through the network only (`apiServerAccess: network`), and there is no way: nobody can borrow here."}
	NothingShared     = Kind{"NothingShared", info, "There is no SharingPolicy in force: the cluster only borrows."}
	Overcommitted     = Kind{"Overcommitted", warn, "More is reserved of this cluster than it has. Nothing new is placed here; what is reserved stays."}
	NotCovered        = Kind{"ReservedNotCovered", bad, "The cluster's own pods use what others have reserved: their pods may hang Pending."}
	FieldIgnored      = Kind{"FieldIgnored", warn, "The SharingPolicy has a field that no longer has an effect."}

	// Other clusters.
	KeyChanged       = Kind{"KeyChanged", bad, "A cluster shows another key than the one that was pinned or confirmed: it was reinstalled, or somebody poses as it."}
	KeyUnconfirmed   = Kind{"KeyUnconfirmed", warn, "The SharingPolicy demands confirmed keys (`trust: pinned`), and nobody confirmed this one."}
	VersionSkew      = Kind{"VersionSkew", warn, "The Liqo of a peer is of another minor version than this one: what runs goes on, nothing new is reserved."}
	MixedPeering     = Kind{"MixedPeering", info, "A peering made by hand stands beside a brokered one. Bourse uses it and never writes it."}
	LegacyAccounting = Kind{"LegacyAccounting", info, "A cluster's agent is of the prototypes: it counts a reservation, and once more the pods that use it, so that it offers less than it has; and it peers by hand."}
	PeeringStuck     = Kind{"PeeringStuck", warn, "A peering does not come to where it should be."}

	// The broker, and this agent.
	BrokerUnreachable   = Kind{"BrokerUnreachable", warn, "The broker does not answer. What is reserved stays so and ends with its time; nothing new is reserved through it."}
	WithoutBroker       = Kind{"WithoutBroker", warn, "No broker is reached, or all are disabled: what people cannot do meanwhile."}
	GoesOn              = Kind{"GoesOn", info, "What goes on while no broker is reached."}
	CertificateExpiring = Kind{"CertificateExpiring", warn, "A certificate was not renewed: the one for the broker at half of its life, or one by which a consumer's Liqo acts at a provider (Liqo renews it) before four fifths. Or the token for the broker's cluster ends within a day."}
	CertificateExpired  = Kind{"CertificateExpired", bad, "The certificate for the broker is over: the agent renews it by its cluster key, as soon as it reaches the broker. Or the token for the broker's cluster is, and it needs another. Or a certificate by which a consumer's Liqo acts at a provider: what runs there goes on, and does not change any more."}
	ClockSkew           = Kind{"ClockSkew", warn, "This machine's clock differs from another's: what is signed may be refused as expired, or not yet valid."}
	LedgerCrowded       = Kind{"LedgerCrowded", warn, "A Ledger, in which the agent keeps what it must not forget, takes 60 % of its space or more: it takes nothing new in. What it knows ends and is freed as ever."}
	RightsMissing       = Kind{"RightsMissing", bad, "Whoever asks has not the rights in the cluster that this takes."}
	NotChecked          = Kind{"NotChecked", warn, "Something could not be looked at."}
)

// Kinds are all, in the order of the documentation.
var Kinds = []Kind{
	LiqoMissing, LiqoUntested, LiqoUnknown, LiqoModuleOff, LiqoKeyUnusable, LiqoWebhookDown, LimitsNotEnforced, DefaultClassOpen, APIServerLocal, APIServerUnknown,
	APIServerSilent, TolerationSeconds, WouldOffloadOthers,
	PoliciesMissing, ClusterIDCollides, ConsumersCrowded, SecretOfLiqo, APIServerProxy, NothingShared, Overcommitted, NotCovered, FieldIgnored,
	KeyChanged, KeyUnconfirmed, VersionSkew, MixedPeering, LegacyAccounting, PeeringStuck,
	BrokerUnreachable, WithoutBroker, GoesOn, CertificateExpiring, CertificateExpired, ClockSkew, LedgerCrowded, RightsMissing, NotChecked,
}
