import type { Prediction } from '../cost/predict.ts';
import { visitLayouts } from './visit-layouts.ts';
import type { SearchRequest } from './search-request.ts';

/** A change by which something fits. */
export interface Change {
  /** What to change, as an imperative sentence. */
  readonly change: string;
  /** How many times what was asked for: 2 for twice as many hosts. 1 for an option that costs nothing. */
  readonly factor: number;
  /** The best layout after the change, whose step says what the change costs in time. */
  readonly prediction: Prediction;
}

/** The most changes that are shown. */
const SHOWN = 3;
const FACTORS = [2, 4, 8, 16, 32, 64];
const MIN_SEQUENCE = 128;

/** Finds the smallest changes to a request for which nothing fits. Each is made alone. */
export function changesThatFit(
  request: SearchRequest,
  smallest: Prediction | null,
): readonly Change[] {
  return [
    ...liftedOptions(request),
    ...firstOf(FACTORS, (factor) => moreHosts(request, factor)),
    ...firstOf(FACTORS, (factor) => shorterSequence(request, factor)),
    ...lowerPrecision(request),
    ...largerDevices(request, smallest),
  ]
    .toSorted((a, b) => a.factor - b.factor)
    .slice(0, SHOWN);
}

/** The options of a search that can exclude everything that fits. */
const restrictions = [
  'recompute',
  'zero',
  'offload',
  'tensorParallel',
  'pipelineParallel',
  'rows',
] as const;

function liftedOptions(request: SearchRequest): readonly Change[] {
  return restrictions
    .filter((key) => request.search[key] !== undefined)
    .flatMap((key) => {
      const { [key]: _, ...search } = request.search;
      const best = bestOf({ ...request, search });
      if (best === undefined) return [];
      return [{ change: `Leave the choice of ${key} to the search`, factor: 1, prediction: best }];
    });
}

function moreHosts(request: SearchRequest, factor: number): Change | undefined {
  const hosts = request.cluster.hosts * factor;
  const prediction = bestOf({ ...request, cluster: { ...request.cluster, hosts } });
  return prediction && { change: `Use ${hosts} hosts`, factor, prediction };
}

function shorterSequence(request: SearchRequest, factor: number): Change | undefined {
  const sequence = request.workload.sequence / factor;
  if (!Number.isInteger(sequence) || sequence < MIN_SEQUENCE) return undefined;
  const prediction = bestOf({ ...request, workload: { ...request.workload, sequence } });
  return prediction && { change: `Train on sequences of ${sequence} tokens`, factor, prediction };
}

function lowerPrecision(request: SearchRequest): readonly Change[] {
  if (request.precision === 'mixed') return [];
  const prediction = bestOf({ ...request, precision: 'mixed' });
  const change = 'Train in 16 bits with copies in f32';
  return prediction === undefined ? [] : [{ change, factor: 2, prediction }];
}

function largerDevices(request: SearchRequest, smallest: Prediction | null): readonly Change[] {
  if (smallest === null) return [];
  const { totalBytes } = smallest.memory;
  const factor = totalBytes / request.memoryBytes;
  const change = `Give each rank ${(totalBytes / 1e9).toFixed(1)} GB, the least that any layout needs`;
  return factor <= 1 ? [] : [{ change, factor, prediction: smallest }];
}

function bestOf(request: SearchRequest): Prediction | undefined {
  return visitLayouts({ ...request, keep: 1 }).ranked[0];
}

function firstOf<Value>(
  factors: readonly number[],
  make: (factor: number) => Value | undefined,
): readonly Value[] {
  for (const factor of factors) {
    const made = make(factor);
    if (made !== undefined) return [made];
  }
  return [];
}
