import type { DeviceName } from '../environment/device-name.ts';
import type { FollowedCheckpoints } from './follow-checkpoints.ts';

/** What `shardwise serve` is told. */
export interface ServeOptions {
  /** The folder of a model, its GGUF file, an address, or a name of the hub. */
  readonly model: string;
  /** What requests call the model. Undefined: the name of its folder or file. */
  readonly name: string | undefined;
  readonly port: number;
  readonly host: string;
  /** The keys of the command line. */
  readonly apiKeys: readonly string[];
  /** Whether nobody needs a key, also at an address that other machines reach. */
  readonly withoutApiKey: boolean;
  /** Undefined: that of the environment, or the CPU. */
  readonly device: DeviceName | undefined;
  /** The number of threads of the CPU's products. Undefined: as many as there are cores. */
  readonly threads: number | undefined;
  /** What the parameters are stored in. */
  readonly dtype: 'f32' | 'bf16' | 'f16';
  /** Whether weights stay in the blocks of few bits of a GGUF file. `dtype` is that of all others. */
  readonly quantized: boolean;
  /** Undefined: what the engine chooses by the context of the model. */
  readonly cacheTokens: number | undefined;
  readonly kvCacheDtype: 'auto' | 'float16' | 'bfloat16' | 'int8';
  /** Adapters, each as `name=path`. */
  readonly loraModules: readonly string[];
  readonly preemption: 'recompute' | 'swap';
  /** Undefined: what the engine chooses. */
  readonly swapSpace: number | undefined;
  readonly blockSize: number;
  readonly maxSequences: number;
  readonly maxChunkTokens: number;
  /** How many tokens n-grams of a text propose in a step. Undefined: none. */
  readonly speculativeTokens: number | undefined;
  /** The checkpoints of a training whose weights are taken while requests are answered. Undefined: none. */
  readonly reload: FollowedCheckpoints | undefined;
  /** The number of ranks. */
  readonly nproc: number;
  /** Over how many ranks each replica of the model is divided. */
  readonly tensorParallelSize: number;
  /** What becomes of requests that a rank was answering when it was lost. */
  readonly onRankFailure: 'error' | 'retry';
  readonly maxWaiting: number;
  readonly requestTimeoutMs: number;
}
