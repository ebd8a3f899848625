import { type Check, limitedText, object } from '../saved-data.ts';
import { CheckpointError, ShardwiseError } from '../spec/errors.ts';
import type { ProcessGroup } from '../spec/process-group.ts';

/** What is asked of all ranks, and what to do if one of them fails. */
interface SharedWork {
  readonly asked: string;
  readonly todo: string;
}

/** Why a rank has failed. */
interface Failure {
  readonly found: string;
  readonly todo: string;
}

const MAX_MESSAGE_LENGTH = 2 ** 20;
const checkFailure: Check<Failure> = object<Failure>({
  found: limitedText(MAX_MESSAGE_LENGTH),
  todo: limitedText(MAX_MESSAGE_LENGTH),
});

/**
 * Does `work` on every rank of a group (null: on this rank alone), and returns the result of each, which `schema` checks. It is a collective. If the work fails on any rank, all
 * ranks throw a CheckpointError that names the failed ranks and their reasons.
 */
export async function onAllRanks<T>(
  group: ProcessGroup | null,
  { asked, todo }: SharedWork,
  schema: { parse(value: unknown): T },
  work: () => Promise<T>,
): Promise<readonly T[]> {
  let cause: unknown;
  let own: { readonly value: T } | { readonly failure: Failure };
  try {
    own = { value: await work() };
  } catch (error) {
    cause = error;
    own = { failure: describe(error, todo) };
  }
  const text = JSON.stringify(own);
  const texts = group === null ? [text] : await allGatherTexts(group, text);
  const values: T[] = [];
  const failures: { readonly rank: number; readonly found: string; readonly todo: string }[] = [];
  for (const [rank, outcomeText] of texts.entries()) {
    const outcome: unknown = JSON.parse(outcomeText);
    if (typeof outcome === 'object' && outcome !== null && 'failure' in outcome) {
      failures.push({ rank, ...checkFailure(outcome.failure, 'failure') });
    } else {
      const hasValue = typeof outcome === 'object' && outcome !== null && 'value' in outcome;
      values.push(schema.parse(hasValue ? outcome.value : undefined));
    }
  }
  const [first] = failures;
  if (first === undefined) return values;
  throw new CheckpointError(
    {
      asked,
      found: failures
        .map(({ rank, found }) => (texts.length === 1 ? found : `rank ${rank}: ${found}`))
        .join('; '),
      todo: first.todo,
    },
    { ranks: failures.map(({ rank }) => rank) },
    cause === undefined ? {} : { cause },
  );
}

function describe(error: unknown, todo: string): Failure {
  if (error instanceof SaveFailure) return { found: error.message, todo: error.todo };
  if (ShardwiseError.isInstance(error)) return { found: error.message, todo };
  const code = error instanceof Error && 'code' in error ? error.code : undefined;
  const found = error instanceof Error ? error.message : String(error);
  const isFull =
    code === 'ENOSPC' || (error instanceof Error && error.name === 'QuotaExceededError');
  if (isFull) return { found, todo: `Make room on the disk. ${todo}` };
  return { found, todo };
}

/** Gathers the text of each rank on every rank. */
async function allGatherTexts(group: ProcessGroup, text: string): Promise<readonly string[]> {
  const own = new TextEncoder().encode(text);
  const lengths = new Int32Array(group.size);
  await group.allGather(
    { bytes: new Uint8Array(Int32Array.of(own.byteLength).buffer), dtype: 'i32' },
    { bytes: new Uint8Array(lengths.buffer), dtype: 'i32' },
  );
  const longest = Math.max(...lengths);
  const input = new Uint8Array(longest);
  input.set(own);
  const output = new Uint8Array(longest * group.size);
  await group.allGather({ bytes: input, dtype: 'u8' }, { bytes: output, dtype: 'u8' });
  return Array.from(lengths, (length, rank) =>
    new TextDecoder().decode(output.subarray(rank * longest, rank * longest + length)),
  );
}

/** Says why a rank cannot save, and what to do about it. */
export class SaveFailure extends Error {
  readonly todo: string;

  constructor(found: string, todo: string) {
    super(found);
    this.todo = todo;
  }
}
