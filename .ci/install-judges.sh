#!/usr/bin/env bash
# Installs the judges of manifests (test/chart/judges.sh) at fixed versions into a folder, from the
# package registries of Go and Python; prints the lines that put them to use in a shell.
#
#   eval "$(.ci/install-judges.sh FOLDER)"
set -uo pipefail
folder=$(realpath -m "${1:?Name the folder to install into.}")
mkdir -p "$folder"
export GOBIN=$folder/bin

kube_linter() {
  # Its vanity import path can't be fetched everywhere: the same module by its repository's.
  local module
  module=$(mktemp -d)
  cat >"$module/go.mod" <<MOD
module judges
go 1.24
require golang.stackrox.io/kube-linter v0.8.3
replace golang.stackrox.io/kube-linter => github.com/stackrox/kube-linter v0.8.3
MOD
  cat >"$module/judges.go" <<GO
package judges
import _ "golang.stackrox.io/kube-linter/pkg/command/root"
GO
  (cd "$module" && GOFLAGS=-mod=mod go build -o "$GOBIN/kube-linter" golang.stackrox.io/kube-linter/cmd/kube-linter)
  local code=$?
  rm -rf "$module"
  return "$code"
}

checkov() {
  python3 -m venv "$folder/python" &&
    "$folder/python/bin/pip" install --quiet checkov==3.3.30 kubernetes-validate
}

# One that can't be fetched today does not keep the others away.
status=0
judge() {
  if ! "$@" >&2; then
    echo "could not be installed: $*" >&2
    status=1
  fi
}
judge go install github.com/zegl/kube-score/cmd/kube-score@v1.20.0
judge go install github.com/yannh/kubeconform/cmd/kubeconform@v0.8.0
judge kube_linter
judge checkov

schemas=$("$folder/python/bin/python" -c 'import kubernetes_validate as it; print(it.__path__[0])')
echo "export PATH='$GOBIN:$folder/python/bin':\$PATH"
echo "export KUBERNETES_SCHEMAS='$schemas/kubernetes-json-schema/v1.34.0-local-strict'"
exit "$status"
