import {
  CollectiveMismatchError,
  ConfigError,
  currentSession,
  hashOf,
} from '@shardwise/core/extend';

/** Which of the prompts of all ranks are this rank's: from the first place up to the last one. */
export interface RolloutPart {
  readonly first: number;
  readonly count: number;
}

/**
 * Divides prompts evenly between the ranks among which a training divides its batches, in the order of these ranks. Throws
 * ConfigError for a number of prompts that does not divide, because ranks would average gradients of batches of different
 * sizes.
 */
export function rolloutPart(prompts: number, axes: readonly string[]): RolloutPart {
  const { mesh } = currentSession();
  let [rank, ranks] = [0, 1];
  for (const axis of axes) {
    const { size } = mesh.group(axis);
    rank = rank * size + mesh.coordinate(axis);
    ranks *= size;
  }
  const count = prompts / ranks;
  if (Number.isInteger(count)) return { first: rank * count, count };
  throw new ConfigError(
    {
      asked: `completions of ${prompts} prompts on ${ranks} ranks`,
      found: 'a number of prompts that the ranks cannot share evenly',
      todo: `Give a multiple of ${ranks} prompts`,
    },
    { prompts, ranks },
  );
}

/**
 * Compares a text between the ranks of some axes. It is a collective of host memory. Throws CollectiveMismatchError on all
 * of them if one differs: they would take parts of different lists, or of different random numbers.
 */
export async function requireSameRollout(text: string, axes: readonly string[]): Promise<void> {
  const hash = hashOf(text);
  // Equal numbers have the same largest and smallest one. The complement turns one into the other.
  const most = Int32Array.of(hash, ~hash);
  for (const axis of axes) {
    const bytes = new Uint8Array(most.buffer);
    await currentSession().mesh.group(axis).allReduce({ bytes, dtype: 'i32' }, 'max');
  }
  const [largest = 0, complement = 0] = most;
  if (largest === ~complement) return;
  throw new CollectiveMismatchError(
    {
      asked: 'completions of prompts, of which each rank makes a part',
      found: 'other prompts, another seed or other options on another rank',
      todo: 'Give all ranks the same ones. Each rank takes its part itself',
    },
    { axes },
  );
}
