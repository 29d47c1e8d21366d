{{/*
Refuses values that a schema can't, or can't explain. All problems are told at once; a value of
extraEnv never is, as it may be a secret.
*/}}
{{- define "platform-agent.validate" -}}
{{- $problems := concat
      (include "platform-agent.problemsOfRequired" . | fromYamlArray)
      (include "platform-agent.problemsOfSandbox" . | fromYamlArray)
      (include "platform-agent.problemsOfEnvironment" . | fromYamlArray)
      (include "platform-agent.problemsOfPods" . | fromYamlArray) -}}
{{- if $problems -}}
{{- fail (printf "the values of this agent can't be used:\n  - %s" (join "\n  - " $problems)) -}}
{{- end -}}
{{- end }}

{{- define "platform-agent.problemsOfRequired" -}}
{{- $problems := list -}}
{{- if not .Values.graphId -}}
{{- $problems = append $problems "graphId is empty: set the graph id that clients send as X-Graph-ID." -}}
{{- end -}}
{{- if not .Values.sharedRoute.host -}}
{{- $problems = append $problems "sharedRoute.host is empty: set the host name of the agent front door, for example agents.example.com." -}}
{{- end -}}
{{- if not .Values.image.repository -}}
{{- $problems = append $problems "image.repository is empty: set the repository of the agent's image." -}}
{{- end -}}
{{- if not (or .Values.image.tag .Values.image.digest) -}}
{{- $problems = append $problems "image.tag and image.digest are both empty: set one of them." -}}
{{- end -}}
{{- if not .Values.platform.releaseName -}}
{{- $problems = append $problems "platform.releaseName is empty: set the name of the platform's Helm release, for example platform." -}}
{{- end -}}
{{- if not (regexMatch "^[a-z]" .Release.Name) -}}
{{- $problems = append $problems (printf "the release name %s begins with a digit, which the name of a Service must not: choose another, for example agent-%s. The graph id may stay as it is." .Release.Name .Release.Name) -}}
{{- end -}}
{{- toYaml $problems -}}
{{- end }}

{{- define "platform-agent.problemsOfSandbox" -}}
{{- $problems := list -}}
{{- $unsandboxed := eq .Values.sandbox "none" -}}
{{- if and (not .Values.runtimeClassName) (not $unsandboxed) -}}
{{- $problems = append $problems "runtimeClassName is empty, so the agent would run without a sandbox: name a RuntimeClass (gvisor), or ask for it with sandbox: none." -}}
{{- end -}}
{{- if and .Values.runtimeClassName $unsandboxed -}}
{{- $problems = append $problems (printf "sandbox is none but runtimeClassName is %s: set runtimeClassName to \"\" too, or leave sandbox out." .Values.runtimeClassName) -}}
{{- end -}}
{{- toYaml $problems -}}
{{- end }}

{{- define "platform-agent.problemsOfEnvironment" -}}
{{- $problems := list -}}
{{- $seen := dict -}}
{{- $ours := list "ASSERTION_PUBLIC_KEY" "DATABASE_SCHEMA" "DATABASE_URL" "DRAIN_MS" "OPENAI_BASE_URL" "PORT" "REDIS_PREFIX" "REDIS_URL" -}}
{{- if .Values.trustedCertificates -}}
{{- $ours = append $ours "NODE_EXTRA_CA_CERTS" -}}
{{- end -}}
{{- $provider := "(?i)^(ANTHROPIC|AZURE_OPENAI|CEREBRAS|CLAUDE|COHERE|DEEPSEEK|FIREWORKS|GEMINI|GOOGLE(_AI|_GENAI|_GENERATIVE_AI)?|GROQ|HF|HUGGINGFACE(HUB)?|MISTRAL|NVIDIA|OLLAMA|OPENAI|OPENROUTER|PERPLEXITY|REPLICATE|TOGETHER(AI)?|VERTEX(AI)?|VLLM|XAI)_(ACCESS_|ADMIN_|API_|AUTH_)*(KEY|SECRET|TOKEN)S?(_[0-9]+)?$" -}}
{{- $keyLike := "(^|[^A-Za-z0-9])(sk-(ant-|or-|proj-|svcacct-)?[A-Za-z0-9_-]{20,}|AIza[A-Za-z0-9_-]{35}|(gsk|hf)_[A-Za-z0-9]{20,}|nvapi-[A-Za-z0-9_-]{20,}|xai-[A-Za-z0-9]{20,})" -}}
{{- range .Values.extraEnv -}}
{{- if regexMatch $provider .name -}}
{{- $problems = append $problems (printf "extraEnv has %s: keys of model providers must not be placed with an agent. Give the key to the platform's model gateway (workspace.models.providers); the agent gets a token of its own." .name) -}}
{{- else if has (upper .name) $ours -}}
{{- $problems = append $problems (printf "extraEnv has %s: the platform sets it. Leave it out." .name) -}}
{{- else if regexMatch $keyLike (default "" .value) -}}
{{- $problems = append $problems (printf "extraEnv has a value that looks like a model provider's key, under %s: keys of model providers belong to the platform's model gateway (workspace.models.providers)." .name) -}}
{{- end -}}
{{- if and (hasKey . "value") (hasKey . "valueFrom") -}}
{{- $problems = append $problems (printf "extraEnv gives %s both a value and a valueFrom: choose one." .name) -}}
{{- end -}}
{{- if hasKey $seen .name -}}
{{- $problems = append $problems (printf "extraEnv has %s twice." .name) -}}
{{- end -}}
{{- $_ := set $seen .name true -}}
{{- end -}}
{{- toYaml $problems -}}
{{- end }}

{{- define "platform-agent.problemsOfPods" -}}
{{- $problems := list -}}
{{- range $key, $_ := .Values.podLabels -}}
{{- if regexMatch "^(app\\.kubernetes\\.io|platform\\.dev)/" $key -}}
{{- $problems = append $problems (printf "podLabels has %s: by labels of app.kubernetes.io/ and platform.dev/ the platform tells pods apart. Choose another prefix." $key) -}}
{{- end -}}
{{- end -}}
{{- range $key, $_ := .Values.deploymentAnnotations -}}
{{- if hasPrefix "platform.dev/" $key -}}
{{- $problems = append $problems (printf "deploymentAnnotations has %s: annotations of platform.dev/ are the platform's. Choose another prefix." $key) -}}
{{- end -}}
{{- end -}}
{{- if contains "PRIVATE KEY" .Values.trustedCertificates -}}
{{- $problems = append $problems "trustedCertificates has a private key: give the certificates alone." -}}
{{- end -}}
{{- with .Values.autoscaling -}}
{{- if and .enabled (gt (int .minReplicas) (int .maxReplicas)) -}}
{{- $problems = append $problems "autoscaling.minReplicas is greater than autoscaling.maxReplicas." -}}
{{- end -}}
{{- end -}}
{{- range .Values.networkPolicy.extraEgress -}}
{{- range .to -}}
{{- with .ipBlock -}}
{{- $excluded := default list .except -}}
{{- if and (hasSuffix "/0" .cidr) (not (or (has "169.254.0.0/16" $excluded) (has "169.254.169.254/32" $excluded) (contains ":" .cidr))) -}}
{{- $problems = append $problems (printf "networkPolicy.extraEgress opens %s, and so the cloud's metadata address: add 169.254.0.0/16 to its except." .cidr) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toYaml $problems -}}
{{- end }}
