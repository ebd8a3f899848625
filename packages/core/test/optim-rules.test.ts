import { interpreter } from '@shardwise/testing';
import { beforeEach, describe, expect, it } from 'vitest';
import { Optimizer, type UpdateRule } from '../src/optim/optimizer.ts';
import type { OptimizerSettings } from '../src/optim/param-group.ts';
import { setRank } from '../src/rank.ts';
import { tensor, zeros } from '../src/tensor/create.ts';
import type { Tensor } from '../src/tensor/tensor.ts';

beforeEach(() => setRank({ device: interpreter() }));

/** An optimizer that a user has written. */
class Own extends Optimizer {
  readonly #rule: UpdateRule;

  constructor(params: Iterable<Tensor>, rule: UpdateRule) {
    super(params, {}, { lr: 1 });
    this.#rule = rule;
  }

  protected override rule(_settings: OptimizerSettings): UpdateRule {
    return this.#rule;
  }

  protected override checkSettings(): void {}
}

function trained(...values: number[]): Tensor {
  const parameter = tensor(values).requiresGrad_();
  parameter.square().sum().backward();
  return parameter;
}

describe('an update rule', () => {
  it('that assigns nothing is refused: nothing would be trained', async () => {
    const optimizer = new Own([trained(1, 2)], (parameter, gradient) => parameter.sub(gradient));
    await expect(optimizer.step()).rejects.toThrow(
      'the update rule of Own for a parameter of shape [2]: it has assigned nothing to the parameter. Write parameter.assign(…)',
    );
  });

  it('that is async is refused: what follows an await would not be part of the step', async () => {
    const rule: unknown = async (parameter: Tensor, gradient: Tensor) => {
      const norm = await gradient.square().sum().item();
      parameter.assign(parameter.sub(gradient.div(norm)));
    };
    const optimizer = new Own([trained(1)], rule as UpdateRule);
    await expect(optimizer.step()).rejects.toThrow(
      'the update rule of Own with a body that returns a promise',
    );
  });

  it('that is none is refused', async () => {
    const optimizer = new Own([trained(1)], undefined as never);
    await expect(optimizer.step()).rejects.toThrow('rule() returned undefined. Return a function');
  });

  it('that fails for a parameter leaves all as they were, and their counts of steps', async () => {
    const [first, second] = [trained(3), trained(1, 2)];
    let isWrong = true;
    const optimizer = new Own([first, second], (parameter, gradient, state) => {
      const sum = state.tensor('sum');
      sum.assign(sum.add(gradient));
      parameter.assign(parameter.sub(gradient));
      parameter.assign(isWrong && parameter === second ? gradient.sum() : parameter.mul(1));
    });
    await expect(optimizer.step()).rejects.toThrow(/assign/);
    await zeros([1]).add(1).data();
    expect(await first.item()).toBe(3);
    expect(optimizer.stateOf(first)?.steps).toBe(0);
    isWrong = false;
    await optimizer.step();
    expect(await first.item()).toBe(-3);
    expect(await optimizer.stateOf(first)?.tensor('sum').item()).toBe(6);
    expect([...(await second.data())]).toEqual([-1, -2]);
  });
});
