import { nn, optim, setRank, LineMesh, type Tensor, fromData } from '@shardwise/core';
import { singleGroup } from '@shardwise/collectives';
import { interpreter } from '@shardwise/testing';
import { onRanks } from '@shardwise/testing/node';
import { diloco, type DiLoCoOptions, parallelize } from '@shardwise/strategies';
import { RefusedError } from '@shardwise/core/spec';
import { describe, expect, it } from 'vitest';
import type { RunMember } from '../../src/together/member/run-member.ts';
import { VirtualNetwork } from './virtual-network.ts';

/** A model with one parameter, whose gradient is what the loss multiplies it by. */
class Line extends nn.Module {
  readonly weight: nn.Parameter;

  constructor(values: readonly number[]) {
    super();
    this.weight = new nn.Parameter(Float32Array.from(values), [values.length]);
  }

  override forward(slope: Tensor): Tensor {
    return this.weight.mul(slope).sum();
  }
}

/** A member with a model, which learns `slope` per update. */
interface Trainer {
  readonly member: RunMember;
  readonly outerSteps: () => number;
  /** Makes an update by SGD with lr 1. */
  readonly update: (slope: number) => Promise<void>;
  readonly values: () => Promise<readonly number[]>;
}

/** Runs `body` with a member of its own, as if it had a thread of its own. */
async function asMember<T>(
  network: VirtualNetwork,
  name: string,
  options: Partial<DiLoCoOptions> & { readonly values?: readonly number[] },
  body: (trainer: Trainer) => Promise<T>,
): Promise<T> {
  const { values = [0, 0], ...settings } = options;
  const [result] = await onRanks(
    1,
    async () => {
      setRank({ device: interpreter(), mesh: new LineMesh('dp', singleGroup()) });
      const member = network.member(name);
      await member.connect();
      const model = new Line(values);
      const strategy = diloco({
        every: 1,
        outer: { lr: 1, momentum: 0 },
        members: member,
        ...settings,
      });
      const parallel = await parallelize(model, strategy);
      const optimizer = new optim.SGD(model.parameters(), { lr: 1 });
      const trained = await body({
        member,
        outerSteps: () => strategy.outer.outerSteps,
        async update(slope) {
          const slopes = fromData(
            Float32Array.from(values, (_, at) => (at + 1) * slope),
            [values.length],
            'f32',
          );
          parallel.forward(slopes).backward();
          await optimizer.step();
          optimizer.zeroGrad();
        },
        values: async () => Array.from(await model.weight.data(), Number),
      });
      member.close();
      return { trained };
    },
    { idleTimeoutMs: 60_000 },
  );
  if (result === undefined) throw new RangeError('one rank');
  return result.trained;
}

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
