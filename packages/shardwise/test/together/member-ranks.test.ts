import { singleGroup } from '@shardwise/collectives';
import { fromData, LineMesh, nn, optim, setRank, type Strategy } from '@shardwise/core';
import {
  compose,
  ddp,
  diloco,
  type DiLoCoOptions,
  fsdp,
  parallelize,
  zero,
} from '@shardwise/strategies';
import { interpreter } from '@shardwise/testing';
import { onRanks } from '@shardwise/testing/node';
import { describe, expect, it } from 'vitest';
import { VirtualNetwork } from './virtual-network.ts';

const rows = 4;

/** What a member has seen on each of its ranks: the values after each round, as text. */
type Seen = readonly ReadonlyMap<number, string>[];

interface Options extends Partial<DiLoCoOptions> {
  readonly ranks: number;
  readonly inside?: () => Strategy;
  readonly rounds: number;
  /** Whether it trains on after these rounds. */
  readonly goesOn?: () => boolean;
  /** Is called after so many rounds, and again after each one until it says that it has cut the connection. */
  readonly cutAt?: number;
  readonly cut?: () => boolean;
  /** It leaves then. */
  readonly until?: Promise<void>;
  /** Changes the layer before the first update. */
  readonly begin?: (layer: nn.Linear, rank: number) => void;
}

/** The row of a batch, whose number is that of the row in the data of all members. */
const rowOf = (number: number): readonly number[] => [
  Math.sin(number),
  Math.cos(number),
  (number % 5) / 5,
];

/** Trains a layer as one member of several ranks, each of which has a part of the batch. */
async function train(network: VirtualNetwork, name: string, options: Options): Promise<Seen> {
  const { ranks, inside, rounds, cutAt, cut, until, begin, ...more } = options;
  const { goesOn = () => false, ...settings } = more;
  let isCut = cutAt === undefined;
  const decisions: boolean[] = [];
  // The first rank that comes to a step decides for all.
  const goesOnAt = (step: number, completed: number): boolean =>
    (decisions[step] ??= completed < rounds || goesOn() || !isCut);
  return onRanks(
    ranks,
    async ({ rank }) => {
      if (ranks === 1) setRank({ device: interpreter(), mesh: new LineMesh('dp', singleGroup()) });
      const member = network.member(name);
      if (rank === 0) await member.connect();
      const layer = new nn.Linear(3, 5);
      const outer = diloco({ every: 2, members: member, ...settings });
      const parallel = await parallelize(
        layer,
        inside === undefined ? outer : compose(outer, inside()),
      );
      const optimizer = new optim.SGD(layer.parameters(), { lr: 0.1 });
      begin?.(layer, rank);
      const seen = new Map<number, string>();
      for (let step = 0; goesOnAt(step, outer.outer.outerSteps); step++) {
        const own = Array.from({ length: rows / ranks }, (_, at) => {
          return rowOf(step * rows + (rank * rows) / ranks + at);
        });
        const x = fromData(Float32Array.from(own.flat()), [own.length, 3], 'f32');
        optimizer.zeroGrad();
        parallel.forward(x).sub(1).square().mean().backward();
        if (settings.weighted === true) outer.outer.countTokens(own.length);
        const before = outer.outer.outerSteps;
        await optimizer.step();
        if (outer.outer.outerSteps === before) continue;
        if (rank === 0 && !isCut && outer.outer.outerSteps >= (cutAt ?? 0)) isCut = cut?.() ?? true;
        const { fragments } = await outer.outer.stateDict();
        seen.set(outer.outer.outerSteps, fragments.map(({ anchor }) => anchor.bytes).join());
      }
      await until;
      if (rank === 0) member.close();
      return seen;
    },
    { idleTimeoutMs: 60_000 },
  );
}

const patient = { roundTimeoutMs: 1e6, stateTimeoutMs: 1e6 };
const inside = { ddp: () => ddp(), fsdp: () => fsdp(), zero: () => zero({ stage: 2 }) } as const;

