import { singleGroup } from '@shardwise/collectives';
import { ConfigError, fromData, LineMesh, nn, optim, setRank } from '@shardwise/core';
import { diloco, type DiLoCoOptions, explain, parallelize, planFor } from '@shardwise/strategies';
import { interpreter } from '@shardwise/testing';
import { beforeEach, describe, expect, it } from 'vitest';
import { MeetingClock } from '../src/local-sgd/members/meeting-times.ts';
import { Answering } from './answering-members.ts';

beforeEach(() => setRank({ device: interpreter(), mesh: new LineMesh('dp', singleGroup()) }));

const weighted = { every: 1, outer: { lr: 1, momentum: 0 }, weighted: true } as const;
const alone = (): Answering => new Answering((own) => [own]);

/** Makes one update by SGD of the mean loss of rows. Null: without members. Returns the values and the message. */
async function afterUpdate(
  rows: readonly (readonly [number, number])[],
  members: Answering | null,
  options: Partial<DiLoCoOptions> = {},
): Promise<{ readonly values: readonly number[]; readonly message: Uint8Array }> {
  const model = new nn.Linear(2, 1, { bias: false });
  model.weight.assign(fromData(Float32Array.of(1, -1), [1, 2], 'f32'));
  const optimizer = new optim.SGD(model.parameters(), { lr: 0.125 });
  const pass = (forward: typeof model.forward): void => {
    const x = fromData(Float32Array.from(rows.flat()), [rows.length, 2], 'f32');
    forward(x).square().mean().backward();
  };
  if (members === null) {
    pass((x) => model.forward(x));
    await optimizer.step();
  } else {
    const strategy = diloco({ ...weighted, members, ...options });
    const parallel = await parallelize(model, strategy);
    pass((x) => parallel.forward(x));
    strategy.outer.countTokens(rows.length);
    await optimizer.step();
  }
  return {
    values: Array.from(await model.weight.data(), Number),
    message: members?.sent[0] ?? new Uint8Array(),
  };
}

