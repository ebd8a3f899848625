import { deviceCount } from '../cluster/cluster.ts';
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
/** By how much fewer layers are tried. */
const DEPTH_FACTORS = [1.25, 1.5, ...FACTORS];

/** Finds the smallest changes to a request for which nothing fits. Each is made alone. */
export function changesThatFit(
  request: SearchRequest,
  smallest: Prediction | null,
): readonly Change[] {
  return [
    ...liftedOptions(request),
    ...firstOf(FACTORS, (factor) => moreHosts(request, factor)),
    ...firstOf(FACTORS, (factor) => shorterSequence(request, factor)),
    ...firstOf(DEPTH_FACTORS, (factor) => fewerLayers(request, factor)),
    ...fullBatch(request),
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

function fewerLayers(request: SearchRequest, factor: number): Change | undefined {
  const { model } = request;
  if (model.kind !== 'transformer') return undefined;
  const layers = Math.floor(model.layers / factor);
  if (layers === 0) return undefined;
  const prediction = bestOf({ ...request, model: { ...model, layers } });
  return (
    prediction && {
      change: `Train a model of ${layers} layers`,
      factor: model.layers / layers,
      prediction,
    }
  );
}

/** Data parallelism needs a batch of which all devices have as many rows. */
function fullBatch(request: SearchRequest): readonly Change[] {
  const { workload } = request;
  const devices = deviceCount(request.cluster);
  const batch = devices * Math.ceil(workload.batch / devices);
  if (batch === workload.batch) return [];
  const prediction = bestOf({ ...request, workload: { ...workload, batch } });
  const change = `Train on batches of ${batch} rows`;
  return prediction === undefined ? [] : [{ change, factor: batch / workload.batch, prediction }];
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
  // Rounded down, it would be too little.
  const least = `${(Math.ceil(totalBytes / 1e8) / 10).toFixed(1)} GB, the least that any layout needs`;
  const isThere = totalBytes <= request.cluster.device.memoryBytes;
  const change = isThere ? `Give each rank ${least}` : `Take devices of ${least}`;
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
