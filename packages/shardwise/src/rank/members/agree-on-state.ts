import { allGatherObject, broadcastObject } from '@shardwise/collectives';
import { type ProcessGroup, TensorStateError } from '@shardwise/core/extend';
import { z } from 'zod';
import { MemoryFolder } from '../../checkpoint/places/memory-folder.ts';
import type { HeldState } from './committed-state.ts';

/** The states of a rank. */
export interface Held {
  /** The latest ones, newest first, and at most two: the others may lack the newest one. */
  readonly states: readonly HeldState[];
  /** The latest update of which this rank knows that all ranks had its state. It is -1 if there is none. */
  readonly settled: number;
}

/** What ranks have agreed on: nothing to go on with if their training is to begin. */
export interface Agreed extends Held {
  readonly taken: HeldState | undefined;
}

const MAX_STATES = 2;
const saidOfState = z.object({
  step: z.int().nonnegative(),
  epoch: z.int().nonnegative(),
  sums: z.record(z.string().max(256), z.number()),
});
type SaidOfState = z.infer<typeof saidOfState>;
/** What a rank says of its states. */
const said = z.object({ states: z.array(saidOfState).max(MAX_STATES), settled: z.int() });
type Said = z.infer<typeof said>;
const files = z
  .array(z.object({ name: z.string().max(4096), byteLength: z.int().nonnegative() }))
  .max(2 ** 20);

/**
 * Gives all ranks of a new world the newest state that is there of each part. Ranks whose numbers are equal modulo
 * `replicaSize` have the same part. An update that only some ranks of a part have is kept: it was computed from the
 * gradients of all. It is a collective. Throws TensorStateError if ranks with the same part have different states of an
 * update, and if the parts that are left are not those of one update that is new enough.
 */
export async function agreeOnState(
  group: ProcessGroup,
  own: Held,
  replicaSize: number,
): Promise<Agreed> {
  const held = await tell(group, own);
  const settled = Math.max(...held.map((each) => each.settled));
  const newest = newestOf(held, replicaSize);
  if ((newest?.step ?? -1) < settled) throw noCommonState(held);
  if (newest === undefined) return { taken: undefined, states: [], settled };
  requireEqual(held, newest, replicaSize);
  const taken = await takeState(group, held, { own, newest, replicaSize });
  // Another rank may be lost before it has taken the state. Then all go on with the one before.
  const before = own.states.filter(({ step }) => step < taken.step);
  return { taken, states: [taken, ...before].slice(0, MAX_STATES), settled };
}

async function takeState(
  group: ProcessGroup,
  held: readonly Said[],
  { own, newest, replicaSize }: { own: Held; newest: StateId; replicaSize: number },
): Promise<HeldState> {
  const found = own.states.find((state) => isSame(state, newest));
  const have = held.map(({ states }) => states.find((state) => isSame(state, newest)));
  if (found !== undefined && have.every((each) => each !== undefined)) return found;
  const place = group.rank % replicaSize;
  const part = replicaSize === 1 ? group : await group.split(place, group.rank);
  if (part === undefined) throw new RangeError('a rank without a part');
  const ofPeers = have.filter((_, rank) => rank % replicaSize === place);
  const source = ofPeers.findIndex((each) => each !== undefined);
  const isSource = part.rank === source;
  const isNeeded = ofPeers.includes(undefined);
  const packed = isSource && isNeeded ? await found?.pack() : undefined;
  const folder = isNeeded ? await sendFiles(part, source, packed) : undefined;
  if (part !== group) part.close();
  if (found !== undefined) return found;
  if (folder === undefined) throw new RangeError('a state that no peer has sent');
  const sums = ofPeers[source]?.sums ?? {};
  return { ...newest, checksums: async () => sums, pack: async () => folder };
}

/** An update, and the membership in which it was made: others may make an update of the same number again. */
type StateId = Pick<HeldState, 'step' | 'epoch'>;

