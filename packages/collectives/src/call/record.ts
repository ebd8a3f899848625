import type { CallIdentity, DType, ReduceOp } from '@shardwise/core/spec';

/** Every call in which all ranks of a group take part, by the name of its method. */
export const operations = [
  'allReduce',
  'allGather',
  'reduceScatter',
  'allToAll',
  'broadcast',
  'reduce',
  'gather',
  'scatter',
  'barrier',
  'split',
] as const;

/** The name of a call in which all ranks of a group take part. */
export type Operation = (typeof operations)[number];

/** What ranks must agree on in one call. They compare it when they meet, and errors print it if it differs. */
export interface CallRecord {
  readonly operation: Operation;
  /** Undefined if no data moves. */
  readonly dtype: DType | undefined;
  /** n of the operation's shape line. May differ between ranks in allToAll only. */
  readonly elements: number;
  readonly root: number | undefined;
  readonly reduce: ReduceOp | undefined;
  /** The backward pass since the last update to which the call belongs, from 1. Undefined if it belongs to none. */
  readonly pass: number | undefined;
  /** What the call is beyond its operation. Undefined if its caller has not said it. */
  readonly identity: CallIdentity | undefined;
  /** How many elements go to each rank and come from each rank. Only allToAll has them. */
  readonly splits: Splits | undefined;
  /** This rank's colour and key, which may differ between ranks. Only a split has them. */
  readonly member: Member | undefined;
}

export interface Splits {
  readonly input: readonly number[];
  readonly output: readonly number[];
}

export interface Member {
  readonly color: number | undefined;
  readonly key: number;
  /** Where the new groups will meet in shared memory, as rank 0 proposes it. -1 if there is no place left. */
  readonly channel: number;
}

/** Describes a call for messages: `allReduce(sum, f32 [10])`. */
export function describeCall(record: CallRecord): string {
  const parts: string[] = [];
  if (record.reduce !== undefined) parts.push(describeReduce(record.reduce));
  if (record.root !== undefined) parts.push(`root ${record.root}`);
  if (record.dtype !== undefined) parts.push(`${record.dtype} [${record.elements}]`);
  if (record.splits !== undefined) {
    parts.push(
      `splits [${record.splits.input.join(', ')}] -> [${record.splits.output.join(', ')}]`,
    );
  }
  if (record.pass !== undefined) parts.push(`pass ${record.pass}`);
  return `${record.operation}(${parts.join(', ')})`;
}

export function describeReduce(op: ReduceOp | null | undefined): string {
  return typeof op === 'string' ? op : `premultipliedSum ${op?.premultipliedSum}`;
}

/**
 * The ranks of the new group into which a split puts `rank`, ordered by key and then by rank. Undefined if `rank` has
 * no colour.
 */
export function membersOf(rank: number, members: readonly Member[]): readonly number[] | undefined {
  const color = members[rank]?.color;
  if (color === undefined) return undefined;
  return members
    .map((member, index) => ({ ...member, index }))
    .filter((member) => member.color === color)
    .sort((a, b) => a.key - b.key || a.index - b.index)
    .map((member) => member.index);
}
