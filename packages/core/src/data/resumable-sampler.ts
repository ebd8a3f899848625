import type { Generator } from '../random/generator.ts';
import type { Sampler } from '../spec/sampler.ts';

/** The settings that, together with the epoch, decide the order of a sampler. Plain data, equal on all ranks. */
export type SamplerSettings = Readonly<Record<string, string | number | boolean>>;

/** A sampler with which a data loader can continue in the middle of an epoch. */
export interface ResumableSampler extends Sampler {
  readonly settings: SamplerSettings;
  /**
   * The number of ranks that take one order in turns, item by item: rank r takes the items r, r + numReplicas,
   * … of it. A loader can then continue with another number of ranks whose batches together have the same size.
   * Default: 1.
   */
  readonly numReplicas?: number;
  /**
   * Whether ranks may have different numbers of items, so that a rank may have none while others have some. Default:
   * false.
   */
  readonly isUneven?: boolean;
  /** The stream from which the order of each epoch is drawn, if the epoch does not determine it. */
  readonly generator?: Generator | undefined;
}

/** Makes any sampler resumable. A sampler without `settings` is identified by its length alone. */
export function resumable(sampler: Sampler): ResumableSampler {
  if (isResumable(sampler)) return sampler;
  const { length } = sampler;
  return {
    length,
    settings: { kind: 'custom', length },
    setEpoch: (epoch) => sampler.setEpoch(epoch),
    [Symbol.iterator]: () => sampler[Symbol.iterator](),
  };
}

function isResumable(sampler: Sampler): sampler is ResumableSampler {
  return 'settings' in sampler;
}
