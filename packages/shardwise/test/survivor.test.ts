import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { manualSeed, nn, optim, randomState, setRandomState } from '@shardwise/core';
import { ConfigError, TensorStateError } from '@shardwise/core/spec';
import { ddp, fsdp, parallelize } from '@shardwise/strategies';
import type { Strategy } from '@shardwise/core/extend';
import { onRanks, type RankInThread } from '@shardwise/testing/node';
import { singleGroup } from '@shardwise/collectives';
import { checkpoints } from 'shardwise';
import { describe, expect, it } from 'vitest';
import { rankContentsOf } from '../src/checkpoint/save/checkpoint-contents.ts';
import { AgreedStop } from '../src/rank/agreed-stop.ts';
import { createRankContext } from '../src/rank/create-rank-context.ts';
import { type Agreed, agreeOnState } from '../src/rank/members/agree-on-state.ts';
import { commitState, type HeldState } from '../src/rank/members/committed-state.ts';
import { MembershipChange } from '../src/rank/members/member-link.ts';
import { unpackState } from '../src/rank/members/packed-state.ts';
import { Survivor } from '../src/rank/members/survivor.ts';
import type { Training } from '../src/rank/members/training.ts';
import {
  type DivisionName,
  divisions,
  lossOf,
  makeTraining,
  samplesOf,
} from './fixtures/survive-training.ts';

async function trained(
  steps: number,
  { rank, size }: Pick<RankInThread, 'rank' | 'size'>,
  division: DivisionName = 'ddp',
): Promise<Training> {
  const training = await makeTraining(division);
  for (let step = 1; step <= steps; step += 1) {
    lossOf(training, samplesOf(step, rank, size, division)).backward();
    await training.optimizer.step();
    training.optimizer.zeroGrad();
    training.states.schedule.step();
  }
  const { model, optimizer, states } = training;
  return { model, optimizer, states };
}

const valuesOf = async ({ model }: Training): Promise<readonly number[]> => {
  const data = await Promise.all(model.parameters().map((each) => each.data()));
  return data.flatMap((each) => [...each].map(Number));
};

function survivorOf(
  { rank, group, mesh, device }: RankInThread,
  more: {
    readonly hasChanged?: () => boolean;
    readonly onBound?: (reason: string) => void;
    readonly resumeDirectory?: string;
    readonly replicaSize?: number;
  } = {},
): Survivor {
  const { context } = createRankContext({
    rank,
    localRank: rank,
    transport: { kind: 'own', reason: 'ranks of a test' },
    device,
    group,
    mesh,
    memoryBytes: () => undefined,
    utilization: null,
    profile: null,
    runDirectory: tmpdir(),
    resumeDirectory: more.resumeDirectory,
    stop: new AgreedStop(group),
    send: () => undefined,
    onClose: () => undefined,
  });
  return new Survivor({
    context,
    epoch: 0,
    agreed: { taken: undefined, states: [], settled: -1 },
    replicaSize: more.replicaSize ?? 1,
    hasChanged: more.hasChanged ?? (() => false),
    onCommitted: () => undefined,
    onBound: more.onBound ?? (() => undefined),
  });
}

/** What ranks of DDP agree on. */
const agree = (
  { group }: RankInThread,
  own: HeldState | undefined,
  replicaSize = 1,
): Promise<Agreed> =>
  agreeOnState(group, { states: own === undefined ? [] : [own], settled: -1 }, replicaSize);

describe('ranks that agree on a state', () => {
  it('all take the one with the most updates, with its random numbers', async () => {
    const results = await onRanks(3, async (rank) => {
      const training = await trained(4, rank);
      const newest = await commitState(training, 4);
      const expected = { values: await valuesOf(training), random: randomState() };
      // Rank 0 has just come, and rank 1 lacks an update.
      const older = await commitState(await trained(3, rank), 3);
      const own = [undefined, older, newest][rank.rank];
      const { taken } = await agree(rank, own);
      manualSeed(1);
      const fresh = await makeTraining();
      const step = taken && (await unpackState(await taken.pack(), fresh));
      return { step, expected, found: { values: await valuesOf(fresh), random: randomState() } };
    });
    for (const { step, expected, found } of results) {
      expect(step).toBe(4);
      expect(found).toEqual(expected);
    }
  });

  it('have none if no rank has one', async () => {
    const found = await onRanks(2, (rank) => agree(rank, undefined));
    for (const { taken } of found) expect(taken).toBeUndefined();
  });

  it('throw on all ranks if those of one update differ, and say in what', async () => {
    const errors = await onRanks(3, async (rank) => {
      const training = await trained(2, rank);
      if (rank.rank === 2) manualSeed(3);
      const own = rank.rank === 0 ? undefined : await commitState(training, 2);
      return agree(rank, own).catch((error: unknown) => error);
    });
    for (const error of errors) {
      expect(error).toBeInstanceOf(TensorStateError);
      expect(error).toMatchObject({ fields: { ranks: [1, 2], what: 'random numbers' } });
    }
  });

  it('do not wait for one that is lost while it sends', async () => {
    const [, found] = await onRanks(2, async (rank) => {
      const committed = await commitState(await trained(1, rank), 1);
      const lost = {
        ...committed,
        pack: () => Promise.reject(new RangeError('lost while it sends')),
      };
      return agree(rank, rank.rank === 0 ? lost : undefined).catch((error: unknown) => {
        rank.group.close(error instanceof Error ? error : undefined);
        return error;
      });
    });
    expect(String(found)).toContain('lost while it sends');
  });
});