function isSame(a: StateId, b: StateId): boolean {
  return a.step === b.step && a.epoch === b.epoch;
}

/** The newest state that is there of each part. */
function newestOf(held: readonly Said[], replicaSize: number): StateId | undefined {
  const ofPart = (part: number): readonly SaidOfState[] =>
    held.filter((_, rank) => rank % replicaSize === part).flatMap(({ states }) => states);
  const parts = Array.from({ length: replicaSize }, (_, part) => ofPart(part));
  const [newest] = ofPart(0)
    .filter((state) => parts.every((part) => part.some((other) => isSame(other, state))))
    .toSorted((a, b) => b.step - a.step || b.epoch - a.epoch);
  return newest && { step: newest.step, epoch: newest.epoch };
}

/** Throws TensorStateError on all ranks if those with the same part have different states. It is a collective. */
export async function requireEqualStates(
  group: ProcessGroup,
  own: HeldState,
  replicaSize: number,
): Promise<void> {
  requireEqual(await tell(group, { states: [own], settled: -1 }), own, replicaSize);
}

async function tell(group: ProcessGroup, { states, settled }: Held): Promise<readonly Said[]> {
  const own: SaidOfState[] = [];
  for (const state of states) {
    own.push({ step: state.step, epoch: state.epoch, sums: await state.checksums() });
  }
  const mine: Said = { states: own, settled };
  return (await allGatherObject(group, mine)).map((value) => said.parse(value));
}

function requireEqual(held: readonly Said[], id: StateId, replicaSize: number): void {
  const first = new Map<number, readonly [rank: number, sums: SaidOfState['sums']]>();
  for (const [rank, { states }] of held.entries()) {
    const sums = states.find((state) => isSame(state, id))?.sums;
    if (sums === undefined) continue;
    const part = rank % replicaSize;
    const [known, expected] = first.get(part) ?? [rank, sums];
    first.set(part, [known, expected]);
    const names = new Set([...Object.keys(sums), ...Object.keys(expected)]);
    const what = [...names].find((key) => sums[key] !== expected[key]);
    if (what !== undefined) throw differentStates(what, [known, rank], id.step);
  }
}

function differentStates(
  what: string,
  ranks: readonly [number, number],
  step: number,
): TensorStateError {
  return new TensorStateError(
    {
      asked: `survive(), to go on after update ${step} without a rank or with another one`,
      found: `ranks ${ranks.join(' and ')} have different states there: ${what}`,
      todo: 'Seed all ranks alike (manualSeed), keep only what is equal on all ranks in `states`, and train by a strategy such as ddp()',
    },
    { ranks, step, what },
  );
}

function noCommonState(held: readonly Said[]): TensorStateError {
  const steps = held.map(({ states }) => states.map(({ step }) => step));
  const texts = steps.map((own, rank) => `rank ${rank}: ${own.join(' and ') || 'none'}`);
  return new TensorStateError(
    {
      asked: 'survive(), to go on without ranks that are lost',
      found: `no update of which each part of the state is left (${texts.join(', ')})`,
      todo: 'Start again from the last checkpoint, as --max-restarts does',
    },
    { steps },
  );
}

/** Sends the files of rank `source` to the others. It is a collective. */
async function sendFiles(
  group: ProcessGroup,
  source: number,
  packed: MemoryFolder | undefined,
): Promise<MemoryFolder> {
  const own = [...(packed?.files ?? [])];
  const listed = own.map(([name, { byteLength }]) => ({ name, byteLength }));
  const list = files.parse(await broadcastObject(group, listed, source));
  const received = new MemoryFolder('the memory of the ranks');
  for (const { name, byteLength } of list) {
    const bytes =
      group.rank === source
        ? (packed?.files.get(name) ?? new Uint8Array(byteLength))
        : new Uint8Array(byteLength);
    if (byteLength > 0) await group.broadcast({ bytes, dtype: 'u8' }, source);
    received.put(name, bytes);
  }
  return received;
}