describe('a member that is several ranks', () => {
  it.each(['ddp', 'zero', 'fsdp'] as const)(
    'computes by %s what one rank computes from the same samples',
    async (name) => {
      const common = { rounds: 4, fragments: 2 } as const;
      const quiet = new VirtualNetwork(1, patient);
      const alone = await quiet.run(train(quiet, 'one', { ranks: 1, ...common }));
      const network = new VirtualNetwork(1, patient);
      const both = await network.run(
        train(network, 'two', { ranks: 2, inside: inside[name], ...common }),
      );
      const floatsOf = (text: string | undefined): readonly number[] => [
        ...new Float32Array(Uint8Array.from((text ?? '').split(','), Number).buffer),
      ];
      const [expected, ...found] = [...alone, ...both].map((seen) => floatsOf(seen.get(4)));
      for (const values of found) {
        expect(values).toHaveLength(20);
        for (const [at, value] of values.entries()) {
          expect(value).toBeCloseTo(expected?.[at] ?? Number.NaN, 5);
        }
      }
    },
  );

  it.each([
    ['ddp', { bits: 8 }],
    ['zero', { bits: 4, every: 6, fragments: 2, fragmentSyncDelay: 1 }],
    ['fsdp', { weighted: true, every: { seconds: 0.02 }, fragmentSyncDelay: 1 }],
  ] as const)(
    'trains with one that is one rank, loses its connection, and all ranks have one state: %s, %o',
    async (name, settings) => {
      const network = new VirtualNetwork(2, patient);
      const cut = (): boolean => {
        const places = network.coordinator.status.members.map(({ place }) => place);
        const isTogether = places.length === 2 && places.every((place) => place === 'training');
        if (isTogether) network.cut('two');
        return isTogether;
      };
      const common = { rounds: 12, ...settings } as const;
      let isOver = false;
      const two = train(network, 'two', {
        ranks: 2,
        inside: inside[name],
        ...common,
        cutAt: 5,
        cut,
      });
      const ended = two.finally(() => (isOver = true));
      const one = train(network, 'one', { ranks: 1, ...common, goesOn: () => !isOver });
      const [ofOne, ofTwo] = await network.run(Promise.all([one, ended]));
      for (const round of ofTwo[0]?.keys() ?? []) {
        const states = [...ofOne, ...ofTwo].flatMap((seen) => seen.get(round) ?? []);
        expect([round, new Set(states).size]).toEqual([round, 1]);
      }
      expect(ofTwo[1]).toEqual(ofTwo[0]);
      expect(ofTwo[0]?.size).toBeGreaterThan(3);
      expect(network.notices.join()).toContain('two: has lost the connection');
    },
  );

  it('ends on all ranks if it is refused', async () => {
    const network = new VirtualNetwork(3, patient);
    const begun = Promise.withResolvers<void>();
    const over = Promise.withResolvers<void>();
    const first = train(network, 'one', {
      ranks: 1,
      rounds: 3,
      cutAt: 1,
      cut: () => {
        begun.resolve();
        return true;
      },
      until: over.promise,
    });
    await network.run(begun.promise);
    const refused = train(network, 'two', { ranks: 2, inside: inside.ddp, rounds: 2, bits: 8 });
    const ended = network.run(refused).then(
      () => null,
      (error: unknown) => (error as Error).cause,
    );
    expect(await ended).toMatchObject({ code: 'REFUSED', fields: { refusal: 'model' } });
    over.resolve();
    await network.run(first);
  });

  it('whose ranks begin with other values is an error on all of them', async () => {
    const network = new VirtualNetwork(4, patient);
    const training = train(network, 'two', {
      ranks: 2,
      inside: inside.ddp,
      rounds: 1,
      begin: (layer, rank) => layer.weight.assign(layer.weight.add(rank)),
    });
    const error = await network.run(training).catch((thrown: unknown) => thrown);
    expect(String(error)).toContain('rank 1 has another one than rank 0');
  });

  it('needs a strategy by which its ranks share its work', async () => {
    const network = new VirtualNetwork(5, patient);
    const error = await network
      .run(train(network, 'two', { ranks: 2, rounds: 1 }))
      .catch((thrown: unknown) => thrown);
    expect(String(error)).toContain("2 ranks of 'dp' in this program");
    expect(String(error)).toContain('compose(diloco({ members }), ddp())');
  });
});
