import { RefusedError } from '@shardwise/core/spec';
import { describe, expect, it } from 'vitest';
import { asMember } from './as-member.ts';
import { VirtualNetwork } from './virtual-network.ts';

describe('members that come and go', () => {
  it('take the mean of what they have learned, and a newcomer takes their state', async () => {
    const network = new VirtualNetwork(1);
    const arrived = Promise.withResolvers<void>();
    let last = Infinity;
    const first = asMember(network, 'first', {}, async ({ update, values, outerSteps }) => {
      await update(1);
      expect(await values()).toEqual([-1, -2]);
      arrived.resolve();
      // The other one waits for the state after a round, and then takes part in the next one.
      while (outerSteps() < last) await update(1);
      return values();
    });
    await network.run(arrived.promise);
    const second = asMember(
      network,
      'second',
      { values: [70, 80] },
      async ({ update, values, outerSteps }) => {
        await update(3);
        const joined = outerSteps();
        last = joined + 4;
        while (outerSteps() < last) await update(3);
        return { joined, values: await values() };
      },
    );
    const [own, other] = await network.run(Promise.all([first, second]));
    expect(other.joined).toBeGreaterThan(1);
    expect(other.values).toEqual(own);
    // Rounds of the first alone learn 1, and those of both 2.
    expect(own[0]).toBe(-(other.joined - 1 + 2 * 5));
  });

  it('of another model or with other settings are refused', async () => {
    const network = new VirtualNetwork(2);
    const begun = Promise.withResolvers<void>();
    const over = Promise.withResolvers<void>();
    const first = asMember(network, 'first', {}, async ({ update }) => {
      await update(1);
      begun.resolve();
      await over.promise;
    });
    await network.run(begun.promise);
    const refused = async (options: Parameters<typeof asMember>[2]): Promise<unknown> => {
      const joining = asMember(network, 'other', options, ({ update }) => update(1));
      return network.run(joining).catch((error: unknown) => (error as Error).cause);
    };
    for (const options of [{ values: [1, 2, 3] }, { bits: 4 }, { every: 3 }] as const) {
      const error = await refused(options);
      expect(error).toBeInstanceOf(RefusedError);
      expect((error as RefusedError).fields).toEqual({ refusal: 'model' });
    }
    over.resolve();
    await network.run(first);
  });
});
