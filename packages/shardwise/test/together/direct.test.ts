import { describe, expect, it } from 'vitest';
import { decodePiece, encodePiece } from '../../src/together/protocol/pieces.ts';
import { DirectNetwork } from './direct-network.ts';
import { PlainTrainer } from './plain-trainer.ts';
import { VirtualNetwork } from './virtual-network.ts';

interface Run {
  readonly network: VirtualNetwork;
  readonly direct: DirectNetwork;
  readonly trainers: readonly PlainTrainer[];
}

interface RunOptions {
  readonly seed: number;
  readonly names: readonly string[];
  /** Whether a member has WebRTC at all. */
  readonly isPage?: (name: string) => boolean;
  readonly canMeet?: (a: string, b: string) => boolean;
  readonly act?: (run: Run) => Promise<void>;
  /** The rounds that all train for together. */
  readonly rounds?: number;
}

/** Trains until all members have been in so many rounds together, and counts what was passed on in these. */
async function train(options: RunOptions) {
  const { seed, names, canMeet, isPage = () => true, rounds = 20 } = options;
  const network = new VirtualNetwork(seed, { roundTimeoutMs: 60_000 }, 3);
  const direct = new DirectNetwork(network, canMeet);
  const members = names.map((name) =>
    network.member(name, 'secret', isPage(name) ? direct.of(name) : null),
  );
  const trainers = members.map((member, at) => new PlainTrainer(member, at));
  let until = Infinity;
  const live = async (at: number): Promise<void> => {
    const [member, trainer] = [members[at], trainers[at]];
    if (member === undefined || trainer === undefined) throw new RangeError('no member');
    await member.connect();
    await trainer.enter();
    while (trainer.completed < until) await trainer.update(at + 1);
  };
  const found = { relayed: 0, ways: [''] as readonly string[], virtualMs: 0 };
  const follow = async (): Promise<void> => {
    const { coordinator } = network;
    const areAll = (): boolean =>
      coordinator.status.members.filter(({ place }) => place === 'training').length ===
      names.length;
    while (!areAll()) await network.delay(50);
    // Connections are made meanwhile.
    await network.delay(3000);
    const before = coordinator.status.relayedBytes;
    const beganMs = network.nowMs;
    const first = coordinator.status.completed;
    const acting = options.act?.({ network, direct, trainers });
    while (coordinator.status.completed < first + rounds) await network.delay(20);
    await acting;
    const { status } = coordinator;
    found.relayed = status.relayedBytes - before;
    found.ways = status.members.map(({ name, link }) => `${name} ${link}`).toSorted();
    found.virtualMs = network.nowMs - beganMs;
    until = status.completed + 5;
  };
  await network.run(Promise.all([follow(), ...names.map((_, at) => live(at))]));
  return { ...found, network, direct, trainers };
}

const names = ['a', 'b', 'c'];

describe('updates of members that reach each other directly', () => {
  it('do not pass the coordinator', async () => {
    const { relayed, ways, direct } = await train({ seed: 1, names });
    expect(relayed).toBe(0);
    expect(ways).toEqual(['a direct', 'b direct', 'c direct']);
    expect(direct.bytes).toBeGreaterThan(20 * 6 * 4);
  });

  it('pass it for those who are not reached, and only for these', async () => {
    const canMeet = (a: string, b: string): boolean => [a, b].toSorted().join('') !== 'ab';
    const { relayed, ways } = await train({ seed: 2, names, canMeet });
    expect(ways).toEqual(['a both', 'b both', 'c direct']);
    // Four bytes of each of the two, for each other, in a round. The last round may be under way.
    expect(relayed).toBeGreaterThanOrEqual(20 * 2 * 4);
    expect(relayed).toBeLessThanOrEqual(22 * 2 * 4);
  });

  it('pass it for a member that has no WebRTC, as in Node', async () => {
    const { ways, network } = await train({ seed: 3, names, isPage: (name) => name !== 'c' });
    expect(ways).toEqual(['a both', 'b both', 'c relay']);
    expect(network.notices.filter((each) => each.includes('refused'))).toEqual([]);
  });

  it('pass it if a network allows no connections', async () => {
    const { ways } = await train({ seed: 4, names, canMeet: () => false });
    expect(ways).toEqual(['a relay', 'b relay', 'c relay']);
  });

  it('pass it after a connection has ended, or does not carry them any more', async () => {
    const cut = await train({
      seed: 5,
      names,
      act: async ({ network, direct }) => {
        await network.delay(100);
        direct.cut('b');
      },
    });
    expect(cut.ways).toEqual(['a both', 'b relay', 'c both']);
    const silent = await train({
      seed: 6,
      names,
      act: async ({ direct }) => {
        direct.alter = (bytes, from, to) => (from === 'a' && to === 'b' ? null : bytes);
      },
    });
    // One update was late by the time limit, and the round went on.
    expect(silent.ways).toEqual(['a both', 'b both', 'c direct']);
    expect(silent.virtualMs).toBeLessThan(20_000);
  });

  it('that are others than those to which a member has committed are not taken, and pass it', async () => {
    const { ways, network, trainers } = await train({
      seed: 7,
      names,
      act: async ({ direct }) => {
        direct.alter = (bytes, from) => {
          const piece = decodePiece(bytes);
          const isWrong = from === 'a' && piece !== null;
          return isWrong
            ? bytes.map((byte, at) => (at === bytes.length - 1 ? byte ^ 1 : byte))
            : bytes;
        };
      },
    });
    expect(ways).toEqual(['a relay', 'b both', 'c both']);
    expect(new Set(trainers.map(({ completed }) => completed)).size).toBe(1);
    expect(network.notices.filter((each) => each.includes('takes the state')).length).toBeLessThan(
      6,
    );
  });

  it('of rounds that have not begun are no rounds that a member has missed', async () => {
    const { network } = await train({
      seed: 9,
      names,
      act: async ({ network, direct }) => {
        const { completed } = network.coordinator.status;
        for (let round = completed; round < completed + 20; round += 1) {
          const bytes = Uint8Array.of(1);
          direct.inject(
            encodePiece({ kind: 'update', round, member: 1, offset: 0, bytes }),
            'a',
            'b',
          );
        }
      },
    });
    expect(network.notices.filter((each) => each.includes('has missed'))).toEqual([]);
  });

  it('need none of them if a member is alone', async () => {
    const { relayed, network } = await train({ seed: 8, names: ['a'] });
    expect(relayed).toBe(0);
    expect(network.coordinator.status.completed).toBeGreaterThan(20);
  });
});