describe('updates that count by their tokens', () => {
  it('give what one rank learns from all tokens, with SGD and an outer lr of 1', async () => {
    const batches = [
      [[1, 2]],
      [[3, 1]],
      [
        [2, -1],
        [0, 4],
      ],
    ] as const;
    const [, second, third] = await Promise.all(
      batches.map((batch) => afterUpdate(batch, alone())),
    );
    const members = new Answering((own) => [
      own,
      ...[second, third].map((other, at) => ({
        number: at + 2,
        name: 'other',
        isOwn: false,
        bytes: other?.message ?? new Uint8Array(),
      })),
    ]);
    const { values } = await afterUpdate(batches[0], members);
    expect(values).toEqual((await afterUpdate(batches.flat(), null)).values);
  });

  it('say their tokens before what was learned, also in four bits', async () => {
    for (const bits of [4, 32] as const) {
      const { message } = await afterUpdate([[1, 2]], alone(), { bits });
      expect(new DataView(message.buffer).getFloat64(0, true)).toBe(1);
      expect(message).toHaveLength(8 + (bits === 32 ? 8 : 5));
    }
  });

  it.each([
    // A fragment is sent after two updates, and then after four more.
    [0, [20, 40, 40, 40]],
    // What was learned while the message was on its way is given up with its tokens.
    [1, [10, 30, 30, 30]],
  ] as const)(
    'count for each fragment since it had the values of all, with a delay of %i',
    async (fragmentSyncDelay, expected) => {
      const members = alone();
      const model = new nn.Linear(2, 1);
      const times = { every: 4, fragments: 2, fragmentSyncDelay };
      const strategy = diloco({ ...weighted, ...times, members });
      const parallel = await parallelize(model, strategy);
      const optimizer = new optim.SGD(model.parameters(), { lr: 0.1 });
      for (let update = 0; update < 8; update++) {
        optimizer.zeroGrad();
        parallel
          .forward(fromData(Float32Array.of(1, 2), [1, 2], 'f32'))
          .sum()
          .backward();
        strategy.outer.countTokens(10);
        await optimizer.step();
      }
      const tokens = members.sent.map((each) => new DataView(each.buffer).getFloat64(0, true));
      expect(tokens).toEqual(expected);
    },
  );

  it('count on after a checkpoint between two outer steps', async () => {
    /** Makes updates of 10 tokens each, which go on from a state. */
    const train = async (updates: number, state: object | null) => {
      const members = alone();
      const model = new nn.Linear(2, 1);
      const strategy = diloco({ ...weighted, every: 4, members });
      const { outer } = strategy;
      const parallel = await parallelize(model, strategy);
      if (state !== null) outer.loadStateDict(state);
      const optimizer = new optim.SGD(model.parameters(), { lr: 0.1 });
      const x = fromData(Float32Array.of(1, 2), [1, 2], 'f32');
      for (let update = 0; update < updates; update++) {
        optimizer.zeroGrad();
        parallel.forward(x).sum().backward();
        outer.countTokens(10);
        await optimizer.step();
      }
      const [message] = members.sent;
      const tokens = message && new DataView(message.buffer).getFloat64(0, true);
      return { tokens, saved: await outer.stateDict() };
    };
    const { saved } = await train(3, null);
    expect((await train(4, saved)).tokens).toBe(70);
    const earlier = saved.fragments.map(({ tokens: _, ...fragment }) => fragment);
    expect((await train(4, { ...saved, fragments: earlier })).tokens).toBe(40);
  });

  it('that were not counted are an error', async () => {
    const model = new nn.Linear(2, 1);
    const strategy = diloco({ ...weighted, members: alone() });
    const parallel = await parallelize(model, strategy);
    const optimizer = new optim.SGD(model.parameters(), { lr: 1 });
    parallel
      .forward(fromData(Float32Array.of(1, 2), [1, 2], 'f32'))
      .sum()
      .backward();
    await expect(optimizer.step()).rejects.toThrow('Call strategy.outer.countTokens(tokens)');
    expect(() => strategy.outer.countTokens(0.5)).toThrow(
      'a value that is not a whole number from 1',
    );
  });

  it('are an error where tokens do not count', async () => {
    const strategy = diloco({ every: 2, members: alone() });
    await parallelize(new nn.Linear(2, 1), strategy);
    expect(() => strategy.outer.countTokens(3)).toThrow('Give diloco `weighted: true`');
  });

  it('need members and the mean, and no audits', () => {
    const members = alone();
    const audit = {
      samples: 1,
      batchSize: 1,
      optimizer: () => new optim.SGD([], { lr: 1 }),
      step: () => Promise.resolve(0),
    };
    for (const options of [
      { every: 1, weighted: true },
      { every: 1, weighted: true, members, aggregate: 'median' },
      { every: 2, weighted: true, members, audit },
      { every: { seconds: 60 }, members },
      { every: { seconds: 60 } },
      { every: { seconds: 0 }, weighted: true, members },
    ] as const) {
      expect(() => diloco(options)).toThrow(ConfigError);
    }
  });
});

describe('rounds of a time', () => {
  it('are what members of a run must have in common, in the place of a number of updates', async () => {
    const members = alone();
    const strategy = diloco({ ...weighted, every: { seconds: 60 }, members });
    const model = new nn.Linear(256, 1, { bias: false });
    const parallel = await parallelize(model, strategy);
    const optimizer = new optim.SGD(model.parameters(), { lr: 1 });
    parallel
      .forward(fromData(new Float32Array(256), [1, 256], 'f32'))
      .sum()
      .backward();
    await optimizer.step();
    expect(JSON.parse(members.run?.settings ?? '')).toMatchObject({
      every: { seconds: 60 },
      weighted: true,
    });
    expect(members.run?.messageBytes).toEqual([8 + 4 * 256]);
    const plan = planFor(
      new nn.Linear(256, 1, { bias: false }),
      diloco({ ...weighted, every: { seconds: 60 }, members }),
    );
    expect(explain(plan)).toContain('outer steps: every 60 s, with members that come and go\n');
    expect(explain(plan)).toContain('a member sends in this time: 1032; it gets');
  });

  it('end after an update, and the outer step follows after the delay', async () => {
    let nowMs = 5000;
    const clock = new MeetingClock({ period: { seconds: 2 }, delay: 2 }, () =>
      Promise.resolve(nowMs),
    );
    const seen: string[] = [];
    for (let updates = 1; updates <= 6; updates++) {
      nowMs += 900;
      if (await clock.sends(updates)) seen.push(`sends after ${updates}`);
      if (!clock.meets(updates)) continue;
      seen.push(`meets after ${updates}`);
      break;
    }
    expect(seen).toEqual(['sends after 4', 'meets after 6']);
    await clock.begin();
    expect(await clock.sends(1)).toBe(false);
    nowMs += 2000;
    expect([await clock.sends(2), clock.meets(2)]).toEqual([true, false]);
    expect([await clock.sends(3), clock.meets(4)]).toEqual([false, true]);
  });
});
