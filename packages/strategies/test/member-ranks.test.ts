import { createGroup, createLoopbackTransports } from '@shardwise/collectives';
import { expect, it, vi } from 'vitest';
import { ChangingGroup } from '../src/local-sgd/members/changing-group.ts';
import { MemberRanks } from '../src/local-sgd/members/member-ranks.ts';
import { Answering } from './answering-members.ts';

it('the ranks of a member have the time of rank 0 and the tokens of all, and only rank 0 speaks', async () => {
  const run = { model: 'weight [2]', settings: '{}', messageBytes: [16], stateBytes: 16 };
  const [checks, agreements] = [0, 1].map(() =>
    createLoopbackTransports(2).map((transport) => createGroup(transport)),
  );
  const members = [0, 1].map(() => new Answering((own) => [own]));
  const ranks = members.map((each, rank) => {
    const [own, other] = [checks?.[rank], agreements?.[rank]];
    if (own === undefined || other === undefined) throw new RangeError('two ranks');
    const member = new ChangingGroup(each, run, {
      bits: 32,
      aggregation: { rule: 'mean', faulty: 0 },
      elements: [2],
      isAudited: false,
      isWeighted: true,
    });
    const common = { strategy: 'diloco', elements: [2], stateBytes: 16 };
    return new MemberRanks(member, { ...common, checks: own, agreements: other });
  });
  let time = 0;
  vi.spyOn(performance, 'now').mockImplementation(() => (time += 1000));
  const [first, second] = await Promise.all(ranks.map((each) => each.now()));
  vi.restoreAllMocks();
  expect(first).toBeGreaterThan(0);
  expect(second).toBe(first);
  const agree = (counted: readonly number[]): Promise<unknown> =>
    Promise.all(
      ranks.map((each, rank) => {
        const values = Float32Array.of(rank + 1, 5);
        return each.agree({ values, tokens: counted[rank] ?? 0, errors: null, completed: 0 });
      }),
    );
  const vector = Float32Array.of(1, 5);
  expect(await agree([3, 4])).toEqual([
    { kind: 'vector', vector },
    { kind: 'vector', vector },
  ]);
  expect(members.map(({ sent }) => sent.length)).toEqual([1, 0]);
  const [message = new Uint8Array()] = members[0]?.sent ?? [];
  expect(new DataView(message.buffer).getFloat64(0, true)).toBe(7);
  const ended = await Promise.allSettled(
    ranks.map((each, rank) =>
      each.agree({ values: new Float32Array(2), tokens: rank, errors: null, completed: 1 }),
    ),
  );
  for (const each of ended) {
    expect(each.status === 'rejected' && String(each.reason)).toContain('countTokens(tokens)');
  }
  // One that leaves with a message on its way does not end what its ranks do together.
  await Promise.all((agreements ?? []).map((group) => group.barrier()));
  for (const group of [...(checks ?? []), ...(agreements ?? [])]) group.close();
});
