import type { EngineStatistics } from '../engine/engine-statistics.ts';
import type { ServedModel } from './served-model.ts';

interface Metric {
  readonly name: string;
  readonly kind: 'counter' | 'gauge';
  readonly help: string;
  readonly value: (statistics: EngineStatistics) => number;
}

/** Metrics with vLLM's names, so that its dashboards fit. */
const metrics: readonly Metric[] = [
  {
    name: 'vllm:num_requests_running',
    kind: 'gauge',
    help: 'Sequences that steps compute.',
    value: ({ running }) => running,
  },
  {
    name: 'vllm:num_requests_waiting',
    kind: 'gauge',
    help: 'Sequences that wait.',
    value: ({ waiting }) => waiting,
  },
  {
    name: 'vllm:kv_cache_usage_perc',
    kind: 'gauge',
    help: 'The part of the blocks that sequences use, from 0 to 1.',
    value: ({ usedBlocks, blocks }) => usedBlocks / blocks,
  },
  {
    name: 'vllm:num_preemptions_total',
    kind: 'counter',
    help: 'How often a sequence lost its blocks.',
    value: ({ preemptions }) => preemptions,
  },
  {
    name: 'vllm:generation_tokens_total',
    kind: 'counter',
    help: 'Tokens that were generated.',
    value: ({ generatedTokens }) => generatedTokens,
  },
  {
    name: 'vllm:prefix_cache_hits_total',
    kind: 'counter',
    help: 'Tokens of prompts that were found in the cache.',
    value: ({ prefixTokens }) => prefixTokens,
  },
  {
    name: 'vllm:spec_decode_num_draft_tokens_total',
    kind: 'counter',
    help: 'Tokens that were proposed to follow others.',
    value: ({ proposedTokens }) => proposedTokens,
  },
  {
    name: 'vllm:spec_decode_num_accepted_tokens_total',
    kind: 'counter',
    help: 'Proposed tokens that did follow.',
    value: ({ acceptedTokens }) => acceptedTokens,
  },
  {
    name: 'shardwise:computed_tokens_total',
    kind: 'counter',
    help: 'Tokens whose keys and values were computed.',
    value: ({ computedTokens }) => computedTokens,
  },
  {
    name: 'shardwise:steps_total',
    kind: 'counter',
    help: 'Steps of rolling batches.',
    value: ({ steps }) => steps,
  },
  {
    name: 'shardwise:cache_bytes',
    kind: 'gauge',
    help: 'The bytes of keys and values.',
    value: ({ cacheBytes }) => cacheBytes,
  },
  {
    name: 'shardwise:weights_loads_total',
    kind: 'counter',
    help: 'How often other weights were loaded.',
    value: ({ weightsLoads }) => weightsLoads,
  },
  {
    name: 'shardwise:weights_load_failures_total',
    kind: 'counter',
    help: 'How often that failed, and the weights before stayed.',
    value: ({ weightsLoadFailures }) => weightsLoadFailures,
  },
];

const INFO = 'shardwise:weights_info';

/** How many responses had which status. */
export type ResponseCounts = ReadonlyMap<number, number>;

/** The text that Prometheus reads. */
export function metricsText(models: readonly ServedModel[], responses: ResponseCounts): string {
  const lines = metrics.flatMap(({ name, kind, help, value }) => [
    `# HELP ${name} ${help}`,
    `# TYPE ${name} ${kind}`,
    ...models.flatMap(({ id, engine, adapter }) =>
      // Adapters share the engine of their model.
      engine === null || adapter !== undefined
        ? []
        : [`${name}{model_name="${escaped(id)}"} ${value(engine.statistics)}`],
    ),
  ]);
  const versions = models.flatMap(({ id, engine }) => {
    const version = engine?.statistics.weightsVersion ?? null;
    const labels = `model_name="${escaped(id)}",version="${escaped(version ?? '')}"`;
    return version === null ? [] : [`${INFO}{${labels}} 1`];
  });
  const info = [`# HELP ${INFO} What the weights are called.`, `# TYPE ${INFO} gauge`, ...versions];
  const counts = [...responses].map(
    ([status, count]) => `shardwise:responses_total{status="${status}"} ${count}`,
  );
  const name = 'shardwise:responses_total';
  const head = [`# HELP ${name} Responses by status.`, `# TYPE ${name} counter`];
  return `${[...lines, ...info, ...head, ...counts].join('\n')}\n`;
}

function escaped(label: string): string {
  return label.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n');
}
