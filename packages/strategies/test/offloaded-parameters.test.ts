import { hostPages, manualSeed, nn, ones, optim, setRank, tensor } from '@shardwise/core';
import { OffloadedOptimizer } from '@shardwise/strategies';
import { interpreter } from '@shardwise/testing';
import { beforeEach, expect, it } from 'vitest';

beforeEach(() => setRank({ device: interpreter() }));

/**
 * Returns values after three updates of a layer's weight, of a tensor outside the model, and of a tensor that is added
 * later.
 */
async function train(offloads: boolean): Promise<Record<string, number[]>> {
  manualSeed(0);
  const model = new nn.Linear(2, 1);
  const temperature = tensor([0.5]).requiresGrad_();
  const late = tensor([0.25]).requiresGrad_();
  const adam = new optim.AdamW([model.weight, temperature], { lr: 0.1 });
  const pages = { states: hostPages(), parameters: hostPages(), gradients: hostPages() };
  const optimizer = offloads ? new OffloadedOptimizer(model, adam, pages) : adam;
  for (let step = 0; step < 3; step++) {
    if (step === 1) adam.addParamGroup({ params: [late], lr: 0.2 });
    optimizer.zeroGrad();
    const y = model
      .forward(ones([3, 2]))
      .mul(temperature)
      .mul(late);
    y.square().sum().backward();
    await optimizer.step();
  }
  const { weight, bias } = model;
  const values: Record<string, number[]> = {};
  for (const [name, each] of Object.entries({ weight, bias, temperature, late })) {
    values[name] = Array.from((await each?.data()) ?? [], Number);
  }
  return values;
}

it('an OffloadedOptimizer updates what its optimizer has, whether the model has it or not, and nothing else', async () => {
  const expected = await train(false);
  expect(await train(true)).toEqual(expected);
  expect(expected['temperature']).not.toEqual([0.5]);
  expect(expected['late']).not.toEqual([0.25]);
});
