import { createGroup, createLoopbackTransports } from '@shardwise/collectives';
import { nn, setRank } from '@shardwise/core';
import { interpreter } from '@shardwise/testing';
import { expect, it } from 'vitest';
import { Fragment, type Meeting } from '../src/local-sgd/fragment.ts';
import { FixedGroup } from '../src/local-sgd/members/fixed-group.ts';
import { MeetingClock } from '../src/local-sgd/members/meeting-times.ts';
import { OuterUpdater } from '../src/local-sgd/outer-updater.ts';

it('a rank goes on with updates while a message is on its way, and waits for it in the outer step', async () => {
  setRank({ device: interpreter() });
  const [own, other] = createLoopbackTransports(2).map((transport) => createGroup(transport));
  if (own === undefined || other === undefined) throw new RangeError('two ranks');
  const parameter = new nn.Parameter(Float32Array.of(1, 3), [2]);
  const fragment = new Fragment([['weight', parameter]]);
  const meeting: Meeting = {
    group: new FixedGroup('localSgd', own, {
      bits: 32,
      aggregation: { rule: 'mean', faulty: 0 },
    }),
    outer: null,
    bits: 32,
    alpha: 0,
  };
  fragment.restore({ anchor: new Float32Array(2), momentum: null, errors: null }, null, 0);
  const clock = new MeetingClock({ period: 3, delay: 2 }, () => Promise.resolve(0));
  const updater = new OuterUpdater('localSgd', [fragment], meeting, clock, null);
  let updates = 0;
  const update = async (): Promise<void> => {
    const updateHere = async (): Promise<void> => void updates++;
    await updater.step({
      optimizer: 'SGD',
      groups: [{ params: [parameter], settings: {} }],
      updateHere,
    });
  };
  // The other rank does not answer yet.
  await update();
  await update();
  let isOver = false;
  const last = update().then(() => void (isOver = true));
  await expect.poll(() => updates).toBe(3);
  expect(isOver).toBe(false);
  expect(updater.progress).toEqual({ updates: 3, outerSteps: 0 });
  const values = Float32Array.of(3, 5);
  await other.allReduce({ bytes: new Uint8Array(values.buffer), dtype: 'f32' }, 'avg');
  await last;
  expect([...(await parameter.data())]).toEqual([2, 4]);
  expect(updater.progress).toEqual({ updates: 0, outerSteps: 1 });
  for (const group of [own, other]) group.close();
});
