#!/usr/bin/env bash
# Installs what the platform needs and starts it. Written for bash 3.2, which macOS has.
set -euo pipefail

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)"
PROVIDERS="OPENAI_API_KEY OLLAMA_API_KEY OLLAMA_LOCAL_HOST ANTHROPIC_API_KEY GEMINI_API_KEY VLLM_BACKEND_URL"
OLDEST_NODE=20

usage() {
  cat <<'USAGE'
Usage: ./install.sh [options]               on a kind cluster with a gVisor sandbox (needs Docker)
       ./install.sh --uninstall             removes that again
       ./install.sh --embedded [options]    as processes of this machine, until Ctrl-C

Both ways:
  --demo               answer offline with a demo model; no provider credential is needed
  --port N             the one port (default 8088)
  --verbose            more output, and the stack of an error
  --help               this text

On a cluster:
  --cluster-name NAME  the kind cluster (default platform)
  --no-samples         without the sample agents
  --config FILE        more settings of the stack, YAML or JSON: image references, local files of
                       pinned artifacts and whatever else platform:... knows (air-gapped installs)
  --replace-cluster    make the cluster anew where a change needs that; all in it is lost

Embedded:
  --data DIR           where database, secrets and logs are kept (default .platform of the checkout)
  --agents DIR         the folder of agent declarations (default agents of the checkout)

Without --demo, at least one provider must be set in the environment:
  OPENAI_API_KEY, OLLAMA_API_KEY, OLLAMA_LOCAL_HOST, ANTHROPIC_API_KEY, GEMINI_API_KEY,
  VLLM_BACKEND_URL
USAGE
}

# fail CODE MESSAGE [HINT]
fail() {
  printf '\nError: %s\n' "$2" >&2
  if [ $# -gt 2 ]; then printf '\n%s\n' "$3" >&2; fi
  exit "$1"
}

read_arguments() {
  embedded=no
  demo=no
  uninstall=no
  while [ $# -gt 0 ]; do
    case "$1" in
      --embedded) embedded=yes ;;
      --demo) demo=yes ;;
      --uninstall) uninstall=yes ;;
      --verbose | --no-samples | --replace-cluster) ;;
      --help | -h)
        usage
        exit 0
        ;;
      --port | --data | --agents | --config | --cluster-name)
        [ $# -gt 1 ] || fail 2 "$1 needs a value." "$(usage)"
        shift
        ;;
      --port=* | --data=* | --agents=* | --config=* | --cluster-name=*) ;;
      *) fail 2 "Unknown argument: $1" "$(usage)" ;;
    esac
    shift
  done
}

require_provider() {
  [ "$demo" = no ] || return 0
  local name
  for name in $PROVIDERS; do
    if [ -n "${!name:-}" ]; then return 0; fi
  done
  fail 1 "No model provider is configured." "Set at least one of:
$(printf '  %s\n' $PROVIDERS)
or try it offline with --demo: ./install.sh --embedded --demo"
}

# What a cluster of this machine needs, with where each is found.
require_tools() {
  local missing="" get="" tool where
  while read -r tool where; do
    if ! command -v "$tool" >/dev/null 2>&1; then
      missing="$missing, $tool"
      get="$get
  $(printf '%-8s' "$tool") $where"
    fi
  done <<'TOOLS'
docker https://docs.docker.com/get-docker/
kind https://kind.sigs.k8s.io/docs/user/quick-start/#installation
helm https://helm.sh/docs/intro/install/
kubectl https://kubernetes.io/docs/tasks/tools/
TOOLS
  [ -z "$missing" ] || fail 1 "Not installed: ${missing#, }." "Get:$get
or run without Docker: ./install.sh --embedded"
  local answer
  answer="$(docker info --format '{{.ServerVersion}}' 2>&1)" || fail 1 "Docker does not answer: $answer" \
    "Start Docker (Docker Desktop, or: sudo systemctl start docker) and try again."
}

require_node() {
  local hint="Install Node.js $OLDEST_NODE or newer, which brings npm: your system's package manager has it,
and so have version managers such as nvm and fnm."
  command -v node >/dev/null 2>&1 || fail 1 "Node.js is not installed." "$hint"
  command -v npm >/dev/null 2>&1 || fail 1 "npm is not installed." "$hint"
  local major
  major="$(node -p 'process.versions.node.split(".")[0]')"
  [ "$major" -ge "$OLDEST_NODE" ] ||
    fail 1 "Node.js $(node --version) is too old; the platform needs $OLDEST_NODE or newer." "$hint"
}

lock_hash() {
  node -p 'require("crypto").createHash("sha256").update(require("fs").readFileSync("package-lock.json")).digest("hex")'
}

# npm itself keeps node_modules/.package-lock.json: newer than our lock file, it tells that somebody
# ran npm by hand.
packages_are_current() {
  [ -d node_modules ] || return 1
  if [ node_modules/.package-lock.json -nt package-lock.json ]; then return 0; fi
  [ -f node_modules/.platform-lock ] && [ "$(cat node_modules/.platform-lock)" = "$(lock_hash)" ]
}

install_packages() {
  if ! packages_are_current; then
    echo "Installing packages (npm ci)…"
    # PostgreSQL and Node are development packages, since the images need neither.
    # Warnings are left out: on Node 20 they tell of packages that run under the platform's own Node.
    npm ci --include=dev --include=optional --no-fund --no-audit --loglevel=error || fail 1 "npm ci failed." "Its output above says why."
  fi
  # Packages that another account installed are left as they are.
  if [ -w node_modules ]; then lock_hash >node_modules/.platform-lock; fi
}

has_our_node() {
  [ "$(node_modules/.bin/node --version 2>/dev/null)" = "v$1" ]
}

# npm may hold install scripts back, and that of the package `node` links the binary.
install_node() {
  local version
  version="$(node -p 'require("./package.json").devDependencies.node')"
  has_our_node "$version" || npm rebuild node --ignore-scripts=false --no-fund --no-audit --loglevel=error || true
  has_our_node "$version" || fail 1 \
    "npm did not install the platform's own Node.js ($version) in $ROOT/node_modules/.bin." \
    "Allow the install script of the package node, then run: npm rebuild node"
}

read_arguments "$@"
if [ "$uninstall" = no ]; then require_provider; fi
if [ "$embedded" = no ] && [ "$uninstall" = no ]; then require_tools; fi
require_node
(
  cd "$ROOT"
  install_packages
  install_node
)
export PATH="$ROOT/node_modules/.bin:$PATH"
if [ "$embedded" = yes ]; then
  # An agent can send signals; this one would open a debugger into every secret.
  exec node --disable-sigusr1 --max-semi-space-size=2 "$ROOT/runtime/embedded/main.ts" "$@"
fi
exec node "$ROOT/installer/main.ts" "$@"
