package api

// Severity is how much a problem matters.
type Severity string

const (
	SeverityError   Severity = "Error"   // something that was asked for does not work
	SeverityWarning Severity = "Warning" // something will not work, or is less safe than it should be
	SeverityInfo    Severity = "Info"    // worth knowing
)

// Problem is something that a user should know of, as `bourse doctor` shows it.
type Problem struct {
	// Code is one of a closed list; docs/reference/problems.md says what each means.
	Code     string   `json:"code"`
	Severity Severity `json:"severity"`
	// Subject is what has the problem: a cluster, an object; empty: this cluster.
	Subject string `json:"subject,omitempty"`
	Detail  string `json:"detail"`
	// Remedy is the exact fix.
	Remedy string `json:"remedy,omitempty"`
}

// Diagnosis is what a doctor found, worst first. Empty: all is well.
type Diagnosis struct {
	Problems []Problem `json:"problems"`
}

// ConditionHealthy of an Advertisement: the agent knows of no Error and no Warning.
const ConditionHealthy = "Healthy"