/** A state of which nothing is read. */
const stateOf = (step: number, epoch: number, sum = 0): HeldState => ({
  step,
  epoch,
  checksums: async () => ({ model: sum }),
  pack: () => Promise.reject(new RangeError('it is not sent')),
});

describe('ranks that have parts of a state', () => {
  it.each(['hsdp', 'stages'] as const)(
    'take theirs from a peer with the same: %s',
    async (division) => {
      const { axes } = divisions[division];
      await onRanks(
        4,
        async (rank) => {
          const training = await trained(3, rank, division);
          const committed = await commitState(training, 3);
          const expected = { values: await partsOf(training), random: randomState() };
          const comes = rank.rank === 1 || rank.rank === 2;
          const { taken } = await agree(rank, comes ? undefined : committed, 2);
          manualSeed(1);
          const fresh = await trained(0, rank, division);
          expect(taken && (await unpackState(await taken.pack(), fresh))).toBe(3);
          expect({ values: await partsOf(fresh), random: randomState() }).toEqual(expected);
        },
        { axes: axes(4) },
      );
    },
  );

  it('refuse parts of another division', async () => {
    const packed = await onRanks(
      2,
      async (rank) => (await commitState(await trained(1, rank, 'hsdp'), 1)).pack(),
      { axes: divisions.hsdp.axes(2) },
    );
    const axes = [
      { name: 'dp', size: 1 },
      { name: 'shard', size: 4 },
    ];
    const errors = await onRanks(
      4,
      async (rank) => {
        const folder = packed[rank.rank % 2];
        const training = await trained(0, rank, 'hsdp');
        return folder && unpackState(folder, training).catch((error: unknown) => error);
      },
      { axes },
    );
    for (const error of errors) expect(error).toBeInstanceOf(TensorStateError);
  });

  it('go back to the newest update of which each part is there', async () => {
    const found = await onRanks(4, ({ rank, group }) => {
      // Ranks 0 and 2 have made update 5, and those with the other part have not.
      const states = rank % 2 === 0 ? [stateOf(5, 0), stateOf(4, 0)] : [stateOf(4, 0)];
      return agreeOnState(group, { states, settled: 4 }, 2);
    });
    for (const { taken, states } of found) {
      expect(taken?.step).toBe(4);
      expect(states.map(({ step }) => step)).toEqual([4]);
    }
  });

  it('begin again if the first update is not there of each part', async () => {
    const found = await onRanks(2, ({ rank, group }) =>
      agreeOnState(group, { states: rank === 0 ? [stateOf(1, 0)] : [], settled: -1 }, 2),
    );
    for (const { taken, states } of found) expect([taken, states]).toEqual([undefined, []]);
  });

  it('do not mix updates of one number that different ranks have made', async () => {
    const found = await onRanks(4, ({ rank, group }) => {
      // Ranks 2 and 3 had made update 5 when they had to wait, and the others made it anew with fewer ranks.
      const epoch = rank < 2 ? 1 : 0;
      return agreeOnState(group, { states: [stateOf(5, epoch, epoch)], settled: 4 }, 2);
    }).catch(({ cause }: Error) => cause);
    expect(String(found)).toContain('it is not sent');
    const errors = await onRanks(2, ({ rank, group }) =>
      agreeOnState(group, { states: [stateOf(5, rank)], settled: 4 }, 2).catch(
        (error: unknown) => error,
      ),
    );
    for (const error of errors) expect(String(error)).toContain('no update of which each part');
  });

  it('do not go back behind an update that all ranks had', async () => {
    const errors = await onRanks(2, ({ group }) =>
      agreeOnState(group, { states: [stateOf(4, 0)], settled: 7 }, 2).catch(
        (error: unknown) => error,
      ),
    );
    for (const error of errors) expect(error).toBeInstanceOf(TensorStateError);
  });
});

/** The elements of the parameters that this rank has. */
const partsOf = async ({ model }: Training): Promise<readonly unknown[]> => {
  const { heldChunks } = await rankContentsOf({ step: 0, model }, singleGroup());
  return Promise.all(
    heldChunks.model.map(async (chunk) => [chunk.name, [...(await chunk.read())]]),
  );
};

