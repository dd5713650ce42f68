// The CustomResourceDefinitions of cert-manager: a test applies config/certmanager beside them. Nothing of it is built.
module github.com/bourse-dev/bourse/tools/certmanager

go 1.26.0

require github.com/cert-manager/cert-manager v1.18.2
