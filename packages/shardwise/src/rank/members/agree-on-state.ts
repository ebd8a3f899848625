import { allGatherObject, broadcastObject } from '@shardwise/collectives';
import { type ProcessGroup, TensorStateError } from '@shardwise/core/extend';
import { z } from 'zod';
import { MemoryFolder } from '../../checkpoint/places/memory-folder.ts';
import type { HeldState } from './committed-state.ts';

/** What a rank says of its state: nothing, if it has none yet. */
const said = z.object({ step: z.int(), sums: z.record(z.string(), z.number()) }).nullable();
type Said = z.infer<typeof said>;
const files = z
  .array(z.object({ name: z.string().max(4096), byteLength: z.int().nonnegative() }))
  .max(2 ** 20);

/**
 * Gives all ranks of a new world the state with the most updates. An update that only some ranks have is kept: it was
 * computed from the gradients of all. Returns undefined if no rank has a state. It is a collective. Throws
 * TensorStateError if ranks with equally many updates have different states.
 */
export async function agreeOnState(
  group: ProcessGroup,
  own: HeldState | undefined,
): Promise<HeldState | undefined> {
  const held = await tell(group, own);
  const step = Math.max(...held.map((each) => each?.step ?? -1));
  if (step < 0) return undefined;
  requireEqual(held, step);
  const source = held.findIndex((each) => each?.step === step);
  if (held.every((each) => each?.step === step)) return own;
  const packed = own?.step === step ? await own.pack() : undefined;
  const folder = await sendFiles(group, source, packed);
  const sums = held[source]?.sums ?? {};
  return { step, checksums: async () => sums, pack: async () => folder };
}

/** Throws TensorStateError on all ranks if their states differ. It is a collective. */
export async function requireEqualStates(group: ProcessGroup, own: HeldState): Promise<void> {
  requireEqual(await tell(group, own), own.step);
}

async function tell(group: ProcessGroup, own: HeldState | undefined): Promise<readonly Said[]> {
  const mine = own === undefined ? null : { step: own.step, sums: await own.checksums() };
  return (await allGatherObject(group, mine)).map((value) => said.parse(value));
}

function requireEqual(held: readonly Said[], step: number): void {
  const first = held.findIndex((each) => each?.step === step);
  for (const [rank, each] of held.entries()) {
    if (each?.step !== step) continue;
    const { sums } = each;
    const what = Object.keys(sums).find((key) => sums[key] !== held[first]?.sums[key]);
    if (what !== undefined) throw differentStates(what, [first, rank], step);
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
