import {
  CollectiveMismatchError,
  type InitialPart,
  Parameter,
  type ProcessGroup,
  type Tensor,
} from '@shardwise/core/extend';
import type { PlanContext } from './plan-context.ts';
import { planLines } from './plan-lines.ts';

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** The longest description of a model that ranks exchange: 16 MiB, far above any real one. */
const MAX_DESCRIPTION_BYTES = 16 * 1024 * 1024;

/**
 * Compares all ranks' models and strategies with rank 0's: the names of tensors, their dtypes and shapes, which of them
 * are frozen, the values drawn for parameters that were constructed in parts, and the strategies with their options. It
 * is a collective. Throws CollectiveMismatchError on every rank, naming the first rank and tensor or
 * option that differ.
 */
export async function requireSameModel(
  { plan, model, parameters }: PlanContext,
  group: ProcessGroup,
): Promise<void> {
  const tensors = [...parameters, ...model.namedBuffers()];
  const isInParts = tensors.some(([, tensor]) => initialPartOf(tensor) !== null);
  const seed = ', and call manualSeed() with one seed before constructSharded()';
  const lines = [`the strategy ${plan.strategy}`, ...tensors.map(describe), '', ...planLines(plan)];
  await requireSameLines(lines, group, {
    asked: 'to train one model on all ranks',
    line: 'tensor',
    heading: 1,
    todo: `Build the same model, with the same strategy and options, on every rank${isInParts ? seed : ''}`,
  });
}

/** The texts of an error of `requireSameLines`. */
export interface ComparedLines {
  readonly asked: string;
  /** The name of a line in the text of the error, such as 'tensor'. */
  readonly line: string;
  /** The number of lines before the one that has this name and the number 0. They name themselves. Default: 0. */
  readonly heading?: number;
  readonly todo: string;
}

/**
 * Compares lines of text with rank 0's. Lines after an empty one name themselves. It is a collective. Throws CollectiveMismatchError on every rank, naming the
 * first rank and line that differ.
 */
export async function requireSameLines(
  lines: readonly string[],
  group: ProcessGroup,
  { asked, line: what, heading = 0, todo }: ComparedLines,
): Promise<void> {
  if (group.size === 1) return;
  const mine = lines.join('\n');
  const theirs = await descriptionOfRoot(mine, group);
  const verdicts = new Int32Array(group.size);
  await group.allGather(
    { bytes: new Uint8Array(Int32Array.of(firstDifference(mine, theirs)).buffer), dtype: 'i32' },
    { bytes: new Uint8Array(verdicts.buffer), dtype: 'i32' },
  );
  const rank = verdicts.findIndex((line) => line >= 0);
  if (rank < 0) return;
  const line = verdicts[rank] ?? 0;
  const end = theirs.split('\n').indexOf('');
  const number = end >= 0 && line > end ? -1 : line - heading;
  const none = number < 0 ? 'nothing of it' : `no such ${what}`;
  const detail =
    rank === group.rank ? `it has ${lineAt(mine, line) ?? none}` : 'that rank says what it has';
  throw new CollectiveMismatchError(
    {
      asked,
      found: `rank ${rank} differs from rank 0${number < 0 ? '' : ` at ${what} ${number}`}: rank 0 has ${lineAt(theirs, line) ?? none}; ${detail}`,
      todo,
    },
    { rank, ...(number >= 0 && { [what]: number }) },
  );
}

function describe([name, tensor]: readonly [string, Tensor]): string {
  const frozen = tensor instanceof Parameter && !tensor.requiresGrad;
  const initial = initialPartOf(tensor);
  const drawn = initial === null ? '' : `, constructed in parts of the values ${initial.drawn}`;
  return `${name} ${tensor.dtype} [${tensor.shape.join(', ')}]${frozen ? ' frozen' : ''}${drawn}`;
}

function initialPartOf(tensor: Tensor): InitialPart | null {
  return tensor instanceof Parameter ? tensor.initialPart : null;
}

async function descriptionOfRoot(mine: string, group: ProcessGroup): Promise<string> {
  const encoded = encoder.encode(mine);
  const length = Int32Array.of(encoded.byteLength);
  await group.broadcast({ bytes: new Uint8Array(length.buffer), dtype: 'i32' }, 0);
  const bytes = new Uint8Array(Math.min(length[0] ?? 0, MAX_DESCRIPTION_BYTES));
  bytes.set(encoded.subarray(0, bytes.byteLength));
  await group.broadcast({ bytes, dtype: 'u8' }, 0);
  return decoder.decode(bytes);
}

/** Returns the number of the first line that differs, or -1 if all are equal. */
function firstDifference(a: string, b: string): number {
  if (a === b) return -1;
  const [linesA, linesB] = [a.split('\n'), b.split('\n')];
  const differs = linesA.findIndex((line, index) => line !== linesB[index]);
  return differs >= 0 ? differs : linesA.length;
}

function lineAt(description: string, line: number): string | null {
  return description.split('\n')[line] || null;
}