describe('a commit', () => {
  it('is a copy that later updates do not change', async () => {
    await onRanks(1, async (rank) => {
      const training = await trained(1, rank);
      const before = await valuesOf(training);
      const random = randomState();
      const committed = await commitState(training, 1);
      manualSeed(5);
      for (const parameter of training.model.parameters()) parameter.assign(parameter.mul(2));
      await valuesOf(training);
      await unpackState(await committed.pack(), training);
      expect(await valuesOf(training)).toEqual(before);
      expect(randomState()).toEqual(random);
      setRandomState(random);
    });
  });

  it('has all ranks go over where one has heard of others', async () => {
    const errors = await onRanks(2, async (rank) => {
      const survivor = survivorOf(rank, { hasChanged: () => rank.rank === 1 });
      const { context } = survivor;
      expect(await context.resume(await trained(0, rank))).toBe(0);
      const error = await context.commit(1).catch((thrown: unknown) => thrown);
      expect(survivor.held).toMatchObject({ states: [{ step: 1 }], settled: 1 });
      return error;
    });
    for (const error of errors) expect(error).toBeInstanceOf(MembershipChange);
  });

  it.each([
    ['FSDP', fsdp(), /the ranks have parts of /],
    ['DDP', ddp(), undefined],
  ] satisfies readonly (readonly [string, Strategy, RegExp | undefined])[])(
    'says whether ranks need each other: %s',
    async (_, strategy, reason) => {
      const reasons = await onRanks(2, async (rank) => {
        manualSeed(1);
        const model = new nn.Sequential(new nn.Linear(4, 4), new nn.Linear(4, 4));
        await parallelize(model, strategy);
        const optimizer = new optim.SGD(model.parameters(), { lr: 0.1 });
        const said: string[] = [];
        const { context } = survivorOf(rank, { onBound: (text) => said.push(text) });
        await context.resume({ model, optimizer });
        await context.commit(1);
        await context.commit(2);
        return said;
      });
      for (const said of reasons) {
        expect(said).toEqual(reason === undefined ? [] : [expect.stringMatching(reason)]);
      }
    },
  );

  it.each([
    ['replicas of FSDP', 'hsdp', 2, undefined],
    ['replicas of two stages', 'stages', 2, undefined],
    ['replicas of which the script does not say the size', 'hsdp', 1, /replicaSize of survive/],
    ['replicas of another size', 'hsdp', 4, undefined],
    ['ranks of which each has a part', 'fsdp', 2, /ranks 0 and 2 have different parts/],
  ] as const)(
    'says whether ranks need each other: %s',
    async (_, division, replicaSize, reason) => {
      const name = division === 'fsdp' ? 'hsdp' : division;
      const axes =
        division === 'fsdp'
          ? [
              { name: 'dp', size: 1 },
              { name: 'shard', size: 4 },
            ]
          : divisions[name].axes(4);
      const reasons = await onRanks(
        4,
        async (rank) => {
          const said: string[] = [];
          const { context } = survivorOf(rank, { replicaSize, onBound: (text) => said.push(text) });
          await context.resume(await trained(0, rank, name));
          await context.commit(1);
          return said;
        },
        { axes },
      );
      for (const said of reasons) {
        expect(said).toEqual(reason === undefined ? [] : [expect.stringMatching(reason)]);
      }
    },
  );

  it('comes after the checkpoint that the run continues from', async () => {
    const place = await mkdtemp(join(tmpdir(), 'shardwise-survivor-'));
    await onRanks(1, async (rank) => {
      const training = await trained(3, rank);
      const values = await valuesOf(training);
      const folder = await checkpoints.save(place, { step: 3, ...training });
      const { context } = survivorOf(rank, { resumeDirectory: folder });
      const fresh = await trained(0, rank);
      expect(await context.resume(fresh)).toBe(3);
      expect(await valuesOf(fresh)).toEqual(values);
      await expect(context.commit(3)).rejects.toThrow('commit(3) after 3');
      await context.commit(4);
    });
  });

  it('is refused before resume, and for a step that is not the next one', async () => {
    await onRanks(1, async (rank) => {
      const { context } = survivorOf(rank);
      await expect(context.commit(1)).rejects.toThrow(ConfigError);
      const training = await trained(0, rank);
      await context.resume(training);
      await expect(context.resume(training)).rejects.toThrow('resume() a second time');
      await context.commit(2);
      await expect(context.commit(2)).rejects.toThrow('commit(2) after 2');
    });
  });

  it('reports at once ranks that were seeded differently', async () => {
    const errors = await onRanks(2, async (rank) => {
      const said: string[] = [];
      const { context } = survivorOf(rank, { onBound: (text) => said.push(text) });
      await context.resume(await trained(0, rank));
      manualSeed(rank.rank);
      const error = await context.commit(1).catch((thrown: unknown) => thrown);
      // The launcher ends all ranks, instead of letting one of the states win.
      expect(said).toEqual(['their states differ']);
      return error;
    });
    for (const error of errors)
      expect(String(error)).toContain('different states there: random numbers');
  });
});
