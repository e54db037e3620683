// Decodes Kubernetes manifests as the types of their kinds, and rejects fields that these don't have. Arguments: files.
package main

import (
	"bytes"
	"fmt"
	"os"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	gateway "sigs.k8s.io/gateway-api/apis/v1"
	kustomize "sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/yaml"
)

// kinds has a new value for each kind that the manifests may have.
var kinds = map[string]func() any{
	"apps/v1 Deployment":                            func() any { return &apps.Deployment{} },
	"gateway.networking.k8s.io/v1 HTTPRoute":        func() any { return &gateway.HTTPRoute{} },
	"kustomize.config.k8s.io/v1beta1 Kustomization": func() any { return &kustomize.Kustomization{} },
	"policy/v1 PodDisruptionBudget":                 func() any { return &policy.PodDisruptionBudget{} },
	"v1 ConfigMap":                                  func() any { return &core.ConfigMap{} },
	"v1 Service":                                    func() any { return &core.Service{} },
}

func check(document []byte) error {
	var header struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}
	if err := yaml.Unmarshal(document, &header); err != nil {
		return err
	}
	name := header.APIVersion + " " + header.Kind
	value, ok := kinds[name]
	if !ok {
		return fmt.Errorf("unknown kind %q", name)
	}
	return yaml.UnmarshalStrict(document, value())
}

func main() {
	failed := false
	count := 0
	for _, path := range os.Args[1:] {
		text, err := os.ReadFile(path)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		for _, document := range bytes.Split(text, []byte("\n---\n")) {
			count++
			if err := check(document); err != nil {
				fmt.Fprintf(os.Stderr, "%s: %v\n", path, err)
				failed = true
			}
		}
	}
	if failed || count == 0 {
		os.Exit(1)
	}
	fmt.Printf("%d manifests are valid\n", count)
}
