package api

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Ledger is the journal of an agent's market: what the agent must not forget. Only the agent writes
// it. Editing it stops the agent.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:categories=bourse
// +kubebuilder:printcolumn:name="Revision",type=integer,JSONPath=`.spec.head.revision`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Ledger struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              LedgerSpec `json:"spec,omitempty"`
}

// LedgerSpec is a hash-chained journal: a snapshot and the batches after it. Hashes are
// hexadecimal. A large journal keeps its snapshot and older batches in further Ledgers, its parts,
// which hold nothing but Data.
type LedgerSpec struct {
	Format int64 `json:"format,omitempty"`
	// Write is random, and new with each write. By it an agent recognizes its own write.
	Write string `json:"write,omitempty"`
	// Head is where the tail ends. Base is where it begins: Snapshot (gzip) holds the state at
	// Base. A part has neither.
	// +optional
	Head LedgerHead `json:"head,omitzero"`
	// +optional
	Base     LedgerHead `json:"base,omitzero"`
	Snapshot []byte     `json:"snapshot,omitempty"`
	// Seal is the hash of base and state.
	Seal string        `json:"seal,omitempty"`
	Tail []LedgerBatch `json:"tail,omitempty"`
	// Parts hold the pieces of the snapshot if Snapshot is empty. Filed hold the batches before Tail.
	Parts []LedgerPart `json:"parts,omitempty"`
	Filed []LedgerPart `json:"filed,omitempty"`
	// Data is the content of a part.
	Data []byte `json:"data,omitempty"`
}

// LedgerPart names a part of a Ledger, and its content. The object's name is that of the Ledger,
// followed by "-" and the number.
type LedgerPart struct {
	Part int64 `json:"part"`
	// Digest is the SHA-256 of its data, Size its length in bytes.
	Digest string `json:"digest"`
	Size   int64  `json:"size"`
	// Revision and Hash say where its batches end. A piece of the snapshot has neither.
	Revision int64  `json:"revision,omitempty"`
	Hash     string `json:"hash,omitempty"`
}

// LedgerHead is a point between two batches: the lineage of the journal, the number of events, and
// the hash of all of them.
type LedgerHead struct {
	Lineage  string `json:"lineage"`
	Revision int64  `json:"revision"`
	Hash     string `json:"hash"`
}

// LedgerBatch is one batch of events. Revision is that of its last event.
type LedgerBatch struct {
	Revision int64    `json:"revision"`
	Events   [][]byte `json:"events"`
}
