#!/usr/bin/env bash
# Lets helm, kube-linter, kube-score, kubeconform and checkov judge the chart as it is rendered for
# the values of charts/platform-agent/ci/, and every manifest named on the command line.
#
#   test/chart/judges.sh [--require TOOL,TOOL…] [MANIFEST…]
#
# A tool that is not on PATH is left out, and the last line counts it as skipped; one that is
# required and not there fails. What is waived stands in charts/waivers.md.
#   KUBERNETES_SCHEMAS  folder of one version's schemas out of the Python package
#                       kubernetes-validate, for kubeconform without a network
#   GATEWAY_API_CRDS    Gateway API's release file, by which kubeconform judges routes
set -uo pipefail
cd "$(dirname "$0")/../.."
PATH="$PWD/node_modules/.bin:$PATH"

required=
if [ "${1:-}" = --require ]; then
  required=${2:?--require needs the names of tools}
  shift 2
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0 skipped=0

waived() { # TOOL MANIFEST'S-NAME, up to its first hyphen → check,check
  awk -F'|' -v tool="$1" -v here="$1/${2%%-*}" '
    { gsub(/[` ]/, "", $2); gsub(/[` ]/, "", $3) }
    $2 == tool || $2 == here { print $3 }' charts/waivers.md | paste -sd, -
}

judge() { # TOOL WHAT COMMAND…
  local tool=$1 what=$2
  shift 2
  if "$@" >"$work/output" 2>&1; then
    echo "ok    $tool: $what"
    passed=$((passed + 1))
  else
    echo "FAIL  $tool: $what"
    sed 's/^/      /' "$work/output"
    failed=$((failed + 1))
  fi
}

has() { # TOOL
  command -v "$1" >/dev/null && return
  case ",$required," in
    *",$1,"*)
      echo "FAIL  $1 is required and not on PATH"
      failed=$((failed + 1))
      ;;
    *)
      echo "skip  $1 is not on PATH"
      skipped=$((skipped + 1))
      ;;
  esac
  return 1
}

manifests=("$@")
if has helm; then
  judge helm "lint --strict without values" helm lint --strict --quiet charts/platform-agent
  for values in charts/platform-agent/ci/*-values.yaml; do
    name=$(basename "$values" -values.yaml)
    judge helm "lint --strict, $name" helm lint --strict --quiet charts/platform-agent -f "$values"
    judge helm "template, $name" helm template assistant charts/platform-agent \
      --namespace agents -f "$values"
    cp "$work/output" "$work/$name.yaml"
    manifests+=("$work/$name.yaml")
  done
fi

each() { # TOOL COMMAND…, the manifest last, WAIVED its waived checks
  local tool=$1 manifest name
  shift
  has "$tool" || return
  for manifest in "${manifests[@]}"; do
    name=$(basename "$manifest" .yaml)
    judge "$tool" "$name" "${@//WAIVED/$(waived "$tool" "$name")}" "$manifest"
  done
}

each kube-linter kube-linter lint --add-all-built-in --exclude WAIVED

each kube-score kube-score score --exit-one-on-warning --output-format ci \
  --kubernetes-version v1.34 --ignore-test=WAIVED

schemas=(-kubernetes-version 1.34.0)
if [ -n "${KUBERNETES_SCHEMAS:-}" ]; then
  node test/chart/kubeconform-schemas.ts --kubernetes "$KUBERNETES_SCHEMAS" \
    ${GATEWAY_API_CRDS:+--definitions "$GATEWAY_API_CRDS"} --out "$work/schemas" || exit 1
  schemas=(-schema-location "$work/schemas/{{.ResourceKind}}{{.KindSuffix}}.json")
fi
if [ -z "${KUBERNETES_SCHEMAS:-}" ] || [ -z "${GATEWAY_API_CRDS:-}" ]; then
  echo "note  kubeconform does not judge routes: KUBERNETES_SCHEMAS and GATEWAY_API_CRDS are needed"
  schemas+=(-skip HTTPRoute)
fi
each kubeconform kubeconform -strict "${schemas[@]}"

each checkov checkov --framework kubernetes --skip-download --compact --quiet \
  --skip-check WAIVED --file

echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
