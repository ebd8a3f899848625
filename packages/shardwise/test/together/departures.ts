import { createHash } from 'node:crypto';
import { CollectiveTimeoutError } from '@shardwise/core/spec';
import type { Members, RoundResult } from '@shardwise/strategies';
import { expect } from 'vitest';
import { DirectNetwork } from './direct-network.ts';
import { PlainTrainer, valueOf } from './plain-trainer.ts';
import { randomOf, VirtualNetwork } from './virtual-network.ts';

/** An update, by the number of its member and what it has learned. */
interface Learned {
  readonly number: number;
  readonly learned: number;
}

/** What all members together have seen. */
class Records {
  /** The updates of each round. */
  readonly rounds = new Map<number, readonly Learned[]>();
  /** The hashes that members have found after so many rounds. */
  readonly hashes = new Map<number, Set<string>>();

  observe(members: Members): Members {
    const seen = (round: number, result: RoundResult | null): void => {
      if (result?.kind !== 'updates') return;
      const updates = result.updates.map(({ number, bytes }) => ({
        number,
        learned: valueOf(bytes),
      }));
      // All members have the same updates in the same order.
      expect(this.rounds.get(round) ?? updates).toEqual(updates);
      this.rounds.set(round, updates);
    };
    return {
      specificationVersion: 1,
      enter: (run, own) => members.enter(run, own),
      async exchange(round, message) {
        const result = await members.exchange(round, message);
        seen(round, result);
        return result;
      },
      async follow(completed) {
        const result = await members.follow(completed);
        seen(completed, result);
        return result;
      },
      took: (state) => {
        const hash = createHash('sha256').update(state.bytes).digest('hex');
        const hashes = this.hashes.get(state.completed) ?? new Set();
        this.hashes.set(state.completed, hashes.add(hash));
        return members.took(state);
      },
      refuse: (round, refused) => members.refuse(round, refused),
    };
  }
}

const workers = 8;
/** Fewer are left alone until others have come again. */
const FEWEST_TRAINING = 3;

/** How the members of a run that is disturbed send. */
interface Disturbed {
  /** Whether they send updates to each other directly. */
  readonly areDirect: boolean;
  /** Whether they have two fragments, whose messages overlap their updates. */
  readonly overlap: boolean;
  /** The number of random events. */
  readonly events: number;
}

/** Eight workers, and random events: one leaves and comes again, loses its connection, or cannot be reached. */
async function disturbedRun(
  seed: number,
  { areDirect, overlap, events }: Disturbed,
): Promise<{
  readonly records: Records;
  readonly network: VirtualNetwork;
  /** What members have learned. Each number occurs once. */
  readonly learned: readonly number[];
  /** How often a member was disturbed. */
  readonly disturbances: number;
}> {
  const network = new VirtualNetwork(seed, {}, 3);
  const direct = new DirectNetwork(network);
  const random = randomOf(seed + 100);
  const records = new Records();
  const names = Array.from({ length: workers }, (_, worker) => `worker-${worker}`);
  const leaving = new Set<string>();
  const learned: number[] = [];
  let disturbances = 0;
  const over = new AbortController();

  const train = async (name: string): Promise<void> => {
    const member = network.member(name, 'secret', areDirect ? direct.of(name) : null);
    await member.connect();
    const values = overlap ? [random(), random()] : [random()];
    const trainer = new PlainTrainer(records.observe(member), ...values);
    await trainer.enter();
    while (!over.signal.aborted && !leaving.delete(name)) {
      learned.push(learned.length + 1);
      const meanwhile = overlap ? network.delay(random() * 400) : undefined;
      await trainer.update(learned.length, meanwhile);
    }
    member.close();
  };
  const live = async (name: string): Promise<void> => {
    while (!over.signal.aborted) {
      try {
        await train(name);
      } catch (error) {
        // Its connection was lost before it was let in.
        if (!(error instanceof CollectiveTimeoutError)) throw error;
      }
      await network.delay(random() * 300);
    }
  };
  const disturb = async (): Promise<void> => {
    const training = (): number =>
      network.coordinator.status.members.filter(({ place }) => place === 'training').length;
    while (training() < workers) await network.delay(100);
    for (let event = 0; event < events; event++) {
      // If all who have the state leave at once, the run goes back to an earlier one.
      while (training() < FEWEST_TRAINING) await network.delay(100);
      const name = names[Math.floor(random() * workers)] ?? '';
      const kind = random();
      disturbances += 1;
      if (kind < 0.4) leaving.add(name);
      else if (kind < 0.7) network.cut(name);
      else if (kind < 0.9) network.hold(name, random() * 4000);
      else {
        // A partition: half of the members are away for longer than a round may last.
        for (const each of names.slice(0, workers / 2)) network.hold(each, 3000);
        disturbances += workers / 2 - 1;
      }
      // A member that cannot be reached holds up the others for the time limit of direct updates, once.
      await network.delay(random() * (areDirect ? 3000 : 1000));
    }
    // The partitions heal.
    while (training() < workers) await network.delay(100);
    over.abort();
  };
  await network.run(Promise.all([disturb(), ...names.map(live)]));
  return { records, network, learned, disturbances };
}

/**
 * Fails unless all states were equal after every round, no update counts twice, and each event has cost a member at most
 * the update that it had not sent.
 */
export async function expectUndisturbed(
  seed: number,
  { areDirect = false, overlap = false, events = 200 }: Partial<Disturbed> = {},
): Promise<void> {
  const found = await disturbedRun(seed, { areDirect, overlap, events });
  const { records, network, learned, disturbances } = found;
  for (const [completed, hashes] of records.hashes) {
    expect([completed, hashes.size]).toEqual([completed, 1]);
  }
  // No round was left out, and the run never went back to an earlier one.
  expect(Math.max(...records.rounds.keys()) + 1).toBe(records.rounds.size);
  expect(network.notices.filter((each) => each.includes('has the state of the run'))).toHaveLength(
    1,
  );
  expect(records.rounds.size).toBeGreaterThan(events / 2);
  const counted = [...records.rounds.values()].flat().map((each) => each.learned);
  expect(new Set(counted).size).toBe(counted.length);
  expect(new Set(counted).isSubsetOf(new Set(learned))).toBe(true);
  // The last update of each member may be on its way when the run ends.
  expect(learned.length - counted.length).toBeLessThanOrEqual(disturbances + workers);
}
