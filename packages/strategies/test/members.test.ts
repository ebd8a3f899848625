import { singleGroup } from '@shardwise/collectives';
import { ConfigError, fromData, LineMesh, nn, optim, setRank } from '@shardwise/core';
import {
  diloco,
  type DiLoCoOptions,
  explain,
  type Members,
  type OuterState,
  parallelize,
  planFor,
} from '@shardwise/strategies';
import { interpreter } from '@shardwise/testing';
import { beforeEach, describe, expect, it } from 'vitest';
import { Answering } from './answering-members.ts';

beforeEach(() => setRank({ device: interpreter(), mesh: new LineMesh('dp', singleGroup()) }));

/** Makes one update by -1 and -slope, and one outer step, and returns what there is then. */
async function afterRound(members: Members, options: Partial<DiLoCoOptions>, slope = 1) {
  const model = new nn.Linear(2, 1, { bias: false });
  model.weight.assign(fromData(Float32Array.of(5, 5), [1, 2], 'f32'));
  const strategy = diloco({ every: 1, outer: { lr: 1, momentum: 0 }, members, ...options });
  const parallel = await parallelize(model, strategy);
  const optimizer = new optim.SGD(model.parameters(), { lr: 1 });
  parallel
    .forward(fromData(Float32Array.of(1, slope), [1, 2], 'f32'))
    .sum()
    .backward();
  await optimizer.step();
  const [fragment] = (await strategy.outer.stateDict()).fragments;
  return {
    values: [...(await model.weight.data())],
    outerSteps: strategy.outer.outerSteps,
    error: fragment?.workerError?.bytes.some((byte) => byte !== 0),
  };
}

describe('an outer step of members', () => {
  it('is the mean of the updates of the round', async () => {
    const twice = new Uint8Array(Float32Array.of(3, 3).buffer);
    const members = new Answering((own) => [own, { ...own, isOwn: false, bytes: twice }]);
    expect(await afterRound(members, {})).toMatchObject({ values: [3, 3], outerSteps: 1 });
  });

  it('changes nothing without a majority that is right, and what was learned is kept', async () => {
    const members = new Answering((own) => [own, own]);
    const found = await afterRound(members, { aggregate: { krum: 1 } });
    expect(found).toMatchObject({ values: [4, 4], outerSteps: 1 });
  });

  it('without this member gives up its update, and owes nothing for it', async () => {
    // 0.3 is no multiple of 1/7, which is what a code of 4 bits stands for here.
    const counted = await afterRound(new Answering((own) => [own]), { bits: 4 }, 0.3);
    expect(counted.error).toBe(true);
    const others = new Answering((own) => [{ ...own, isOwn: false }]);
    expect((await afterRound(others, { bits: 4 }, 0.3)).error).toBe(false);
  });

  it('leaves out what is not finite, and says whose it is', async () => {
    const bytes = new Uint8Array(Float32Array.of(Number.NaN, 0).buffer);
    const other = { number: 2, name: 'other', isOwn: false, bytes };
    const members = new Answering((own) => [own, other]);
    expect(await afterRound(members, {})).toMatchObject({ values: [4, 4] });
    expect(members.refused).toEqual([
      { number: 2, name: 'other', reason: 'values that are not finite' },
    ]);
  });
});

it('a member goes on from a saved state before its first update, and not after it', async () => {
  const train = async (state: object | null): Promise<OuterState> => {
    const model = new nn.Linear(2, 1);
    const strategy = diloco({ every: 1, members: new Answering((own) => [own]) });
    const { outer } = strategy;
    const parallel = await parallelize(model, strategy);
    if (state !== null) outer.loadStateDict(state);
    parallel
      .forward(fromData(Float32Array.of(1, 2), [1, 2], 'f32'))
      .sum()
      .backward();
    await new optim.SGD(model.parameters(), { lr: 0.1 }).step();
    return outer;
  };
  const saved = await (await train(null)).stateDict();
  const outer = await train(saved);
  expect(outer.outerSteps).toBe(2);
  expect(() => outer.loadStateDict(saved)).toThrow(ConfigError);
  expect(() => outer.loadStateDict(saved)).toThrow('before the first optimizer.step()');
  expect(outer.outerSteps).toBe(2);
});

it('a plan says what a member sends and gets', () => {
  const members = new Answering((own) => [own]);
  const plan = planFor(
    new nn.Linear(256, 1, { bias: false }),
    diloco({ every: 2, bits: 4, members }),
  );
  // A scale of 4 bytes, and half a byte for each element.
  expect(explain(plan)).toContain('outer steps: every 2 updates, with members that come and go\n');
  expect(explain(plan)).toContain('sends per step, in the mean: 66; it gets as many from each');
});
