// Package deploy holds what is shipped to run the agent against what the agent
// is: every manifest decodes strictly into the API's types, the chart renders and
// its schema refuses what the agent would, and every query of dashboard and
// alerts names series and labels that the agent has.
//
// It is a module of its own, so that Kubernetes, Helm and Prometheus stay out of
// the agent's dependencies.
package deploy
