import type { ServeOptions } from '../src/serve/serve-options.ts';

/** What tests serve with: a small cache, at any free port. */
export const usualServing: Omit<ServeOptions, 'model'> = {
  name: undefined,
  port: 0,
  host: '127.0.0.1',
  apiKeys: [],
  withoutApiKey: false,
  device: undefined,
  threads: undefined,
  dtype: 'f32',
  quantized: false,
  kvCacheDtype: 'auto',
  loraModules: [],
  preemption: 'recompute',
  swapSpace: undefined,
  cacheTokens: 512,
  blockSize: 16,
  maxSequences: 4,
  maxChunkTokens: 16,
  speculativeTokens: undefined,
  nproc: 1,
  tensorParallelSize: 1,
  onRankFailure: 'error',
  reload: undefined,
  maxWaiting: 8,
  requestTimeoutMs: 60_000,
};
